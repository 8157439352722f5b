"""A chat file opened: its format found, and the reader that goes with it.

A file is read twice or more: once to its end to see that it is whole, then message by message.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from django.utils.translation import gettext as _

from memoryapp.importers import (
    chatgpt,
    claude,
    coding_agents,
    document,
    foreign,
    jsonl,
    laplaced,
    laplaced_memory,
    openai_messages,
    telegram,
    telegram_chats,
    whatsapp,
)
from memoryapp.importers.document import JsonDocument
from memoryapp.importers.record import Clock, Distilled, MessageRecord, Rejected, UnreadableFile
from memoryapp.importers.source import Meter, SourceFile, sources

FORMATS = ("jsonl", "telegram", "chatgpt", "claude", "whatsapp", "claude-code", "codex", "openai", "laplaced")
# The formats whose messages say whose memory they are of.
NAMING = ("jsonl", "laplaced")
LINES_LOOKED_AT = 100

Records = Iterator[MessageRecord | Rejected]
Reader = Callable[[Clock], Records]


@dataclass(frozen=True, slots=True)
class Hints:
    """What a file may not tell: under which name its user speaks (``owner`` is the chat user's own, ``me`` another
    one, or an id, or ``-`` for nobody), when a file without times began, in which ``zone`` times without one are, and
    that odd dates are right. ``advises`` says that reasons may name the options of the command, ``name`` is what
    people call the file."""

    owner: str = ""
    me: str = ""
    start: datetime | None = None
    any_dates: bool = False
    advises: bool = True
    name: str = ""
    zone: tzinfo = UTC


@dataclass(slots=True)
class ChatFile:
    """A file whose format is known; ``records()`` reads it from the beginning each time, ``meter`` says how far.

    ``clock`` is that of the records read last.
    """

    path: Path
    format: str
    hints: Hints
    meter: Meter
    readers: Sequence[Reader] = field(default=())
    clock: Clock = field(default_factory=Clock)

    def records(self) -> Records:
        self.meter.read = 0
        hints = self.hints
        self.clock = Clock(hints.start, hints.any_dates, hints.advises, self._first_time, hints.zone)
        return self._read(self.clock)

    @property
    def is_distilled(self) -> bool:
        """Whether the format has more than messages."""
        return self.format == "laplaced"

    def distilled(self) -> Iterator[Distilled | Rejected]:
        """What the program that wrote the file had made of the messages."""
        if self.is_distilled:
            clock = Clock(any_dates=self.hints.any_dates, zone=self.hints.zone)
            yield from laplaced_memory.read(SourceFile(self.path), clock)

    def users(self) -> set[str]:
        """The users whom the file names, and perhaps some whose messages cannot be taken; faster than all records."""
        if self.is_distilled:
            return laplaced_memory.users(SourceFile(self.path))
        found: set[str] = set()
        for reader in self.readers if self.format in NAMING else ():
            if isinstance(reader, jsonl.Lines):
                found |= reader.users()
            else:
                clock = Clock(any_dates=self.hints.any_dates, zone=self.hints.zone)
                found |= {item.user for item in reader(clock) if isinstance(item, MessageRecord)}
        return found - {""}

    def _read(self, clock: Clock) -> Generator[MessageRecord | Rejected, None, None]:
        for reader in self.readers:
            yield from reader(clock)

    def _first_time(self) -> datetime | None:
        """The time of the first message that has one."""
        read = self.meter.read
        with closing(self._read(Clock(any_dates=self.hints.any_dates, zone=self.hints.zone))) as records:
            found = next((item.sent_at for item in records if isinstance(item, MessageRecord)), None)
        self.meter.read = read
        return found


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


def _open(source: SourceFile, format: str, hints: Hints) -> tuple[str, Reader]:
    """The format of one source, and what reads it."""
    if not source.packing and laplaced.recognises(source.path):
        laplaced.check(source)
        return _wanted(source, format, "laplaced"), partial(laplaced.read, source)
    found = _lines_format(source, most=1) if format != "jsonl" else "jsonl"
    if found:
        return _wanted(source, format, found), _lines_reader(found, source)
    try:
        read_through = document.read(source)
    except UnreadableFile:
        # Lines with a broken one at the top are no document either, but the others can be read.
        found = _lines_format(source, most=LINES_LOOKED_AT)
        if found and format in ("auto", found):
            return found, _lines_reader(found, source)
        if format in ("auto", "whatsapp") and whatsapp.recognises(whatsapp.beginning(source)):
            chat = whatsapp.scan(source, hints.owner, hints.me, hints.name)
            source.meter.passes = 1
            return "whatsapp", partial(whatsapp.read, source, chat)
        _refuse_other_text(source)
        raise
    return _open_document(read_through, format, hints)


def _wanted(source: SourceFile, format: str, found: str) -> str:
    """Returns the format ``found``. Raises UnreadableFile when another one was asked for."""
    if format not in ("auto", found):
        raise UnreadableFile(
            _("%(path)s is in the format %(found)s, not %(format)s.")
            % {"path": source.name, "found": found, "format": format}
        )
    return found


def _lines_format(source: SourceFile, most: int) -> str:
    """Returns the format of the first of ``most`` lines that has a known one; empty if none has."""
    return next((found for value in _first_values(source, most) if (found := _format_of_line(value))), "")


def _format_of_line(value: object) -> str:
    if not isinstance(value, dict):
        return ""
    if coding_agents.is_claude_code(value):
        return "claude-code"
    if coding_agents.is_codex(value):
        return "codex"
    found = _format_of(value)
    return found if found in ("jsonl", "openai") and not foreign.document(value) else ""


def _lines_reader(format: str, source: SourceFile) -> Reader:
    if format == "claude-code":
        return partial(coding_agents.read_claude_code, source)
    if format == "codex":
        return partial(coding_agents.read_codex, source)
    if format == "openai":
        return partial(openai_messages.read_lines, source)
    return jsonl.Lines(source)


def _first_values(source: SourceFile, most: int) -> Iterator[Any]:
    for _number, line in islice(jsonl.lines(source), most):
        if len(line) <= jsonl.MOST_LINE:
            try:
                yield document.parse(line.decode("utf-8", "replace"))
            except ValueError:
                continue


def _refuse_other_text(source: SourceFile) -> None:
    """Raises UnreadableFile when the text is of a known other kind, or is not JSON."""
    with source.opened() as file:
        beginning = file.read(20_000).decode("utf-8", "replace")
    foreign.refuse(source.name, foreign.text(beginning))
    values = list(_first_values(source, 2))
    if len(values) == 2 and isinstance(values[0], dict):
        foreign.refuse_lines(source.name, values[0])
    if beginning.strip() and not beginning.lstrip().startswith(("{", "[")):
        raise _unknown(source.name)


def _unknown(name: str) -> UnreadableFile:
    return UnreadableFile(
        _("%(path)s is in none of the formats that can be read: %(formats)s.")
        % {"path": name, "formats": ", ".join(FORMATS)}
    )


def _open_document(read_through: JsonDocument, format: str, hints: Hints) -> tuple[str, Reader]:
    path, outline, found = read_through.source.name, None, ""
    for most in document.OUTLINES:
        outline = read_through.outline(most)
        foreign.refuse(path, foreign.document(outline))
        found = _format_of(outline)
        if found:
            break
    if not found:
        raise _unknown(path)
    return _wanted(read_through.source, format, found), _reader(found, read_through, outline, hints)


def _reader(format: str, read_through: JsonDocument, outline: Any, hints: Hints) -> Reader:
    if format == "telegram":
        chats = telegram_chats.scan(read_through, hints.owner, hints.me)
        read_through.source.meter.passes = max(1, len({chat.part for chat in chats}))
        return partial(telegram.read, read_through, chats)
    if format == "chatgpt":
        conversations = partial(read_through.items, chatgpt.prefix(outline))
        return lambda clock: chatgpt.read(conversations(), clock)
    if format == "claude":
        conversations = partial(read_through.items, claude.prefix(outline))
        return lambda clock: claude.read(conversations(), clock)
    if format == "openai":
        values = partial(read_through.items, "item" if isinstance(outline, list) else "")
        return lambda clock: openai_messages.read(openai_messages.grouped(values()), clock)
    if isinstance(outline, dict) and "messages" in outline:
        return partial(jsonl.read_conversation, read_through)
    return partial(jsonl.read_document, read_through, "item" if isinstance(outline, list) else "")


def _format_of(value: object) -> str:
    if telegram.recognises(value):
        return "telegram"
    if chatgpt.recognises(value):
        return "chatgpt"
    if claude.recognises(value):
        return "claude"
    if openai_messages.recognises(value):
        return "openai"
    items = value if isinstance(value, list) else [value]
    return "jsonl" if any(jsonl.recognises(item) for item in items) else ""
