"""Words of a query and the texts that contain them: columns of the database become matches for BM25. The database stems
with its ``russian`` configuration, which also stems English."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from memoryapp.engine.beside import table_beside
from memoryapp.engine.text.lexical import Matches, base, fold_query, other_forms
from memoryapp.platform.database import SqlRead, Unprepared
from memoryapp.search.columns import Ids, int64s, positions

# A pasted page is no query: more words than these only make all passages look alike.
QUERY_CHARS = 2_000

# The words of both wordings of a query.
WORDS = "(to_tsvector('russian', %(query)s) || to_tsvector('russian', %(rewrite)s))"
_SQL = table_beside(__file__)
_WANTED: str = _SQL["wanted"]
_OCCURRENCES: str = _SQL["occurrences"].format(words=WORDS)
_RARER = f"ts_delete({WORDS}, %(common)s::text[])"
_IN_PASSAGES = _OCCURRENCES.format(noun="passage", sought=_RARER)
_IN_CARDS = _OCCURRENCES.format(noun="card", sought=WORDS)
_IN_TOPICS = _OCCURRENCES.format(noun="topic", sought=_RARER)
COUNTS = f"{_WANTED}{_IN_PASSAGES}{_IN_CARDS}{_IN_TOPICS}\nORDER BY lexeme"


class Occurrences(NamedTuple):
    """A row of ``COUNTS``: a word, the wordings that contain it, and how often each text contains it, as columns of
    bytes."""

    word: str
    in_query: bool
    in_rewrite: bool
    passages: bytes
    passage_counts: bytes
    cards: bytes
    card_counts: bytes
    topics: bytes


@dataclass(frozen=True, slots=True)
class WordingWords:
    """The words of one wording of a query, with the texts that contain each."""

    rows: Sequence[Occurrences]

    def in_passages(self, ids: Ids) -> dict[str, Matches | None]:
        """The matches of each term in the passages ``ids``."""
        return one_term_each({row.word: matches_in(ids, row.passages, row.passage_counts) for row in self.rows})

    def in_cards(self, ids: Ids) -> dict[str, Matches | None]:
        """The matches of each term in the cards ``ids``."""
        return one_term_each({row.word: matches_in(ids, row.cards, row.card_counts) for row in self.rows})

    def in_summaries(self, topics: Ids) -> dict[str, Matches | None]:
        """Which of the ascending ``topics`` contain each word in their summaries, by position."""
        return {row.word: holding(topics, int64s(row.topics)) for row in self.rows}


def words_read(owner_id: int, queries: Mapping[str, str], common: Sequence[str]) -> SqlRead[Sequence[WordingWords]]:
    """Counts the words of the ``queries``, of ``query`` and of ``rewrite``, both folded; two values, in this order.
    Common words are counted only in passages, and in summaries, that contain another word."""

    def of_wordings(rows: Sequence[Sequence[Any]]) -> Sequence[WordingWords]:
        words = [Occurrences._make(row) for row in rows]
        typed, rewritten = [word for word in words if word.in_query], [word for word in words if word.in_rewrite]
        return WordingWords(typed), WordingWords(rewritten)

    return SqlRead(Unprepared(COUNTS, {"owner": owner_id, "common": list(common), **queries}), of_wordings)


def folded(query: str) -> str:
    """The text from which the database takes the words of a query: the query, and the other forms of its irregular
    words."""
    asked = query[:QUERY_CHARS]
    return fold_query(" ".join((asked, *(form for forms in other_forms(asked).values() for form in forms))))


def one_term_each(matches: Mapping[str, Matches | None]) -> dict[str, Matches | None]:
    """The matches of words by their base form: all forms of an irregular word count as one term."""
    forms: defaultdict[str, list[Matches]] = defaultdict(list)
    for word, found in matches.items():
        forms[base(word)] += [found] if found else []
    return {word: _summed(found) for word, found in forms.items()}


def _summed(matches: Sequence[Matches]) -> Matches | None:
    """How often each text contains any of several words; None when no text does."""
    if len(matches) < 2:
        return next(iter(matches), None)
    counts = np.concatenate([each.counts for each in matches])
    documents, places = np.unique(np.concatenate([each.documents for each in matches]), return_inverse=True)
    return Matches(documents, np.bincount(places, counts).astype(np.float64))


def matches_in(known: Ids, ids: bytes, counts: bytes) -> Matches | None:
    """Which of the ``known`` texts contain a word, by position; None when none does."""
    places, here = positions(known, int64s(ids))
    return Matches(places, np.frombuffer(counts, ">i4").astype(np.float64)[here]) if len(places) else None


def holding(topics: Ids, ids: Ids) -> Matches | None:
    """Those of the ascending ``topics`` that are among the ``ids``, by their position; None where none is."""
    places, _here = positions(topics, np.sort(ids))
    return Matches(places, np.ones(len(places))) if len(places) else None


def joined(one: Matches | None, other: Matches | None, first: int) -> Matches | None:
    """The matches of two collections as one; the second begins at position ``first``."""
    if other is None:
        return one
    moved = Matches(other.documents + first, other.counts)
    if one is None:
        return moved
    return Matches(np.concatenate((one.documents, moved.documents)), np.concatenate((one.counts, moved.counts)))
