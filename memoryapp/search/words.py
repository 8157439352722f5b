"""The words of a query and where texts hold them, as columns of the database become matches for BM25."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from memoryapp.engine.text.irregular import base, other_forms
from memoryapp.engine.text.lexical import Matches, fold_query
from memoryapp.search.columns import Ids, int64s, positions

# A pasted page is no query: beyond this its words only make every passage alike.
QUERY_CHARS = 2_000


def folded(query: str) -> str:
    """What the database takes the words of a query from: its own, and the other forms of the irregular ones."""
    asked = query[:QUERY_CHARS]
    return fold_query(" ".join((asked, *(form for forms in other_forms(asked).values() for form in forms))))


def one_term_each(matches: Mapping[str, Matches | None]) -> dict[str, Matches | None]:
    """The matches of words by their base form: all forms of an irregular word are one term."""
    forms: defaultdict[str, list[Matches]] = defaultdict(list)
    for word, found in matches.items():
        forms[base(word)] += [found] if found else []
    return {word: _summed(found) for word, found in forms.items()}


def _summed(matches: Sequence[Matches]) -> Matches | None:
    """How often each text holds any of several words; None where none does."""
    if len(matches) < 2:
        return next(iter(matches), None)
    counts = np.concatenate([each.counts for each in matches])
    documents, places = np.unique(np.concatenate([each.documents for each in matches]), return_inverse=True)
    return Matches(documents, np.bincount(places, counts).astype(np.float64))


def matches_in(known: Ids, ids: bytes, counts: bytes) -> Matches | None:
    """Which of the ``known`` texts hold a word, by their position; None where none does."""
    places, here = positions(known, int64s(ids))
    return Matches(places, np.frombuffer(counts, ">i4").astype(np.float64)[here]) if len(places) else None


def joined(one: Matches | None, other: Matches | None, first: int) -> Matches | None:
    """The matches of two collections of which the second begins at position ``first``."""
    if other is None:
        return one
    moved = Matches(other.documents + first, other.counts)
    if one is None:
        return moved
    return Matches(np.concatenate((one.documents, moved.documents)), np.concatenate((one.counts, moved.counts)))
