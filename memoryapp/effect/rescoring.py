"""Many queries against one memory at once, for asking how searches of the past would end.

Passages do not change with topics, so they are compared once for all orders of topics that are tried. The
database hands over the vectors and where each word of any query stands; what is made of them is what every search
makes of them (``signals.weighed``), so that a query is answered here as a real search would answer it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from django.db import connection

from memoryapp.columns import Ids, int64s
from memoryapp.engine.lexical import Floats, Matches, fold_query, is_wide
from memoryapp.layout import PASSAGES, Passages
from memoryapp.signals import QUERY_CHARS, Compared, Texts, better, held_at, weighed

CHUNK = 2_000
# A cosine from the database is a sum of single floats; beyond this its digits are chance, and would part equals.
_DIGITS = 9

VECTORS = """
SELECT string_agg(int8send(passage_id), ''::bytea), string_agg(halfvec_send(vector), ''::bytea)
FROM (
    SELECT passage_id, vector FROM memoryapp_passagevector
    WHERE owner_id = %(owner)s AND profile_id = %(profile)s AND passage_id = ANY(%(passages)s::bigint[])
) held
"""
TERMS = """
SELECT tsvector_to_array(to_tsvector('russian', query))
FROM unnest(%(queries)s::text[]) WITH ORDINALITY AS asked (query, place) ORDER BY place
"""
# Joined, not compared with a list: a thousand words are looked up in a hash, once for each word of a passage.
COUNTS = """
SELECT t.lexeme, string_agg(int8send(x.id), ''::bytea), string_agg(int4send(cardinality(t.positions)), ''::bytea)
FROM memoryapp_passage x, unnest(x.terms) t
JOIN unnest(%(terms)s::text[]) wanted (lexeme) ON wanted.lexeme = t.lexeme
WHERE x.owner_id = %(owner)s
GROUP BY t.lexeme
"""


@dataclass(frozen=True, slots=True)
class Query:
    """A query as search saw it; ``vector`` has shape (dimensions,) in the profile, None compares words alone.

    ``typed`` is how it was typed, where that was searched beside it.
    """

    text: str
    vector: Floats | None = None
    profile_id: int = 0
    typed: Query | None = None


def passages(owner_id: int) -> Passages:
    """All passages of the owner."""
    (columns,) = _fetched(PASSAGES, {"owner": owner_id})
    return Passages.of(*columns)


def compared(owner_id: int, passages: Passages, queries: Sequence[Query]) -> Iterator[Compared]:
    """The owner's passages against each query, in the order of the queries.

    A few statements and one look at each vector, however many queries there are.
    """
    found = _compared(owner_id, passages, [each for query in queries for each in (query.typed, query) if each])
    for query in queries:
        yield better(next(found), next(found)) if query.typed else next(found)


def _compared(owner_id: int, passages: Passages, queries: Sequence[Query]) -> Iterator[Compared]:
    cosines = _cosines(owner_id, passages.ids, queries)
    terms = terms_of([query.text for query in queries])
    held = holding(owner_id, passages.ids, terms)
    for query, cosine, wanted in zip(queries, cosines, terms, strict=True):
        matches = {term: held.get(term) for term in wanted}
        nobody = np.zeros(len(passages.ids), np.int64)
        texts = Texts(passages.ids, nobody, passages.lengths, passages.wide, cosine, matches)
        yield weighed(texts, is_wide(query.text))


def vector_of(sent: bytes | memoryview) -> Floats:
    """A vector as ``halfvec_send`` wrote it, shape (dimensions,)."""
    vector: Floats = halves(sent, 1)[0]
    return vector


def _cosines(owner_id: int, ids: Ids, queries: Sequence[Query]) -> Floats:
    """Shape (queries, passages), NaN where either has no vector."""
    cosines = np.full((len(queries), len(ids)), np.nan)
    asked: dict[int, dict[int, Floats]] = defaultdict(dict)
    for place, query in enumerate(queries):
        if query.vector is not None:
            asked[query.profile_id][place] = query.vector
    for profile, vectors in asked.items():
        rows, compared = np.array(list(vectors)), np.stack(list(vectors.values()))
        for start in range(0, len(ids), CHUNK):
            known, held = vectors_of(owner_id, profile, ids[start : start + CHUNK])
            if len(known):
                cosines[rows[:, None], np.searchsorted(ids, known)] = np.round(compared @ held.T, _DIGITS)
    return cosines


def vectors_of(owner_id: int, profile: int, ids: Ids) -> tuple[Ids, Floats]:
    """Those of the passages ``ids`` that have a vector, and the vectors, shape (passages, dimensions)."""
    values = {"owner": owner_id, "profile": profile, "passages": ids.tolist()}
    ((known, sent),) = _fetched(VECTORS, values)
    found = int64s(known)
    return found, halves(sent or b"", len(found))


def halves(sent: bytes | memoryview, count: int) -> Floats:
    """Vectors that ``halfvec_send`` wrote one after the other, shape (count, dimensions).

    Each is its length, two bytes nobody uses, and its half floats.
    """
    if not count:
        return np.zeros((0, 0))
    return np.frombuffer(sent, ">f2").reshape(count, -1)[:, 2:].astype(np.float64)


def terms_of(queries: Sequence[str]) -> list[list[str]]:
    """The stems of each text, as passages hold them."""
    folded = [fold_query(query[:QUERY_CHARS]) for query in queries]
    return [terms for (terms,) in _fetched(TERMS, {"queries": folded})]


def holding(owner_id: int, ids: Ids, terms: Sequence[Sequence[str]]) -> dict[str, Matches | None]:
    """Which of the owner's passages ``ids`` hold each term, by their position; all in one statement."""
    wanted = sorted({term for each in terms for term in each})
    rows = _fetched(COUNTS, {"owner": owner_id, "terms": wanted}) if wanted else []
    return {term: held_at(ids, held, counts) for term, held, counts in rows}


def _fetched(sql: str, values: dict[str, Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows
