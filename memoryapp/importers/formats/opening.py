"""Opens a chat file: recognises its format by the content, and returns what reads it. A file is read at least twice:
once to its end to check that it is whole, then message by message."""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, TypeVar

from django.utils.translation import gettext as _

from memoryapp.importers import document, external, record
from memoryapp.importers.document import JsonDocument
from memoryapp.importers.format import (
    NOBODY,
    DatabaseLayout,
    DocumentLayout,
    Format,
    Hints,
    Layout,
    LinesLayout,
    ListedChat,
    Reader,
    Records,
    TextLayout,
)
from memoryapp.importers.formats.registry import FORMATS, members
from memoryapp.importers.source import Meter, SourceFile, sources

AUTO = "auto"
# How many lines are examined when the first one is broken.
MOST_LINES = 100
# How many lines of a text are examined, and how many bytes of each.
MOST_TEXT_LINES = 40
MOST_LINE_BYTES = 10_000

# Blanks, and signs without width. A tab is kept as somebody's text, as it always was.
_INVISIBLE = " \n\r\u00a0\u2000\u2002\u2003\u2009\u202f\u3000\u200b\u200c\u200d\u200e\u200f\u2060\ufeff"

AnyLayout = TypeVar("AnyLayout", bound=Layout)
FileLayout = DatabaseLayout | LinesLayout | TextLayout


@dataclass(slots=True)
class ChatFile:
    """A file whose format is known. ``records()`` reads it from the beginning at each call; ``meter`` shows how far.
    ``format`` is the name of its format, ``clock`` the clock of the latest ``records()``."""

    path: Path
    format: str
    hints: Hints
    meter: Meter
    readers: Sequence[Reader] = field(default=())
    clock: record.Clock = field(default_factory=record.Clock)

    def records(self) -> Records:
        self.meter.read = 0
        self.meter.patience.begin()
        hints = self.hints
        self.clock = record.Clock(hints.start, hints.any_dates, hints.advises, self._first_time, hints.zone)
        return self.meter.patience.for_each(self._wanted(self._read(self.clock)))

    @property
    def is_distilled(self) -> bool:
        """Whether the file has more than messages."""
        return any(reader.distilled for reader in self.readers)

    def distilled(self) -> Iterator[record.Distilled | record.Rejected]:
        """Yields what the program that wrote the file had made of the messages."""
        self.meter.patience.begin()
        hints = self.hints
        for reader in self.readers:
            if reader.distilled:
                clock = record.Clock(hints.start, hints.any_dates, hints.advises, zone=hints.zone)
                yield from self.meter.patience.for_each(reader.distilled(clock))

    def users(self) -> set[str]:
        """Returns the users that the file names, and perhaps some whose messages will be rejected. This is usually
        faster than reading all records."""
        self.meter.patience.begin()
        found = [reader.users(self._own_times()) for reader in self.readers if reader.users]
        return set().union(*found) - {""}

    def chats(self) -> list[ListedChat]:
        """Returns the chats in the file, the one with the latest message first; empty if its format has none."""
        found = [chat for reader in self.readers for chat in reader.chats]
        return sorted(found, key=lambda chat: chat.last, reverse=True)

    def _wanted(self, items: Records) -> Records:
        """Yields the items; a message outside of the chosen period, or one without a visible sign, is left out."""
        for item in items:
            if isinstance(item, record.MessageRecord) and not self.hints.wants_time(item.sent_at):
                yield record.LeftOut(item.line, str(record.OTHER_TIME), item.user)
            elif isinstance(item, record.MessageRecord) and not item.text.strip(_INVISIBLE):
                yield record.LeftOut(item.line, str(record.EMPTY), item.user)
            else:
                yield item

    def _read(self, clock: record.Clock) -> Generator[record.MessageRecord | record.Rejected, None, None]:
        for reader in self.readers:
            yield from reader.records(clock)

    def _own_times(self) -> record.Clock:
        """Returns a clock that gives no times to messages at the beginning that have none."""
        return record.Clock(any_dates=self.hints.any_dates, zone=self.hints.zone)

    def _first_time(self) -> datetime | None:
        read = self.meter.read
        with closing(self._read(self._own_times())) as records:
            found = next((item.sent_at for item in records if isinstance(item, record.MessageRecord)), None)
        self.meter.read = read
        return found


def read(path: Path, format: str = AUTO, **hints: Any) -> Records:
    """Returns the messages of a file, see ``open_chat``."""
    return open_chat(path, format, Hints(**hints)).records()


def open_chat(
    path: Path, format: str = AUTO, hints: Hints | None = None, ask: Callable[[], None] = lambda: None
) -> ChatFile:
    """Returns the chat in ``path``. Raises UnreadableFile, and UnknownSpeaker when ``hints.me`` is needed. ``ask`` is
    called while the file is opened and read, in this thread; it raises an exception when nobody wants the file any
    longer."""
    hints = hints or Hints()
    try:
        parts = sources(path, members, ask)
        opened = _open_all(parts, format, hints)
    except OSError as error:
        raise record.UnreadableFile(
            _("%(path)s cannot be read: %(error)s.") % {"path": path, "error": error.strerror or error}
        ) from None
    formats = sorted({found.name for found, _reader in opened})
    if len(formats) > 1:
        raise record.UnreadableFile(_("%(path)s holds chats of several programs; import each alone.") % {"path": path})
    chat = ChatFile(path, formats[0], hints, parts[0].meter, [reader for _format, reader in opened])
    _check_chosen(chat)
    return chat


def _open_all(parts: Sequence[SourceFile], format: str, hints: Hints) -> list[tuple[Format, Reader]]:
    """Returns the format and reader of each part. Raises UnknownSpeaker with the speakers of all parts. A person who
    was named need not speak in every one of them. A part that holds no chat is one rejection."""
    opened: list[tuple[Format, Reader] | None] = []
    asking: list[record.UnknownSpeaker] = []
    strange: dict[int, record.NoChat] = {}
    for part in parts:
        try:
            opened.append(_open(part, format, hints))
        except record.NoChat as error:
            strange[len(opened)] = error
            opened.append(None)
        except record.UnknownSpeaker as error:
            opened.append(None)
            asking.append(error)
    if len(strange) == len(parts):
        raise strange[0]
    if asking and not (hints.me and any(opened)):
        speakers = [name for names in zip_longest(*(each.speakers for each in asking)) for name in names if name]
        raise record.UnknownSpeaker(asking[0].sentence, list(dict.fromkeys(speakers)))
    silent = replace(hints, me=NOBODY)
    chats = {
        number: found or _open(parts[number], format, silent)
        for number, found in enumerate(opened)
        if number not in strange
    }
    named = next(iter(chats.values()))[0]
    return [
        (named, _rejecting(parts[number], strange[number])) if number in strange else chats[number]
        for number in range(len(parts))
    ]


def _rejecting(part: SourceFile, error: record.NoChat) -> Reader:
    rejected = record.Rejected(part.member or part.path.name, str(error))
    return Reader(lambda _clock: iter([rejected]))


def _check_chosen(chat: ChatFile) -> None:
    """Raises UnreadableFile when a chat was chosen that the file does not have."""
    there = {name.casefold() for each in chat.chats() for name in (each.id, each.name)}
    for name in sorted(chat.hints.chats - there):
        listed = ", ".join(each.name or each.id for each in chat.chats()[: record.MOST_SPEAKERS]) or "–"
        raise record.UnreadableFile(
            _("There is no chat “%(name)s” in %(path)s. It has: %(chats)s.")
            % {"name": name, "path": chat.hints.name or chat.path, "chats": listed}
        )


def _open(source: SourceFile, asked: str, hints: Hints) -> tuple[Format, Reader]:
    """Returns the format of one source, and its reader. ``asked`` is the format that a person named, or ``auto``."""
    database = None if source.packing else _find_layout(DatabaseLayout, source)
    if found := database or _any_lines(asked) or next(_of_lines(source, most=1), None):
        format, layout = found
        return _check_asked(source, asked, format), layout.open(source, hints)
    try:
        whole = document.read(source)
    except record.UnreadableFile:
        external.refuse(source.name, external.text(_beginning(source)))
        if chats := _documents_in_lines(source):
            return _open_document(chats, asked, hints)
        for format, layout in _other_layouts(source):
            if asked in (AUTO, format.name):
                return format, layout.open(source, hints)
        _refuse_other_text(source)
        raise
    return _open_document(whole, asked, hints)


def _find_layout(kind: type[AnyLayout], sample: Any) -> tuple[Format, AnyLayout] | None:
    """Returns the first format that has a layout of this kind and recognises the sample in it, with that layout."""
    for format, layout in _layouts():
        if isinstance(layout, kind) and layout.recognises(sample):
            return format, layout
    return None


def _layouts() -> Iterator[tuple[Format, Layout]]:
    return ((format, layout) for format in FORMATS.values() for layout in format.layouts)


def _check_asked(source: SourceFile, asked: str, found: Format) -> Format:
    """Returns ``found``. Raises UnreadableFile when a person named another format."""
    if asked not in (AUTO, found.name):
        raise record.UnreadableFile(
            _("%(path)s is in the format %(found)s, not %(format)s.")
            % {"path": source.name, "found": found.name, "format": asked}
        )
    return found


