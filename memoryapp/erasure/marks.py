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
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from django.conf import settings

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
    def of(cls, erasure: Erasure) -> Marks:
        packed = bytes(erasure.marks)
        hashes = frozenset(packed[at : at + MARK_BYTES] for at in range(0, len(packed), MARK_BYTES))
        return cls(_key(bytes(erasure.salt)), tuple(erasure.lengths), hashes)

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
    """Runs of words. Of more than twice ``MOST_MARKS``, which a large memory has, an even selection is kept.

    ``share`` is the part that is kept, ``unmarked`` counts texts that are too short to have any run.
    """

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
    """The marks of these runs as bytes, and their numbers of words; the marks of ``names`` are kept first."""
    key = _key(salt)
    first = {_hash(key, run): run.count(" ") + 1 for run in names}
    marks = {_hash(key, run): run.count(" ") + 1 for run in runs} | first
    kept = sorted(marks, key=lambda mark: (mark not in first, mark))[:MOST_MARKS]
    return b"".join(sorted(kept)), sorted({marks[mark] for mark in kept})


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
