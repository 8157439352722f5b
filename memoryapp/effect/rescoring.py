"""Compares the queries of many past runs with one memory at once.

Passages do not change with topics, so they are compared once for all orders of topics that are tried. The database
returns the vectors and the positions of each word of any query. The rest is computed like in every search
(``scores.scored``), so that the result is the same as that of a real search.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from django.db import connection

from memoryapp.engine.text.framing import bare
from memoryapp.engine.text.lexical import Floats, Matches, fold_query, is_wide
from memoryapp.search import common_words
from memoryapp.search.columns import Ids, int64s
from memoryapp.search.index_cache import MESSAGES, MESSAGES_OF, PASSAGES
from memoryapp.search.lifts import PassageOrigins, instructions_read, lifts
from memoryapp.search.memory_index import Messages, MessagesInPassages, Passages
from memoryapp.search.scores import MatchedTexts, ScoredTexts, better, scored
from memoryapp.search.words import QUERY_CHARS, folded, matches_in, one_term_each
from memoryapp.sessions import active
from memoryapp.sessions.active import ActiveTalk

CHUNK = 2_000
# A cosine from the database is a sum of single floats; its further digits are noise and would separate equal texts.
_DIGITS = 9

VECTORS = """
SELECT string_agg(int8send(passage_id), ''::bytea), string_agg(halfvec_send(vector), ''::bytea)
FROM (
    SELECT passage_id, vector FROM memoryapp_passagevector
    WHERE owner_id = %(owner)s AND profile_id = %(profile)s AND passage_id = ANY(%(passages)s::bigint[])
) found
"""
TERMS = """
SELECT tsvector_to_array(to_tsvector('russian', query))
FROM unnest(%(queries)s::text[]) WITH ORDINALITY AS asked (query, place) ORDER BY place
"""
# A join, because PostgreSQL then looks up each word of a passage in a hash of a thousand words, not in a list.
COUNTS = """
SELECT t.lexeme, string_agg(int8send(x.id), ''::bytea), string_agg(int4send(cardinality(t.positions)), ''::bytea)
FROM memoryapp_passage x, unnest(x.terms) t
JOIN unnest(%(terms)s::text[]) wanted (lexeme) ON wanted.lexeme = t.lexeme
WHERE x.owner_id = %(owner)s
GROUP BY t.lexeme
"""


@dataclass(frozen=True, slots=True)
class Query:
    """A query as the search saw it; ``vector`` has shape (dimensions,) in the profile; with None only words are
    compared.

    ``typed`` is the query as it was typed, if that was searched as well.
    """

    text: str
    vector: Floats | None = None
    profile_id: int = 0
    typed: Query | None = None

    @property
    def wordings(self) -> tuple[Query, ...]:
        return (self.typed, self) if self.typed else (self,)


def passages(owner_id: int) -> Passages:
    """All passages of the owner."""
    (columns,) = _fetched(PASSAGES, {"owner": owner_id})
    return Passages.of(*columns)


@dataclass(frozen=True, slots=True)
class RescoredQuery:
    """The owner's passages compared with a query, and the ``common`` terms that a search leaves out."""

    found: ScoredTexts
    common: Collection[str]


def compared(owner_id: int, passages: Passages, queries: Sequence[Query]) -> Iterator[ScoredTexts]:
    """The owner's passages compared with each query, in the order of the queries."""
    return (each.found for each in rescored(owner_id, passages, queries, stems_of(queries)))


def rescored(
    owner_id: int, passages: Passages, queries: Sequence[Query], stems: Sequence[Sequence[str]]
) -> Iterator[RescoredQuery]:
    """Each query compared with the owner's passages, in the order of the queries. ``stems`` are those of ``stems_of``.

    A few statements, and one pass over the vectors, however many queries there are.
    """
    wordings = [query.wordings for query in queries]
    found = _compared(owner_id, passages, wordings, stems)
    for each in wordings:
        compared, common = zip(*(next(found) for _wording in each), strict=True)
        yield RescoredQuery(better(*compared), common[0])