def _any_lines(asked: str) -> tuple[Format, FileLayout] | None:
    """Returns the format that a person named, if any file is read as its lines then."""
    for format, layout in _layouts():
        if format.name == asked and isinstance(layout, LinesLayout) and layout.takes_any:
            return format, layout
    return None


def _other_layouts(source: SourceFile) -> Iterator[tuple[Format, FileLayout]]:
    """Yields the formats that a source may have which is not one JSON document. JSON Lines with a broken first line are
    no document either, but the other lines can be read."""
    yield from islice(_of_lines(source, MOST_LINES, (dict, list)), 1)
    if found := _find_layout(TextLayout, _beginning(source)):
        yield found


def _of_lines(source: SourceFile, most: int, kinds: tuple[type, ...] = (dict,)) -> Iterator[tuple[Format, LinesLayout]]:
    """Yields the formats of those of the first ``most`` lines that have a known one."""
    for value in _first_values(source, most):
        if isinstance(value, kinds) and not external.document(value) and (found := _of_line(value)):
            yield found


def _documents_in_lines(source: SourceFile) -> JsonDocument | None:
    """Returns the lines as one document, where each is a part of a document that has no lines: a chat a line."""
    first = next(_first_values(source, 1), None)
    found = isinstance(first, dict) and not external.document(first) and _find_layout(DocumentLayout, [first])
    return document.read(source, document.as_list) if found else None


def _of_line(value: Any) -> tuple[Format, LinesLayout] | None:
    for format, layout in _layouts():
        if isinstance(layout, LinesLayout | DocumentLayout) and layout.recognises(value):
            # A line may be a whole document of a format that has no lines.
            return (format, layout) if isinstance(layout, LinesLayout) else None
    return None


def _first_values(source: SourceFile, most: int) -> Iterator[Any]:
    for _number, line in islice(document.numbered(source), most):
        if len(line) <= document.MOST_LINE:
            try:
                yield document.parse_line(line, "replace")
            except ValueError:
                continue


def _beginning(source: SourceFile) -> str:
    """Returns the first lines of a text; bytes that are not UTF-8 are replaced."""
    with source.opened() as file:
        first = islice(iter(lambda: file.readline(MOST_LINE_BYTES), b""), MOST_TEXT_LINES)
        return "".join(line.decode("utf-8", "replace") for line in first)


def _refuse_other_text(source: SourceFile) -> None:
    """Raises UnreadableFile when the text is of a known other program, or is not JSON."""
    with source.opened() as file:
        beginning = file.read(20_000).decode("utf-8", "replace")
    values = list(_first_values(source, 2))
    if len(values) == 2 and isinstance(values[0], dict):
        external.refuse_lines(source.name, values[0])
    if beginning.strip() and not beginning.lstrip().startswith(("{", "[")):
        raise _unknown(source.name)


def _unknown(name: str) -> record.NoChat:
    return record.NoChat(
        _("%(path)s is in none of the formats that can be read: %(formats)s.")
        % {"path": name, "formats": ", ".join(format.label for format in FORMATS.values())}
    )


def _open_document(whole: JsonDocument, asked: str, hints: Hints) -> tuple[Format, Reader]:
    """Returns the format of a document, and its reader; examines more of the document if the beginning is unknown."""
    for most in document.OUTLINES:
        outline = whole.outline(most)
        external.refuse(whole.source.name, external.document(outline))
        found = _find_layout(DocumentLayout, outline)
        # The last format takes any list of objects with messages, also one of another program's document.
        alone = isinstance(outline, list) and found and found[0] is list(FORMATS.values())[-1]
        if found and not (alone and _wrapped(whole, outline)):
            format, layout = found
            return _check_asked(whole.source, asked, format), layout.open(whole, outline, hints)
    if opened := _wrapped(whole, outline):
        (format, layout), inside, inner = opened
        return _check_asked(whole.source, asked, format), layout.open(inside, inner, hints)
    for _place, inner in document.in_wrappers(outline):
        external.refuse(whole.source.name, external.document(inner))
    raise _unknown(whole.source.name)


def _wrapped(whole: JsonDocument, outline: object) -> tuple[tuple[Format, DocumentLayout], JsonDocument, object] | None:
    """Returns what reads a document in a wrapper, the document, and its outline. Raises UnreadableFile where a wrapper
    has documents of several formats."""
    inner = document.in_wrappers(outline)
    found = [(layout, place, each) for place, each in inner if (layout := _find_layout(DocumentLayout, each))]
    if len({layout[0].name for layout, place, _each in found if "." not in place}) > 1:
        raise record.UnreadableFile(
            _("%(path)s holds chats of several programs; import each alone.") % {"path": whole.source.name}
        )
    return next(((layout, replace(whole, within=place), each) for layout, place, each in found), None)
