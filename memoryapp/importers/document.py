"""Reads the JSON of a source as a stream, so a document of any size takes the memory of one item.

Some exports are not valid JSON: Telegram Desktop writes control characters as ``\x0b``, which no parser accepts, and
files that were made by hand contain raw ones. Both are repaired here. A document that cannot be read, is too large or
is nested too deeply is refused with a sentence that names the place."""

import codecs
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

import ijson
from django.utils.translation import gettext as _

from memoryapp.engine.json_values import MOST_VALUES, has_more_values
from memoryapp.importers.record import NoChat, Rejected, UnreadableFile
from memoryapp.importers.source import PIECE, Pieces, SourceFile, not_utf8

MOST_DEPTH = 100
# How many events of a document are examined for its format: an account's contacts come before its chats.
OUTLINES = (5_000, 1_000_000)
# Values of an item that is built in memory, which may be a whole conversation.
MOST_IN_ITEM = 3_000_000
# Bytes of a document that is read whole to find the exact place of a fault.
SMALL = 10_000_000

# Bytes without the end of a text. The parser reads the beginning of a long text again for every piece of it.
MOST_WITHOUT_END = 20_000_000

# Accepts control characters in texts.
_LENIENT = json.JSONDecoder(strict=False)
# After these ends ``decode`` does not search for blanks, which takes as long as reading the value.
_ENDS = ("", "\n", "\r\n")
# A quote that is not written with a backslash begins or ends a text.
_END = re.compile(rb'(?<!\\)"')
_ESCAPE = re.compile(r"\\(x[0-9A-Fa-f]{2}|.)", re.DOTALL)
# Matches whole escapes, an escape that continues in the next piece, quotes, and control characters.
_MENDED = re.compile(rb'\\x[0-9A-Fa-f]{2}|\\(?:x[0-9A-Fa-f]?)?\Z|\\.|"|[\x00-\x1f]', re.DOTALL)


def parse_line(line: bytes, errors: str = "strict") -> Any:
    """Returns the JSON value of a line. Raises ValueError, also for one with more values than any conversation has."""
    if has_more_values(line):
        raise ValueError(_("it holds more than %(most)s values") % {"most": f"{MOST_VALUES:,}"})
    return parse(line.decode(errors=errors))


def parse(text: str) -> Any:
    """Returns the JSON value of ``text``. Raises ValueError, whose text says what is wrong and where."""
    try:
        return _decode(text)
    except ValueError:
        if "\\x" not in text:
            raise
    return _decode(_ESCAPE.sub(_mended, text))


def _decode(text: str) -> Any:
    try:
        with suppress(ValueError):
            value, end = _LENIENT.raw_decode(text)
            if text[end:] in _ENDS:
                return value
        return _LENIENT.decode(text)
    except RecursionError:
        raise ValueError(_("it is nested too deeply")) from None


def _mended(escape: re.Match[str]) -> str:
    # Every escape is matched, so the x after an escaped backslash (``\\x0B``) is not changed.
    return f"\\u00{escape[1][1:]}" if len(escape[1]) == 3 else escape[0]


@dataclass(frozen=True, slots=True)
class JsonDocument:
    """A JSON document that was checked to its end; ``mend`` repairs its bytes, if that is needed. ``within`` is the
    place of the document in the file, in ijson's notation, if it stands in a wrapper."""

    source: SourceFile
    mend: Callable[[Pieces], Pieces] | None = None
    within: str = ""

    def items(self, prefix: str) -> Iterator[Any]:
        """Yields the values at ``prefix``, in ijson's notation; one is in memory at a time, of a bounded size."""
        room = _Room(self.source, self.mend)
        with _faults(self.source), self.source.opened(room.counted) as file:
            for item in ijson.items(file, ".".join(filter(None, (self.within, prefix))), use_float=True):
                yield item
                room.left = MOST_IN_ITEM

    def places(self) -> Iterator[tuple[str, str, Any]]:
        """Yields every event of the document, as ijson does: prefix, event, value."""
        with _faults(self.source), self.source.opened(self.mend) as file:
            for prefix, event, value in ijson.parse(file, use_float=True):
                if not self.within or f"{prefix}.".startswith(f"{self.within}."):
                    yield prefix[len(self.within) :].removeprefix("."), event, value

    def without(self, field: str) -> Any:
        """Returns the document, which must be an object, without one of its fields."""
        builder = ijson.ObjectBuilder()
        room = _Room(self.source)
        for prefix, event, value in self.places():
            is_key = prefix == "" and event == "map_key" and value == field
            if not is_key and prefix.partition(".")[0] != field:
                room.take(1)
                builder.event(event, value)
        return builder.value

    def outline(self, most: int) -> Any:
        """Returns the value that the first ``most`` events of the document describe."""
        builder = ijson.ObjectBuilder()
        with _faults(self.source), self.source.opened(self.mend) as file:
            for event, value in islice(ijson.basic_parse(file, use_float=True), most):
                builder.event(event, value)
        return builder.value


