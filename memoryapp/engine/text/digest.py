"""A digest of a document without a chat model: its beginning, its frequent words, and the names in it."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass

from memoryapp.engine.text.lexical import stems, words
from memoryapp.engine.text.scripts import beginning

SUMMARY_CHARS = 400
MOST_KEYWORDS = 12
MOST_ENTITIES = 12
# Only the beginning says what a document is about, and only its words are counted.
_COUNTED_CHARS = 50_000
_LEAST_LETTERS = 4
_NAME = re.compile(r"\b[A-ZА-ЯЁ][\w-]{1,40}(?: [A-ZА-ЯЁ][\w-]{1,40}){1,3}\b")


@dataclass(frozen=True, slots=True)
class Digest:
    """A summary, keywords and names, the most frequent first."""

    summary: str
    keywords: list[str]
    entities: list[str]


def digest(text: str) -> Digest:
    """The digest of a document's text."""
    return Digest(_beginning(text), _keywords(text[:_COUNTED_CHARS]), _names(text[:_COUNTED_CHARS]))


def _beginning(text: str) -> str:
    """The first sentences, at most ``SUMMARY_CHARS`` characters."""
    line = " ".join(text[: SUMMARY_CHARS * 4].split())
    if len(line) <= SUMMARY_CHARS:
        return line
    cut = line[: SUMMARY_CHARS - 1]
    end = max(cut.rfind(mark) for mark in (". ", "! ", "? "))
    return cut[: end + 1] if end > SUMMARY_CHARS // 3 else f"{beginning(line, SUMMARY_CHARS - 1)}…"


def _keywords(text: str) -> list[str]:
    """The most frequent stems, each in the form in which it occurs most often."""
    forms: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for word in words(text):
        if len(word) >= _LEAST_LETTERS and word.isalpha() and (stem := stems(word)):
            forms[stem[0]][word.lower()] += 1
    frequent = sorted(forms.values(), key=lambda counts: -counts.total())
    return [counts.most_common(1)[0][0] for counts in frequent[:MOST_KEYWORDS]]


def _names(text: str) -> list[str]:
    found = Counter(" ".join(match.split()) for match in _NAME.findall(text))
    return [name for name, _count in found.most_common(MOST_ENTITIES)]
