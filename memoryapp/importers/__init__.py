"""Chats of other programs as messages of ours.

Every reader is a generator over a file's messages in order; a message it cannot take comes out as
``Rejected`` with its place, so nothing is lost unsaid. The format is found by what the file holds, not
by its name. A file is read twice or more: once to its end to see that it is whole, then message by message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

from django.utils.translation import gettext as _

from memoryapp.importers import chatgpt, document, foreign, jsonl, telegram, telegram_chats
from memoryapp.importers.document import Document
from memoryapp.importers.record import Clock, MessageRecord, Rejected, UnknownSpeaker, UnreadableFile
from memoryapp.importers.source import Meter, Source, sources

__all__ = [
    "FORMATS",
    "ChatFile",
    "Hints",
    "MessageRecord",
    "Rejected",
    "UnknownSpeaker",
    "UnreadableFile",
    "open_chat",
    "read",
]

FORMATS = ("jsonl", "telegram", "chatgpt")
LINES_LOOKED_AT = 100

Records = Iterator[MessageRecord | Rejected]
Reader = Callable[[Clock], Records]


@dataclass(frozen=True, slots=True)
class Hints:
    """What a file may not tell: under which name its user speaks (``owner`` is the chat user's own, ``me`` another
    one, or an id, or ``-`` for nobody), when a file without times began, and that odd dates are right."""

    owner: str = ""
    me: str = ""
    start: datetime | None = None
    any_dates: bool = False


@dataclass(frozen=True, slots=True)
class ChatFile:
    """A file whose format is known; ``records()`` reads it from the beginning each time, ``meter`` says how far."""

    path: Path
    format: str
    hints: Hints
    meter: Meter
    readers: Sequence[Reader] = field(default=())

    def records(self) -> Records:
        self.meter.read = 0
        clock = Clock(self.hints.start, self.hints.any_dates, advises=True)
        return chain.from_iterable(reader(clock) for reader in self.readers)


def read(path: Path, format: str = "auto", **hints: Any) -> Records:
    """The messages of a file, see ``open_chat``."""
    return open_chat(path, format, Hints(**hints)).records()


def open_chat(path: Path, format: str = "auto", hints: Hints | None = None) -> ChatFile:
    """The chat in ``path``. Raises UnreadableFile, or UnknownSpeaker when ``hints.me`` has to be said."""
    hints = hints or Hints()
    try:
        parts = sources(path)
        opened = [_open(part, format, hints) for part in parts]
    except OSError as error:
        raise UnreadableFile(
            _("%(path)s cannot be read: %(error)s.") % {"path": path, "error": error.strerror or error}
        ) from None
    formats = sorted({found for found, _reader in opened})
    if len(formats) > 1:
        raise UnreadableFile(_("%(path)s holds chats of several programs; import each alone.") % {"path": path})
    return ChatFile(path, formats[0], hints, parts[0].meter, [reader for _format, reader in opened])


def _open(source: Source, format: str, hints: Hints) -> tuple[str, Reader]:
    """The format of one source, and what reads it."""
    if format == "jsonl" or (format == "auto" and _is_lines(source, most=1)):
        return "jsonl", partial(jsonl.read, source)
    try:
        read_through = document.read(source)
    except UnreadableFile:
        # Lines with a broken one at the top are no document either, but the others can be read.
        if format == "auto" and _is_lines(source, most=LINES_LOOKED_AT):
            return "jsonl", partial(jsonl.read, source)
        _refuse_other_text(source)
        raise
    return _open_document(read_through, format, hints)


def _is_lines(source: Source, most: int) -> bool:
    """Whether one of the first ``most`` lines is a conversation of JSON Lines, and no whole export."""
    return any(
        isinstance(value, dict) and _format_of(value) == "jsonl" and not foreign.document(value)
        for value in _first_values(source, most)
    )


def _first_values(source: Source, most: int) -> Iterator[Any]:
    for _number, line in islice(jsonl.lines(source), most):
        if len(line) <= jsonl.MOST_LINE:
            try:
                yield document.parse(line.decode("utf-8", "replace"))
            except ValueError:
                continue


def _refuse_other_text(source: Source) -> None:
    """Raises UnreadableFile with the name of what the text is, if it has one."""
    with source.opened() as file:
        beginning = file.read(20_000).decode("utf-8", "replace")
    foreign.refuse(source.name, foreign.text(beginning))
    values = list(_first_values(source, 2))
    if len(values) == 2 and isinstance(values[0], dict):
        foreign.refuse_lines(source.name, values[0])


def _open_document(read_through: Document, format: str, hints: Hints) -> tuple[str, Reader]:
    path, outline, found = read_through.source.name, None, ""
    for most in document.OUTLINES:
        outline = read_through.outline(most)
        foreign.refuse(path, foreign.document(outline))
        found = _format_of(outline)
        if found:
            break
    if not found:
        raise UnreadableFile(
            _("%(path)s is in none of the formats that can be read: %(formats)s.")
            % {"path": path, "formats": ", ".join(FORMATS)}
        )
    if format not in ("auto", found):
        raise UnreadableFile(
            _("%(path)s is in the format %(found)s, not %(format)s.") % {"path": path, "found": found, "format": format}
        )
    return found, _reader(found, read_through, outline, hints)


def _reader(format: str, read_through: Document, outline: Any, hints: Hints) -> Reader:
    if format == "telegram":
        chats = telegram_chats.scan(read_through, hints.owner, hints.me)
        read_through.source.meter.passes = max(1, len({chat.part for chat in chats}))
        return partial(telegram.read, read_through, chats)
    if format == "chatgpt":
        conversations = partial(read_through.items, chatgpt.prefix(outline))
        return lambda clock: chatgpt.read(conversations(), clock)
    if isinstance(outline, dict) and "messages" in outline:
        return partial(jsonl.read_conversation, read_through)
    return partial(jsonl.read_document, read_through, "item" if isinstance(outline, list) else "")


def _format_of(value: object) -> str:
    if telegram.recognises(value):
        return "telegram"
    if chatgpt.recognises(value):
        return "chatgpt"
    items = value if isinstance(value, list) else [value]
    return "jsonl" if any(jsonl.recognises(item) for item in items) else ""
