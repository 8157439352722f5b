"""Typos of one letter: a long word of a query that nobody wrote is read as the word of the memory one edit away.

Only where no chat model reads the query. What is compared are the word's own spellings with one letter more, less,
another or swapped, a thousand at most, so it takes one statement for all words, however large the memory.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from psycopg import AsyncConnection

from memoryapp.engine.text.framing import bare
from memoryapp.engine.text.lexical import is_question_word, normal, stems
from memoryapp.engine.text.scripts import WORD, has_own_terms

# Shorter words are one edit away from too many others.
LONG = 6
# So many words of a query are looked at, and so many texts that may contain what was meant. A longer query is no
# question.
_MOST_WORDS, _MOST_TEXTS, _LONGEST = 8, 200, 500
_LETTERS = ("abcdefghijklmnopqrstuvwxyz", "абвгдежзийклмнопрстуфхцчшщъыьэюяіїєґ")
# The query itself may be stored already; what it says does not count as known.
_UNKNOWN = """
SELECT word FROM unnest(%(words)s::text[]) AS wanted (word)
WHERE NOT EXISTS (
    SELECT FROM memoryapp_passage p
    WHERE p.owner_id = %(owner)s AND p.terms @@ plainto_tsquery('russian', word) AND strpos(p.text, %(query)s) = 0
) AND NOT EXISTS (
    SELECT FROM memoryapp_card c WHERE c.owner_id = %(owner)s AND c.terms @@ plainto_tsquery('russian', word)
) AND NOT EXISTS (
    SELECT FROM memoryapp_topic t WHERE t.owner_id = %(owner)s AND t.terms @@ plainto_tsquery('russian', word)
)
"""
_TEXTS = """
WITH sought AS MATERIALIZED (
    SELECT replace(strip(to_tsvector('russian', %(variants)s))::text, ' ', ' | ')::tsquery AS terms
)
(SELECT text FROM memoryapp_passage, sought
 WHERE owner_id = %(owner)s AND memoryapp_passage.terms @@ sought.terms AND strpos(text, %(query)s) = 0
 LIMIT %(most)s)
UNION ALL
(SELECT text FROM memoryapp_card, sought
 WHERE owner_id = %(owner)s AND memoryapp_card.terms @@ sought.terms LIMIT %(most)s)
"""


async def respelled(connection: AsyncConnection[Any], owner_id: int, query: str) -> str:
    """The query with the memory's own words in place of those that are one letter off; the query itself if there are
    none."""
    places = _long_words(query) if len(query) <= _LONGEST else []
    if not places:
        return query
    asked = {"owner": owner_id, "query": query.strip(), "words": list({normal(each[0]) for each in places})}
    unknown = [word for (word,) in await (await connection.execute(_UNKNOWN, asked)).fetchall()]
    if not unknown:
        return query
    meant = {word: list(dict.fromkeys(variants(word))) for word in unknown}
    sought = {"variants": " ".join(each for listed in meant.values() for each in listed), "most": _MOST_TEXTS}
    rows = await (await connection.execute(_TEXTS, {**asked, **sought})).fetchall()
    known = _Known([text for (text,) in rows])
    written = query
    for place in reversed(places):
        word = normal(place[0])
        if best := known.best(meant.get(word, ())):
            cased = best.capitalize() if place[0][:1].isupper() else best
            written = written[: place.start()] + cased + written[place.end() :]
    return written


def _long_words(query: str) -> list[re.Match[str]]:
    framed = bare(query)
    start = max(query.find(framed), 0)
    found = [each for each in WORD.finditer(query, start, start + len(framed)) if _is_long(each[0])]
    return found[:_MOST_WORDS]


def _is_long(word: str) -> bool:
    return len(word) >= LONG and word.isalpha() and not has_own_terms(word) and not is_question_word(word)


class _Known:
    """The words of some texts, and how often each is written there, also by stem."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._words = Counter(word for text in texts for word in WORD.findall(normal(text)))
        self._stems = Counter[str]()
        for word, count in self._words.items():
            for stem in stems(word):
                self._stems[stem] += count

    def best(self, meant: Sequence[str]) -> str:
        """The one of these words that is written most often, in this form or, if none is, in another; or empty."""
        for counts in (self._words, {word: self._stems[stem] for word in meant for stem in stems(word)}):
            if found := max((word for word in meant if counts.get(word)), key=lambda word: counts[word], default=""):
                return found
        return ""


def variants(word: str) -> Iterator[str]:
    """The spellings one edit away: two letters swapped, one replaced, one more, one less."""
    letters = next((each for each in _LETTERS if set(word) <= set(each)), "".join(sorted(set(word))))
    halves = [(word[:at], word[at:]) for at in range(len(word) + 1)]
    yield from (a + b[1] + b[0] + b[2:] for a, b in halves if len(b) > 1 and b[0] != b[1])
    yield from (a + letter + b[1:] for a, b in halves if b for letter in letters if letter != b[0])
    yield from (a + letter + b for a, b in halves for letter in letters)
    yield from (a + b[1:] for a, b in halves if b)
