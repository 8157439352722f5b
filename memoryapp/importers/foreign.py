"""Exports of other programs that cannot be read; they are recognised so that the refusal can name them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from memoryapp.importers.record import UnreadableFile

_LINES_LOOKED_AT = 20
_PAGE_NAME = re.compile(r"(?:.*/)?messages\d*\.html")

Kind = str | Promise

SLACK = gettext_lazy("a Slack export")
TAKEOUT = gettext_lazy("a Google Takeout export")
META = gettext_lazy("a Facebook or Instagram export")
PAGE = gettext_lazy("a web page (HTML)")

# The fields of an item in each program's list of messages or conversations.
_ITEMS: list[tuple[Kind, set[str]]] = [
    (SLACK, {"type", "ts", "user", "text"}),
    (TAKEOUT, {"header", "title", "time"}),
]
_MESSAGES: list[tuple[Kind, set[str]]] = [
    (TAKEOUT, {"creator", "created_date"}),
    (META, {"sender_name", "timestamp_ms"}),
]


def refuse(name: str, kind: Kind) -> None:
    """Raises UnreadableFile unless ``kind`` is empty."""
    if kind:
        raise UnreadableFile(_("%(path)s is %(kind)s; it cannot be read yet.") % {"path": name, "kind": kind})


def document(value: object) -> Kind:
    """Returns the kind of another program's JSON document, or empty; ``value`` may be only its beginning."""
    if isinstance(value, list):
        return next((kind for item in value[:_LINES_LOOKED_AT] if (kind := _of(item, _ITEMS))), "")
    if not isinstance(value, Mapping):
        return ""
    messages = value.get("messages")
    return _of(messages[0], _MESSAGES) if isinstance(messages, list) and messages else ""


def _of(item: object, shapes: Sequence[tuple[Kind, set[str]]]) -> Kind:
    # A message with an id and a text is in our own format; Slack's messages have no id.
    if not isinstance(item, Mapping) or {"id", "text"} <= item.keys():
        return ""
    return next((kind for kind, fields in shapes if fields <= item.keys()), "")


def text(beginning: str) -> Kind:
    """Returns the kind of a text that is not JSON, or empty."""
    return PAGE if beginning.lstrip()[:200].lower().startswith(("<!doctype html", "<html")) else ""


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
