"""Marks: keyed hashes of short runs of words, with which erased text can be recognised without being stored.

Words are those of the text in its compatibility form, case folded; where no space separates words, each character with
its marks counts as one. A text of ``LENGTH`` words or more has a mark for each run of that many, or of
``LENGTH_UNSPACED`` where such characters are among them. A shorter text has a single mark of all its words, if they
have ``LEAST_CHARS`` letters together, or ``LEAST_NAME_CHARS`` if it is a name. The key mixes the receipt's salt with
``SECRET_KEY``, so that a stolen database alone tests no guess.

The scanner reads the same marks with code of its own; decision 23 describes them.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings

from memoryapp.engine.events import KINDS, upgraded
from memoryapp.engine.json_values import KEY, code_names, rewritten
from memoryapp.engine.text.lexical import compatible
from memoryapp.engine.text.scripts import JOINERS, MARK_RANGES, UNSPACED_RANGES, is_spaced
from memoryapp.models import Erasure
from memoryapp.models.erasure import MARK_BYTES

LENGTH = 5
LENGTH_UNSPACED = 8
LEAST_CHARS = 12
LEAST_NAME_CHARS = 4
# If there are more marks, the smallest are kept, which is an even selection.
MOST_MARKS = 200_000
# Checksums are less than this number.
_CHECKSUMS = 2**32

# A character that is a word or a part of one says as much as so many letters.
_UNSPACED_LETTERS = 1.5
_WORD = re.compile(
    rf"[{UNSPACED_RANGES}][{MARK_RANGES}]*"
    rf"|(?![{UNSPACED_RANGES}])\w(?:(?![{UNSPACED_RANGES}])[\w{MARK_RANGES}{JOINERS}])*"
)
_ESCAPE = re.compile(r"\\u[0-9a-fA-F]{4}|\\[nrtbf\"/\\]")
_PLAIN = {'\\"': '"', "\\/": "/", "\\\\": "\\"}


@dataclass(frozen=True, slots=True)
class Marks:
    """What a receipt looks for: hashes of runs of words, whose numbers of words are ``lengths``."""

    key: bytes
    lengths: tuple[int, ...]
    hashes: frozenset[bytes]

    @classmethod
    def of(cls, erasure: Erasure, part: slice = slice(None)) -> Marks:
        packed = bytes(erasure.marks)
        hashes = [packed[at : at + MARK_BYTES] for at in range(0, len(packed), MARK_BYTES)]
        return cls(_key(bytes(erasure.salt)), tuple(erasure.lengths), frozenset(hashes[part]))

    def without(self, texts: Iterable[str]) -> set[bytes]:
        """The hashes of the runs that do not occur in the ``texts``, which remain."""
        left, seen = set(self.hashes), set[str]()
        for text in texts if left else ():
            found = words(text)
            runs = {run for length in self.lengths for run in _runs(found, length)} - seen
            left.difference_update(_hash(self.key, run) for run in runs)
            # Most short runs come again, and hashing takes longest.
            seen = runs if len(seen) > 5 * MOST_MARKS else seen
            seen |= runs
        return left

    def quoted(self, text: str) -> bool:
        """Whether the text, or the text after reading its JSON escapes, contains a run of erased words."""
        if not self.hashes:
            return False
        found = words(text)
        if any(_hash(self.key, run) in self.hashes for length in self.lengths for run in _runs(found, length)):
            return True
        plain = unescaped(text)
        return plain != text and self.quoted(plain)


def words(text: str) -> list[str]:
    """The words of a text in order, or its characters where no space separates words."""
    return _WORD.findall(compatible(text).casefold())


def runs_of(text: str, least: int = LEAST_CHARS) -> set[str]:
    """The runs of words that represent a text; empty when it has less than ``least`` letters."""
    found = words(text)
    if whole_runs := list(_runs_in(found)):
        return {run for run in whole_runs if len(run) >= LEAST_CHARS}
    return {" ".join(found)} if found and sum(map(_letters, found)) >= least else set()


def _runs_in(found: Sequence[str]) -> Iterator[str]:
    """The run that begins at each word, as long as there are enough words."""
    for at in range(len(found) - LENGTH + 1):
        length = LENGTH if all(map(is_spaced, found[at : at + LENGTH])) else LENGTH_UNSPACED
        if at + length <= len(found):
            yield " ".join(found[at : at + length])


def _letters(word: str) -> float:
    return len(word) if is_spaced(word) else _UNSPACED_LETTERS


@dataclass(slots=True)
class Collected:
    """Runs of words. Of more than twice ``MOST_MARKS``, which a large memory has, an even selection is kept. ``share``
    is the part that is kept, ``unmarked`` counts texts that are too short to have any run."""

    runs: set[str] = field(default_factory=set)
    share: float = 1.0
    unmarked: int = 0

    @classmethod
    def of(cls, texts: Iterable[str], least: int = LEAST_CHARS) -> Collected:
        collected = cls()
        for text in texts:
            collected._add(text, least)
        return collected

    def _add(self, text: str, least: int) -> None:
        found = runs_of(text, least)
        self.unmarked += bool(text) and not found
        self.runs |= self._chosen(found)
        while len(self.runs) > 2 * MOST_MARKS:
            self.share /= 2
            self.runs = self._chosen(self.runs)

    def _chosen(self, runs: set[str]) -> set[str]:
        if self.share == 1.0:
            return runs
        most = self.share * _CHECKSUMS
        return {run for run in runs if zlib.crc32(run.encode("utf-8", "surrogatepass")) < most}

    def __or__(self, other: Collected) -> Collected:
        return Collected(self.runs | other.runs, min(self.share, other.share), self.unmarked + other.unmarked)

    def without(self, texts: Iterable[str]) -> Collected:
        """The same without the runs that the ``texts`` contain."""
        return Collected(without_shared(self.runs, texts), self.share, self.unmarked)

    def beyond(self, texts: Iterable[str]) -> Collected:
        """The same with only those runs that have a word that is in none of the ``texts``; of characters without spaces
        each two neighbours count as a word."""
        known = {part for text in texts for part in _parts(words(text))}
        left = {run for run in self.runs if not known.issuperset(_parts(run.split(" ")))}
        return Collected(left, self.share, self.unmarked)


def _parts(found: Sequence[str]) -> Iterator[str]:
    yield from filter(is_spaced, found)
    pairs = zip(found, found[1:], strict=False)
    yield from (f"{one}{other}" for one, other in pairs if not is_spaced(one) and not is_spaced(other))


def without_shared(runs: set[str], texts: Iterable[str]) -> set[str]:
    """The runs that do not occur in the ``texts``, which remain."""
    left, lengths = set(runs), sorted({run.count(" ") + 1 for run in runs})
    for text in texts:
        found = words(text)
        for length in lengths:
            left.difference_update(_runs(found, length))
        if not left:
            break
    return left


def packed(runs: Iterable[str], salt: bytes, names: Iterable[str] = ()) -> tuple[bytes, list[int]]:
    """The marks of these runs as bytes, and their numbers of words; the marks of ``names`` come first."""
    key = _key(salt)
    first = {_hash(key, run): run.count(" ") + 1 for run in names}
    marks = {_hash(key, run): run.count(" ") + 1 for run in runs} | first
    kept = sorted(marks, key=lambda mark: (mark not in first, mark))[:MOST_MARKS]
    return b"".join(kept), sorted({marks[mark] for mark in kept})


def unescaped(text: str) -> str:
    """The text with one level of JSON escapes resolved."""
    return _ESCAPE.sub(_character, text) if "\\" in text else text


def _character(escape: re.Match[str]) -> str:
    found = escape[0]
    return chr(int(found[2:], 16)) if found[1] == "u" else _PLAIN.get(found, " ")


def _runs(found: Sequence[str], length: int) -> Iterator[str]:
    return (" ".join(found[at : at + length]) for at in range(len(found) - length + 1))


def _hash(key: bytes, run: str) -> bytes:
    return hashlib.blake2b(run.encode("utf-8", "surrogatepass"), digest_size=MARK_BYTES, key=key).digest()


def _key(salt: bytes) -> bytes:
    return hashlib.blake2b(settings.SECRET_KEY.encode(), digest_size=32, key=salt[:64]).digest()


# What quotes erased words is redacted by their marks.


ERASED = "[erased]"
# In JSON that is no event: what is declared as a code in all kinds of events, or says nothing about the text.
_CODES = code_names(KINDS.values()) | {"id", "kind"}
# Parameters are read again, and who stopped a run is no part of the memory.
_KEPT = ("parameters", "stopped_by")
# By the words of the query that a candidate has, each alone: no mark recognises them.
_TERMS = "terms"
_NAMED_ITEM = re.compile(r"(?:Topic|Session|Person|Artifact):\d+")


@dataclass(frozen=True, slots=True)
class Redaction:
    """``ids`` are the erased and touched rows as events name them, ``messages`` the numbers of erased messages.
    ``hides_terms`` says that the query itself was erased: then its words go, by which candidates were found."""

    marks: Marks
    ids: frozenset[str] = frozenset()
    messages: frozenset[int] = frozenset()
    hides_terms: bool = False

    def by_words(self) -> Redaction:
        """The same for text that may name the rows, because they are valid again."""
        return Redaction(self.marks, messages=self.messages)

    def names_any(self, text: str) -> bool:
        return not self.ids.isdisjoint(_NAMED_ITEM.findall(text))

    def text(self, text: str) -> str:
        """The text without the lines that name or quote; nothing of it if quoted words continue over the
        end of a line."""
        if not self.names_any(text) and not self.marks.quoted(text):
            return text
        lines = [ERASED if self.names_any(line) or self.marks.quoted(line) else line for line in text.split("\n")]
        left = "\n".join(lines)
        return ERASED if self.marks.quoted(left) else left

    def quotes_beside_names(self, value: Any) -> bool:
        """Whether erased words are in a line that names none of the rows: then somebody was shown the talk itself."""
        if isinstance(value, str):
            return any(self.marks.quoted(line) for line in value.split("\n") if not self.names_any(line))
        if isinstance(value, Mapping):
            return any(map(self.quotes_beside_names, value.values()))
        return isinstance(value, list) and any(map(self.quotes_beside_names, value))

    def json(self, value: Any) -> Any:
        """The value, with marks in place of what names or quotes."""
        if isinstance(value, str):
            return value if _is_id(value) else self.text(value)
        if isinstance(value, list):
            return [self.json(item) for item in value]
        if not isinstance(value, Mapping):
            return value
        if self.hides_terms:
            value = {key: {} if key == _TERMS else item for key, item in value.items()}
        if isinstance(value.get("id"), str) and value["id"].strip("[]") in self.ids:
            return {key: self.json(bare(item, key)) for key, item in value.items()}
        if isinstance(value.get("id"), list):
            return self._columns(value)
        kept = {key: item for key, item in value.items() if not self.marks.quoted(key)}
        return self._located({key: self.json(item) for key, item in kept.items()})

    def _columns(self, table: Mapping[str, Any]) -> dict[str, Any]:
        """Rows as columns of equal length beside ``id``."""
        hidden = {place for place, name in enumerate(table["id"]) if name in self.ids}
        columns = {}
        for key, column in table.items():
            rows = self.json(column)
            if key != "id" and isinstance(rows, list):
                rows = [bare(row, key) if place in hidden else row for place, row in enumerate(rows)]
            columns[key] = rows
        return columns

    def _located(self, value: dict[str, Any]) -> dict[str, Any]:
        """A piece of an excerpt that was in an erased message has no location now."""
        if value.keys() >= {"text", "status", "message"} and value["message"] in self.messages:
            return value | {"text": ERASED, "status": "absent", "message": None, "start": 0, "end": 0}
        return value

    def bare(self, value: Any) -> Any:
        """The value reduced to numbers, ids and codes."""
        return self.json(bare(value))

    def bare_event(self, kind: str, payload: Mapping[str, Any]) -> Any:
        """The payload of an event, of which numbers, ids and what its kind declares as codes remain."""
        if kind not in KINDS:
            return self.bare(payload)
        return self.json(rewritten(KINDS[kind], upgraded(payload), _without_text))


def _is_id(text: str) -> bool:
    return bool(_NAMED_ITEM.fullmatch(text.strip("[]")))


def bare(value: Any, key: str = "") -> Any:
    """Returns what is left of a value without its text, which is in an object under ``key``."""
    if isinstance(value, Mapping):
        return value if key in _KEPT else {name: bare(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [bare(item, key) for item in value]
    return _without_text(value, (key,)) if isinstance(value, str) and key not in _CODES else value


def _without_text(text: str, path: tuple[str, ...]) -> str:
    if not text or path[0] in _KEPT or path[-1] in ("id", KEY) or _is_id(text):
        return text
    return "{}" if path[-1] == "arguments" else ERASED
