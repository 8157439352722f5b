"""Marks: keyed hashes of short runs of words, with which erased text can be recognised without being stored.

Words are those of the text in its compatibility form, case folded. A text of ``LENGTH`` words or more has a mark for
each run of that many; a shorter one has a single mark of all its words, if they have ``LEAST_CHARS`` characters
together. The key mixes the receipt's salt with ``SECRET_KEY``, so that a stolen database alone tests no guess.

The scanner reads the same marks with code of its own; decision 23 describes them.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from django.conf import settings

from memoryapp.engine.text.lexical import compatible
from memoryapp.models import Erasure
from memoryapp.models.erasure import MARK_BYTES

LENGTH = 5
LEAST_CHARS = 12
# If there are more marks, the smallest are kept, which is an even selection.
MOST_MARKS = 200_000

_WORD = re.compile(r"\w+")
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
        if not self.hashes or len(text) < LEAST_CHARS:
            return False
        if self._quoted(text):
            return True
        plain = unescaped(text)
        return plain != text and self.quoted(plain)

    def _quoted(self, text: str) -> bool:
        found = words(text)
        return any(_hash(self.key, run) in self.hashes for length in self.lengths for run in _runs(found, length))


def words(text: str) -> list[str]:
    return _WORD.findall(compatible(text).casefold())


def runs_of(text: str, most: int = 0) -> set[str]:
    """The runs of words that represent a text; empty when it is too short to be looked for.

    With ``most`` at most that many, evenly selected: for a large memory not every run is stored.
    """
    found = words(text)
    if len(found) >= LENGTH:
        runs = {run for run in _runs(found, LENGTH) if len(run) >= LEAST_CHARS}
        return set(sorted(runs, key=lambda run: zlib.crc32(run.encode()))[:most]) if most else runs
    whole = " ".join(found)
    return {whole} if sum(map(len, found)) >= LEAST_CHARS else set()


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


def packed(runs: Iterable[str], salt: bytes) -> tuple[bytes, list[int]]:
    """The marks of these runs as bytes, and their numbers of words."""
    key = _key(salt)
    marks = {_hash(key, run): run.count(" ") + 1 for run in runs}
    kept = sorted(marks)[:MOST_MARKS]
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
