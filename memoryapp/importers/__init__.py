"""Chats of other programs as messages of ours.

Every reader is a generator over a file's messages in order; a message it cannot take comes out as
``Rejected`` with its place, so nothing is lost unsaid. The format is found by what the file holds, not
by its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from django.utils.translation import gettext as _

from memoryapp.importers import chatgpt, document, jsonl, telegram
from memoryapp.importers.record import MessageRecord, Rejected, UnreadableFile

__all__ = ["FORMATS", "ChatFile", "MessageRecord", "Rejected", "UnreadableFile", "open_chat", "read"]

FORMATS = ("jsonl", "telegram", "chatgpt")
LINES_LOOKED_AT = 100

Records = Iterator[MessageRecord | Rejected]


@dataclass(frozen=True, slots=True)
class ChatFile:
    """A file whose format is known; ``records()`` reads it from the beginning each time."""

    path: Path
    format: str
    records: Callable[[], Records]


def read(path: Path, format: str = "auto", owner: str = "") -> Records:
    """The messages of a file, see ``open_chat``."""
    return open_chat(path, format, owner).records()


def open_chat(path: Path, format: str = "auto", owner: str = "") -> ChatFile:
    """The chat in ``path``; ``owner`` tells who of a group is the user. Raises UnreadableFile."""
    try:
        document.check(path)
        if format == "jsonl" or (format == "auto" and _is_lines(path, most=1)):
            return ChatFile(path, "jsonl", partial(jsonl.read, path))
        return _open_document(path, format, owner)
    except OSError as error:
        raise UnreadableFile(
            _("%(path)s cannot be read: %(error)s.") % {"path": path, "error": error.strerror}
        ) from None


def _is_lines(path: Path, most: int) -> bool:
    """Whether one of the first ``most`` lines is a conversation of JSON Lines, and no whole export."""
    with path.open(encoding=document.encoding(path), errors="replace") as file:
        for line in islice(file, most):
            try:
                value = document.parse(line)
            except ValueError:
                continue
            if _format_of(value) == "jsonl" and isinstance(value, dict):
                return True
    return False


def _open_document(path: Path, format: str, owner: str) -> ChatFile:
    try:
        value = document.load(path)
    except UnreadableFile:
        # Lines with a broken one at the top are no document either, but the others can be read.
        if format == "auto" and _is_lines(path, most=LINES_LOOKED_AT):
            return ChatFile(path, "jsonl", partial(jsonl.read, path))
        raise
    found = _format_of(value)
    if not found:
        raise UnreadableFile(
            _("%(path)s is in none of the formats that can be read: %(formats)s.")
            % {"path": path, "formats": ", ".join(FORMATS)}
        )
    if format not in ("auto", found):
        raise UnreadableFile(
            _("%(path)s is in the format %(found)s, not %(format)s.") % {"path": path, "found": found, "format": format}
        )
    return ChatFile(path, found, _reader(found, value, owner))


def _reader(format: str, value: Any, owner: str) -> Callable[[], Records]:
    if format == "telegram":
        return partial(telegram.read, value, owner)
    if format == "chatgpt":
        return partial(chatgpt.read, value)
    return partial(jsonl.read_document, value if isinstance(value, list) else [value])


def _format_of(value: object) -> str:
    if telegram.recognises(value):
        return "telegram"
    if chatgpt.recognises(value):
        return "chatgpt"
    items = value if isinstance(value, list) else [value]
    return "jsonl" if any(jsonl.recognises(item) for item in items) else ""
