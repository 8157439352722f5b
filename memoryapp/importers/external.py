"""Exports of other programs that cannot be read; they are recognised so that the refusal can name them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from django.utils.functional import Promise
from django.utils.text import format_lazy
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from memoryapp.importers.record import UnreadableFile, fields, items

_LINES_LOOKED_AT = 20
_PAGE_NAME = re.compile(r"(?:.*/)?messages\d*\.html")
_PACKAGE_NAME = re.compile(r"(?:.*/)?messages/c?\d+/messages\.(?:json|csv)", re.IGNORECASE)
_SLACK_NAMES = {"channels.json", "dms.json", "groups.json", "mpims.json"}

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
DISCORD_TEXT = gettext_lazy("a Discord export as text or CSV (export it again as JSON)")
TELEGRAM_PAGE = gettext_lazy("a Telegram export as a web page (export it again as machine-readable JSON)")


def _export_of(program: str) -> Promise:
    """Returns the kind of a program whose name is the same in all languages."""
    return format_lazy(gettext_lazy("an export of {program}"), program=program)


VK = _export_of("VK")
WECHAT = _export_of("WeChat")
VIBER = _export_of("Viber")
CLINE = _export_of("Cline")
QWEN = _export_of("Qwen")
OPENCODE = _export_of("OpenCode")
CURSOR = _export_of("Cursor")
MCP_MEMORY = _export_of("MCP Memory")
NEXTCHAT = _export_of("NextChat")
IMESSAGE = _export_of("imessage-exporter")
SMS_BACKUP = _export_of("SMS Backup & Restore")
IRC = _export_of("IRC")


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
    _shape(CLINE, "0", "ts type say"),
    _shape(CLINE, "0", "ts type ask"),
    _shape(SLACK, "0", "type ts user text"),
    _shape(SLACK, "0", "id team_id profile"),
    _shape(SLACK, "0", "id creator members"),
    _shape(TAKEOUT, "0", "header title time"),
    _shape(TAKEOUT, "messages 0", "creator created_date"),
    _shape(TAKEOUT, "conversations 0 events 0", "conversation_id sender_id timestamp"),
    _shape(META, "messages 0", "sender_name timestamp_ms"),
    _shape(META, "messages 0", "senderName timestamp"),
    _shape(ZEP, "messages 0", "role_type content"),
    _shape(ZEP, "0", "role_type content"),
    _shape(ZEP, "facts 0", "uuid fact"),
    _shape(ZEP, "edges 0", "uuid fact"),
    _shape(ZEP, "0", "uuid fact"),
    _shape(ZEP, "sessions 0", "session_id user_id"),
    _shape(ZEP, "episodes 0", "uuid content source"),
    _shape(QWEN, "message", "role parts"),
    _shape(QWEN, "data 0 chat history", "messages currentId"),
    _shape(GEMINI, "", "sessionId projectHash"),
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
    _shape(LOBECHAT, "", "data mode schemaHash"),
    _shape(GROK, "conversations 0", "conversation responses"),
    _shape(DEEPSEEK, "0 mapping * message", "fragments"),
    _shape(DEEPSEEK, "mapping * message", "fragments"),
    _shape(DEEPSEEK, "0 mapping * message", "inserted_at"),
    _shape(DEEPSEEK, "mapping * message", "inserted_at"),
    _shape(MATRIX, "", "room_name exported_by messages"),
    *(_shape(MATRIX, path, "event_id sender origin_server_ts") for path in ("messages 0", "chunk 0", "0", "")),
    *(_shape(SKYPE, path, "messageType body createdDateTime") for path in ("value 0", "messages 0", "0", "")),
    *(_shape(VK, path, "peer_id from_id text") for path in ("response items 0", "items 0", "0")),
    *(_shape(WECHAT, path, "type_name is_sender talker") for path in ("0", "")),
    _shape(WECHAT, "messages 0", "localId createTime isSend"),
    _shape(DISCORD_PACKAGE, "0", "ID Timestamp Contents"),
    _shape(SILLY_TAVERN, "", "user_name character_name"),
    _shape(COPILOT, "", "requesterUsername requests"),
    _shape(COPILOT, "", "sessionId requests"),
    _shape(COPILOT, "v", "requests"),
    _shape(COPILOT, "", "type data id timestamp parentId"),
    _shape(CURSOR, "", "composerId conversation"),
    _shape(OPENCODE, "messages 0", "info parts"),
    _shape(MCP_MEMORY, "", "entityType observations"),
    _shape(MCP_MEMORY, "entities 0", "entityType observations"),
    _shape(NEXTCHAT, "chat-next-web-store", "sessions"),
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
        return keys <= fields(value).keys() and not _is_ours(fields(value))
    here, rest = path[0], path[1:]
    if here == "0":
        return any(_fits(item, rest, keys) for item in items(value)[:_LINES_LOOKED_AT])
    if here == "*":
        return any(_fits(item, rest, keys) for item in list(fields(value).values())[:_LINES_LOOKED_AT])
    return here in fields(value) and _fits(fields(value)[here], rest, keys)


def _is_ours(value: Mapping[str, Any]) -> bool:
    """Whether a message has what our own format needs; those of other programs lack a part of it."""
    return {"id", "text"} <= value.keys() and not {"role", "ts"}.isdisjoint(value.keys())


# How the first line of a text begins, or the head of a table; as the programs or their exporters write it.
_BEGINNINGS: tuple[tuple[str, Kind], ...] = (
    ("[LINE]", LINE),
    ("Conversation,Time,Author,Message", ACTIVITY),
    ("AuthorID,Author,Date,Content", DISCORD_TEXT),
    ("ID,Timestamp,Contents,Attachments", DISCORD_PACKAGE),
    ("MsgSvrID,type_name,is_sender", WECHAT),
    ("--- Log opened ", IRC),
)
# Lines by which a text is known; those of WhatsApp have another order.
_LINES = (
    (re.compile(r"^=+\nGuild: .*\nChannel: ", re.MULTILINE), DISCORD_TEXT),
    (re.compile(r"^(?:[^\W\d]{1,4} ?)?\d{1,2}:\d\d\t[^\t\n]{1,60}\t", re.MULTILINE), LINE),
    (re.compile(r"^\d\d/\d\d/\d{4},\d\d:\d\d:\d\d,[^,\n]{1,60},", re.MULTILINE), VIBER),
    (
        re.compile(
            r"^[A-Z][a-z]{2} \d\d, \d{4} {1,2}\d{1,2}:\d\d:\d\d [AP]M(?: \(Read by [^)\n]{1,80}\))?$", re.MULTILINE
        ),
        IMESSAGE,
    ),
)


def text(beginning: str) -> Kind:
    """Returns the kind of a text that is not JSON, or empty."""
    beginning = beginning.lstrip("\ufeff \r\n")[:2_000].replace("\r\n", "\n")
    if beginning.lower().startswith(("<!doctype html", "<html")):
        return TELEGRAM_PAGE if "<title>Exported Data</title>" in beginning else PAGE
    if beginning.startswith("<?xml") and "<smses" in beginning:
        return SMS_BACKUP
    first = beginning.partition("\n")[0].replace('"', "")
    by_line = (kind for expression, kind in _LINES if expression.search(beginning))
    return next((kind for start, kind in _BEGINNINGS if first.startswith(start)), "") or next(by_line, "")


def archive(names: Sequence[str]) -> Kind:
    """Returns the kind of an archive with these files, or empty."""
    if any(name.startswith("Takeout/") for name in names):
        return TAKEOUT
    # An export that was unpacked and packed again has a folder around it.
    top = {name.rpartition("/")[2] for name in names if name.count("/") < 2}
    if "users.json" in top and _SLACK_NAMES & top:
        return SLACK
    if any(_PACKAGE_NAME.fullmatch(name) for name in names):
        return DISCORD_PACKAGE
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