def in_wrappers(outline: object, levels: int = 2) -> Iterator[tuple[str, object]]:
    """Yields what inside an object, or a list of one, may be a document, with its place."""
    inner = list(outline.items()) if isinstance(outline, dict) else []
    if isinstance(outline, list) and len(outline) == 1:
        inner = [("item", outline[0])]
    found = [(key, value) for key, value in inner if value and isinstance(value, dict | list) and "." not in key]
    yield from found
    for key, value in found:
        if levels > 1:
            yield from ((f"{key}.{place}", each) for place, each in in_wrappers(value, levels - 1))


def as_list(pieces: Pieces) -> Pieces:
    """Yields JSON Lines as one list."""
    mark, rest = b"[", b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        for line in filter(bytes.strip, lines):
            yield mark + line
            mark = b",\n"
    yield (mark + rest if rest.strip() else b"" if mark != b"[" else mark) + b"]"


@dataclass(slots=True)
class _Room:
    """How many values the item that is being built may still have; commas and brackets within texts count as well."""

    source: SourceFile
    mend: Callable[[Pieces], Pieces] | None = None
    left: int = MOST_IN_ITEM

    def counted(self, pieces: Pieces) -> Pieces:
        for piece in self.mend(pieces) if self.mend else pieces:
            self.take(piece.count(b",") + piece.count(b"{") + piece.count(b"["))
            yield piece

    def take(self, count: int) -> None:
        """Raises UnreadableFile when there is no room for so many values."""
        self.left -= count
        if self.left < 0:
            raise UnreadableFile(
                _("%(path)s holds one conversation of more than %(most)s values: none has, so it was not read further.")
                % {"path": self.source.name, "most": f"{MOST_IN_ITEM:,}"}
            )


def prefix_of_items(outline: object) -> str:
    """Returns the place, in ijson's notation, of the items of a list, or of the document if it is no list."""
    return "item" if isinstance(outline, list) else ""


def read(source: SourceFile, mend: Callable[[Pieces], Pieces] | None = None) -> JsonDocument:
    """Returns the document of a source after it was checked to its end. Raises UnreadableFile."""
    if mend:
        with _faults(source):
            _look_through(source, mend)
        return JsonDocument(source, mend)
    try:
        _look_through(source, None)
    except ijson.JSONError as error:
        if "lexical error" not in str(error):
            raise _fault(source, error) from None
        with _faults(source):
            _look_through(source, mended)
        return JsonDocument(source, mended)
    return JsonDocument(source)


def _look_through(source: SourceFile, mend: Callable[[Pieces], Pieces] | None) -> None:
    depth = 0
    with source.opened(lambda pieces: _with_ends(source, mend(pieces) if mend else pieces)) as file:
        for event, _value in ijson.basic_parse(file, use_float=True):
            if event in ("start_map", "start_array"):
                depth += 1
                if depth > MOST_DEPTH:
                    raise UnreadableFile(
                        _("%(path)s is not valid JSON: %(error)s.")
                        % {"path": source.name, "error": _("it is nested too deeply")}
                    )
            elif event in ("end_map", "end_array"):
                depth -= 1


def _with_ends(source: SourceFile, pieces: Pieces) -> Pieces:
    """Yields the pieces. Raises UnreadableFile at a text, or other values, that go on for too long."""
    before, without = b"", 0
    for piece in pieces:
        without = 0 if _END.search(before + piece) else without + len(piece)
        if without > MOST_WITHOUT_END:
            most = f"{MOST_WITHOUT_END // 1_000_000}"
            raise UnreadableFile(
                _("%(path)s holds a single value of more than %(most)s MB: no chat does, so it was not read further.")
                % {"path": source.name, "most": most}
            )
        before = piece[-1:]
        yield piece


@contextmanager
def _faults(source: SourceFile) -> Iterator[None]:
    try:
        yield
    except ijson.JSONError as error:
        raise _fault(source, error) from None


def _fault(source: SourceFile, error: ijson.JSONError) -> UnreadableFile:
    """Returns the error for a parser's message; for a small document, with line and column."""
    with source.opened() as file:
        raw = file.read(SMALL + 1)
    if not raw.strip():
        return NoChat(_("%(path)s is empty: export or copy it again.") % {"path": source.name})
    if "premature EOF" in str(error) or _ends_within_a_letter(source):
        return UnreadableFile(
            _("%(path)s is not valid JSON: it was cut off before its end; export or copy it again.")
            % {"path": source.name}
        )
    # The parser's message with the text around the place, in one line.
    reason = " ".join(str(error).partition("(right here)")[0].split())[:200]
    if len(raw) <= SMALL:
        try:
            reason = _reason(raw.decode())
        except UnicodeDecodeError as fault:
            return not_utf8(source.name, fault, _("byte %(number)s") % {"number": fault.start})
    return UnreadableFile(_("%(path)s is not valid JSON: %(error)s.") % {"path": source.name, "error": reason})


def _ends_within_a_letter(source: SourceFile) -> bool:
    """Whether the source is UTF-8 but ends within a character."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    with source.opened() as file, suppress(UnicodeDecodeError):
        while piece := file.read(PIECE):
            decoder.decode(piece)
        return bool(decoder.getstate()[0])
    return False


def _reason(text: str) -> str:
    try:
        parse(text)
    except ValueError as error:
        return str(error)
    return _("it holds a number that is too large, or one that is none (NaN, Infinity)")


def mended(pieces: Pieces) -> Pieces:
    r"""Yields the JSON with ``\x0B`` and control characters in texts as ``\u000B``."""
    inside, rest = False, b""

    def mend(found: re.Match[bytes]) -> bytes:
        nonlocal inside, rest
        part = found[0]
        if part == b'"':
            inside = not inside
        elif len(part) == 4:
            return b"\\u00" + part[2:]
        elif part[:1] == b"\\" and found.end() == len(found.string) and part in _UNFINISHED:
            rest = part
            return b""
        elif inside and part[0] < 0x20:
            return b"\\u%04x" % part[0]
        return part

    for piece in pieces:
        whole, rest = rest + piece, b""
        yield _MENDED.sub(mend, whole)
    yield rest


_UNFINISHED = {b"\\", *(b"\\x" + digit for digit in (b"", *(bytes([code]) for code in b"0123456789abcdefABCDEF")))}


# JSON Lines: the lines of a source with their numbers, and their values; one line is in memory at a time.

MOST_LINE = 16_000_000


def numbered(source: SourceFile) -> Iterator[tuple[int, bytes]]:
    """Yields the lines that are not blank, with their numbers; of a line that is too long, its beginning."""
    with source.opened() as file:
        number = 1
        while line := file.readline(MOST_LINE + 1):
            if line.strip():
                yield number, line
            while not line.endswith(b"\n") and (rest := file.readline(MOST_LINE)):
                line = rest
            number += 1


def values(source: SourceFile) -> Iterator[tuple[int, Any]]:
    """Yields each line's number and value, or a rejection if it has none; one line is in memory at a time."""
    for number, line in numbered(source):
        yield number, value(number, line)


def value(number: int, line: bytes) -> Any:
    if len(line) > MOST_LINE:
        most = f"{MOST_LINE // 1_000_000}"
        return Rejected(number, _("longer than %(most)s MB: write the conversation as several lines") % {"most": most})
    try:
        return parse_line(line)
    except UnicodeDecodeError:
        return Rejected(number, _("not UTF-8 text"))
    except json.JSONDecodeError as error:
        # The parser saw this line alone, so its own place would say "line 1".
        place = _("%(error)s: column %(column)s") % {"error": error.msg, "column": error.colno}
        return Rejected(number, _("not valid JSON: %(error)s") % {"error": place})
    except ValueError as error:
        return Rejected(number, _("not valid JSON: %(error)s") % {"error": error})
