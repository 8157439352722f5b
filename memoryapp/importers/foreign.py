"""Exports of other programs that cannot be read; they are recognised so that the refusal can name them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from memoryapp.importers.record import UnreadableFile
from memoryapp.importers.shapes import fields, items

_LINES_LOOKED_AT = 20
_PAGE_NAME = re.compile(r"(?:.*/)?messages\d*\.html")

Kind = str | Promise

SLACK = gettext_lazy("a Slack export")
TAKEOUT = gettext_lazy("a Google Takeout export")
META = gettext_lazy("a Facebook or Instagram export")
ZEP = gettext_lazy("a dump of Zep")
GEMINI = gettext_lazy("a chat of Gemini CLI or Google AI Studio")
SIGNAL = gettext_lazy("a Signal export")
SKYPE = gettext_lazy("a Skype or Teams export")
LIBRECHAT = gettext_lazy("a LibreChat export")
LOBECHAT = gettext_lazy("a LobeChat export")
GROK = gettext_lazy("a Grok export")
DEEPSEEK = gettext_lazy("a DeepSeek export")
MATRIX = gettext_lazy("a Matrix export")
DISCORD_PACKAGE = gettext_lazy("a data package of Discord, which has only your own words (DiscordChatExporter has all)")
SILLY_TAVERN = gettext_lazy("a SillyTavern chat")
COPILOT = gettext_lazy("a GitHub Copilot chat")
PAGE = gettext_lazy("a web page (HTML)")
CHARACTER = gettext_lazy("an export of Character.AI")
ACTIVITY = gettext_lazy("an export of Copilot's activity")
INSTRUCTIONS = gettext_lazy("a data set of instructions, which has no chats")
CLAUDE_BESIDE = gettext_lazy("a part of Claude's export without chats (they are in conversations.json)")
LINE = gettext_lazy("a chat of LINE")
KAKAO = gettext_lazy("a chat of KakaoTalk")


@dataclass(frozen=True, slots=True)
class ForeignShape:
    """Another program's JSON is known by ``keys`` of the value at a path of names, where ``0`` is the first item."""

    kind: Kind
    path: tuple[str, ...]
    keys: frozenset[str]


def _shape(kind: Kind, path: str, keys: str) -> ForeignShape:
    return ForeignShape(kind, tuple(path.split()), frozenset(keys.split()))


# Paths and keys from the programs' own exporters, or from what others wrote to read them.
_SHAPES = (
    _shape(SLACK, "0", "type ts user text"),
    _shape(TAKEOUT, "0", "header title time"),
    _shape(TAKEOUT, "messages 0", "creator created_date"),
    _shape(META, "messages 0", "sender_name timestamp_ms"),
    _shape(ZEP, "messages 0", "role_type content"),
    _shape(ZEP, "0", "role_type content"),
    _shape(ZEP, "facts 0", "uuid fact"),
    _shape(ZEP, "edges 0", "uuid fact"),
    _shape(ZEP, "0", "uuid fact"),
    _shape(GEMINI, "", "sessionId projectHash messages"),
    _shape(GEMINI, "0", "sessionId messageId message type"),
    _shape(GEMINI, "0", "role parts"),
    _shape(GEMINI, "history 0", "role parts"),
    _shape(GEMINI, "", "chunkedPrompt"),
    _shape(SIGNAL, "", "version backupTimeMs"),
    _shape(SIGNAL, "chatItem", "chatId dateSent"),
    _shape(SIGNAL, "", "sender date body quote"),
    _shape(SIGNAL, "0", "sender date body quote"),
    _shape(SIGNAL, "envelope", "source timestamp"),
    _shape(SKYPE, "conversations 0", "MessageList"),
    _shape(LIBRECHAT, "", "conversationId messages"),
    _shape(LIBRECHAT, "0", "messageId parentMessageId isCreatedByUser"),
    _shape(LOBECHAT, "", "exportType state"),
    _shape(GROK, "conversations 0", "conversation responses"),
    _shape(DEEPSEEK, "0 mapping * message", "fragments"),
    _shape(DEEPSEEK, "mapping * message", "fragments"),
    _shape(MATRIX, "", "room_name exported_by messages"),
    _shape(MATRIX, "messages 0", "event_id sender origin_server_ts"),
    _shape(DISCORD_PACKAGE, "0", "ID Timestamp Contents"),
    _shape(SILLY_TAVERN, "", "user_name character_name"),
    _shape(COPILOT, "", "requesterUsername requests"),
    _shape(SLACK, "0", "type ts text"),
    _shape(GEMINI, "contents 0", "role parts"),
    _shape(CHARACTER, "histories 0", "msgs"),
    _shape(CHARACTER, "histories histories 0", "msgs"),
    _shape(CHARACTER, "turns 0", "turn_key candidates"),
    _shape(CHARACTER, "chats 0 turns 0", "turn_key candidates"),
    _shape(INSTRUCTIONS, "", "instruction output"),
    _shape(INSTRUCTIONS, "", "prompt chosen rejected"),
    _shape(INSTRUCTIONS, "0", "instruction output"),
    _shape(INSTRUCTIONS, "0", "prompt chosen rejected"),
    _shape(CLAUDE_BESIDE, "0", "uuid docs prompt_template"),
    _shape(CLAUDE_BESIDE, "0", "uuid full_name email_address"),
    _shape(CLAUDE_BESIDE, "0", "conversations_memory"),
)


def refuse(name: str, kind: Kind) -> None:
    """Raises UnreadableFile unless ``kind`` is empty."""
    if kind:
        raise UnreadableFile(_("%(path)s is %(kind)s; it cannot be read yet.") % {"path": name, "kind": kind})


def document(value: object) -> Kind:
    """Returns the kind of another program's JSON document, or empty; ``value`` may be only its beginning."""
    return next((shape.kind for shape in _SHAPES if _fits(value, shape.path, shape.keys)), "")


def _fits(value: object, path: Sequence[str], keys: frozenset[str]) -> bool:
    """Whether a value at the path has the keys; ``0`` is one of the first items of a list, ``*`` any of an object."""
    if not path:
        # A message with an id and a text is in our own format; those of other programs lack one of them.
        return keys <= fields(value).keys() and not {"id", "text"} <= fields(value).keys()
    here, rest = path[0], path[1:]
    if here == "0":
        return any(_fits(item, rest, keys) for item in items(value)[:_LINES_LOOKED_AT])
    if here == "*":
        return any(_fits(item, rest, keys) for item in list(fields(value).values())[:_LINES_LOOKED_AT])
    return here in fields(value) and _fits(fields(value)[here], rest, keys)


def text(beginning: str) -> Kind:
    """Returns the kind of a text that is not JSON, or empty."""
    beginning = beginning.lstrip("\ufeff \r\n")[:200]
    if beginning.lower().startswith(("<!doctype html", "<html")):
        return PAGE
    # The first line names the program and the chat.
    first = beginning.partition("\n")[0]
    if first.startswith("[LINE]"):
        return LINE
    if first.replace('"', "").strip() == "Conversation,Time,Author,Message":
        return ACTIVITY
    return KAKAO if "카카오톡" in first or "KakaoTalk" in first else ""


def archive(names: Sequence[str]) -> Kind:
    """Returns the kind of an archive with these files, or empty."""
    if any(name.startswith("Takeout/") for name in names):
        return TAKEOUT
    if {"channels.json", "users.json"} <= set(names):
        return SLACK
    return PAGE if any(_PAGE_NAME.fullmatch(name) for name in names) else ""


def refuse_lines(name: str, line: Mapping[str, Any]) -> NoReturn:
    """Raises UnreadableFile for JSON Lines; ``line`` is the first of them."""
    refuse(name, document(line) or document([line]))
    raise UnreadableFile(
        _(
            "%(path)s is JSON Lines of another kind: its first line holds %(fields)s. A line here holds user and "
            "messages, and a message id, role, ts and text."
        )
        % {"path": name, "fields": ", ".join(str(field)[:30] for field in list(line)[:6]) or "{}"}
    )