def _compared(
    owner_id: int, passages: Passages, asked: Sequence[Sequence[Query]], terms: Sequence[Sequence[str]]
) -> Iterator[tuple[ScoredTexts, Collection[str]]]:
    """The passages compared with all wordings of the first query in ``asked``, then with those of the next, each with
    the query's common terms."""
    queries = [wording for wordings in asked for wording in wordings]
    cosines = _cosines(owner_id, passages.ids, queries)
    matches = term_matches(owner_id, passages.ids, terms)
    found = _found(asked, terms, matches, len(passages.ids))
    (messages,), (pairs,) = (_fetched(statement, {"owner": owner_id}) for statement in (MESSAGES, MESSAGES_OF))
    known = Messages.of(messages).joined(Messages.of_talk(_talk(owner_id)))
    origins = MessagesInPassages.of(passages.ids, known, (int64s(pairs[0]), int64s(pairs[1]))).origins()
    instructions = _instructions(owner_id, queries, origins)
    for query, cosine, (one_term, common) in zip(queries, cosines, found, strict=True):
        nobody = np.zeros(len(passages.ids), np.int64)
        texts = MatchedTexts(passages.ids, nobody, passages.lengths, passages.wide, cosine, one_term, common)
        lifted = lifts(query.text, origins, passages.ids, instructions)
        yield scored(texts, is_wide(query.text), lifted=lifted), common


def _talk(owner_id: int) -> ActiveTalk:
    """The active sessions, whose messages count like others."""
    (bounds,) = _fetched(active.BOUNDS, {"owner": owner_id}) or [(None, None)]
    return ActiveTalk.of(_fetched(active.MESSAGES, {"owner": owner_id}), active.limited(*bounds))


def _found(
    asked: Sequence[Sequence[Query]], terms: Sequence[Sequence[str]], matches: Mapping[str, Matches | None], n: int
) -> Iterator[tuple[Mapping[str, Matches | None], Mapping[str, int]]]:
    """For each wording, the matches that a search in ``n`` passages finds, and the estimated frequency of its common
    words."""
    each = iter(terms)
    for wordings in asked:
        of_wordings = [{term: matches.get(term) for term in next(each)} for _wording in wordings]
        found, common = common_words.sought({term: m for each_of in of_wordings for term, m in each_of.items()}, n)
        for wanted in of_wordings:
            yield one_term_each({term: found[term] for term in wanted}), common.terms


def _instructions(owner_id: int, queries: Sequence[Query], origins: PassageOrigins) -> Ids:
    """The passages with standing instructions, if any of the queries asks for something to be made."""
    asked = instructions_read(owner_id, [query.text for query in queries], origins)
    return asked.meaning(_fetched(*asked.statement) if asked.statement else [])


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
            known, vectors_here = vectors_of(owner_id, profile, ids[start : start + CHUNK])
            if len(known):
                cosines[rows[:, None], np.searchsorted(ids, known)] = np.round(compared @ vectors_here.T, _DIGITS)
    return cosines


def vectors_of(owner_id: int, profile: int, ids: Ids) -> tuple[Ids, Floats]:
    """Returns the ids of the passages that have a vector, and the vectors, shape (passages, dimensions)."""
    values = {"owner": owner_id, "profile": profile, "passages": ids.tolist()}
    ((known, sent),) = _fetched(VECTORS, values)
    found = int64s(known)
    return found, halves(sent or b"", len(found))


def halves(sent: bytes | memoryview, count: int) -> Floats:
    """Vectors that ``halfvec_send`` wrote one after the other, shape (count, dimensions).

    Each consists of its length, two unused bytes, and its half floats.
    """
    if not count:
        return np.zeros((0, 0))
    return np.frombuffer(sent, ">f2").reshape(count, -1)[:, 2:].astype(np.float64)


def terms_of(queries: Sequence[str]) -> list[list[str]]:
    """The stems of each text, as passages hold them."""
    return _stems([fold_query(bare(query)[:QUERY_CHARS]) for query in queries])


def stems_of(queries: Sequence[Query]) -> list[list[str]]:
    """The stems of each wording of each query, as a search looks for them."""
    return _stems([folded(wording.text) for query in queries for wording in query.wordings])


def _stems(folded_texts: Sequence[str]) -> list[list[str]]:
    return [terms for (terms,) in _fetched(TERMS, {"queries": list(folded_texts)})]


def term_matches(owner_id: int, ids: Ids, terms: Sequence[Sequence[str]]) -> dict[str, Matches | None]:
    """For each term, the positions of the owner's passages ``ids`` that contain it; all in one statement."""
    wanted = sorted({term for each in terms for term in each})
    rows = _fetched(COUNTS, {"owner": owner_id, "terms": wanted}) if wanted else []
    return {term: matches_in(ids, passages, counts) for term, passages, counts in rows}


def _fetched(sql: str, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows
