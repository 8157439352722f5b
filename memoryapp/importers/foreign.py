"""What other programs export, told by its shape, so that it can be named where it cannot be read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from memoryapp.importers.record import UnreadableFile

_LINES_LOOKED_AT = 20
# "31.12.24, 23:59 - Anna: text" and "[31/12/2024, 11:59:01 PM] Anna: text".
_WHATSAPP = re.compile(r"\u200e?\[?\d{1,4}[./-] ?\d{1,2}[./-] ?\d{1,4}\.?,? [^-\]]{4,20}(?: - |\] )\S")
_WHATSAPP_NAME = re.compile(r"_chat\.txt|WhatsApp Chat[^/]*\.txt")
_PAGE_NAME = re.compile(r"(?:.*/)?messages\d*\.html")

Kind = str | Promise

CLAUDE = gettext_lazy("a Claude export")
SLACK = gettext_lazy("a Slack export")
TAKEOUT = gettext_lazy("a Google Takeout export")
OPENAI = gettext_lazy("a list of OpenAI messages")
META = gettext_lazy("a Facebook or Instagram export")
WHATSAPP = gettext_lazy("a WhatsApp export")
PAGE = gettext_lazy("a web page (HTML)")

# The fields by which an item of each program's list of messages or conversations is known.
_ITEMS: list[tuple[Kind, set[str]]] = [
    (CLAUDE, {"chat_messages"}),
    (SLACK, {"type", "ts", "user", "text"}),
    (TAKEOUT, {"header", "title", "time"}),
    (OPENAI, {"role", "content"}),
]
_MESSAGES: list[tuple[Kind, set[str]]] = [
    (TAKEOUT, {"creator", "created_date"}),
    (META, {"sender_name", "timestamp_ms"}),
    (OPENAI, {"role", "content"}),
]


def refuse(name: str, kind: Kind) -> None:
    """Raises UnreadableFile if a kind is given."""
    if kind:
        raise UnreadableFile(_("%(path)s is %(kind)s; it cannot be read yet.") % {"path": name, "kind": kind})


def document(value: object) -> Kind:
    """What a JSON document of another program is (perhaps only its beginning is given), or nothing."""
    if isinstance(value, list):
        return next((kind for item in value[:_LINES_LOOKED_AT] if (kind := _of(item, _ITEMS))), "")
    if not isinstance(value, Mapping):
        return ""
    messages = value.get("messages")
    if isinstance(messages, list) and messages:
        return _of(messages[0], _MESSAGES)
    return _of(value, _ITEMS[:1])


def _of(item: object, shapes: Sequence[tuple[Kind, set[str]]]) -> Kind:
    # A message with an id and a text is ours, whatever else it holds; Slack's have no id.
    if not isinstance(item, Mapping) or {"id", "text"} <= item.keys():
        return ""
    return next((kind for kind, fields in shapes if fields <= item.keys()), "")


def text(beginning: str) -> Kind:
    """What a text that is no JSON is, or nothing."""
    lines = beginning.lstrip("\ufeff").splitlines()[:_LINES_LOOKED_AT]
    if any(_WHATSAPP.match(line) for line in lines):
        return WHATSAPP
    return PAGE if beginning.lstrip()[:200].lower().startswith(("<!doctype html", "<html")) else ""


def archive(names: Sequence[str]) -> Kind:
    """What an archive of these files is, or nothing."""
    if any(name.startswith("Takeout/") for name in names):
        return TAKEOUT
    if {"channels.json", "users.json"} <= set(names):
        return SLACK
    if any(_WHATSAPP_NAME.fullmatch(name) for name in names):
        return WHATSAPP
    return PAGE if any(_PAGE_NAME.fullmatch(name) for name in names) else ""


def refuse_lines(name: str, line: Mapping[str, Any]) -> NoReturn:
    """Raises UnreadableFile for JSON Lines whose first one is ``line``."""
    refuse(name, document(line) or document([line]))
    raise UnreadableFile(
        _(
            "%(path)s is JSON Lines of another kind: its first line holds %(fields)s. A line here holds user and "
            "messages, and a message id, role, ts and text."
        )
        % {"path": name, "fields": ", ".join(str(field)[:30] for field in list(line)[:6]) or "{}"}
    )
