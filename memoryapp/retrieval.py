"""From a query to ranked candidates: every passage of one owner is compared, exactly.

The database hands over what only it has: each passage's cosine (an index-only scan of the owner's vectors)
and how often it holds each word of the query (stemmed in the ``russian`` configuration, which stems English
too). The arithmetic is numpy's, in ``engine.scoring``. Passages belong to messages, so topics enter last:
the best passages are mapped to the live topics of their messages, a thousand at a time, until enough
topics are ranked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg.rows import class_row

from memoryapp.engine.embeddings import Vectors
from memoryapp.engine.events import Candidate
from memoryapp.engine.lexical import WIDE, Floats, Matches, Weighed, bm25, fold_query, is_wide
from memoryapp.engine.memory import topic_id
from memoryapp.engine.prompts import candidate_line
from memoryapp.engine.scoring import Best, best_passages, descending, fuse, shown_score

BASELINE = 50
_CHUNK = 1_000
# A pasted page is no query: beyond this its words only make every passage alike.
_QUERY_CHARS = 2_000
_PASSAGE_CHARS = 600
_COVERED_DIMENSIONS = 1024

Connection = psycopg.AsyncConnection[Any]

# The condition on dimensions is the covering index's own and has to stand here as a literal to match it.
# The vector is read through a sub-select so that a generic plan does not parse it for every row.
PASSAGES = """
SELECT p.id, p.term_count, octet_length(p.text) > {wide} * char_length(p.text), v.distance
FROM memoryapp_passage p
LEFT JOIN (
    SELECT passage_id, vector <#> (SELECT %(vector)s::halfvec) AS distance
    FROM memoryapp_passagevector
    WHERE owner_id = %(owner)s AND profile_id = %(profile)s {covered}
) v ON v.passage_id = p.id
WHERE p.owner_id = %(owner)s
ORDER BY p.id
"""
UNSEEN = """
SELECT id, term_count, octet_length(text) > {wide} * char_length(text), NULL::float8
FROM memoryapp_passage WHERE owner_id = %(owner)s ORDER BY id
"""
TERMS = "SELECT tsvector_to_array(to_tsvector('russian', %(query)s))"
COUNTS = """
SELECT t.lexeme, array_agg(p.id), array_agg(cardinality(t.positions))
FROM memoryapp_passage p, unnest(p.terms) t
WHERE p.owner_id = %(owner)s AND t.lexeme = ANY(%(terms)s)
AND p.terms @@ (SELECT string_agg(quote_literal(term), ' | ')::tsquery FROM unnest(%(terms)s) term)
GROUP BY t.lexeme
"""
TOPICS_OF = """
SELECT DISTINCT pm.passage_id, m.topic_id
FROM memoryapp_passagemessage pm
JOIN memoryapp_message m ON m.id = pm.message_id AND m.owner_id = %(owner)s
JOIN memoryapp_topic t ON t.id = m.topic_id AND t.owner_id = %(owner)s AND t.is_live
WHERE pm.owner_id = %(owner)s AND pm.passage_id = ANY(%(passages)s)
"""
TOPICS = """
SELECT id, summary, started_at, message_count, size_chars FROM memoryapp_topic
WHERE owner_id = %(owner)s AND id = ANY(%(topics)s)
"""
TEXTS = """
SELECT id, left(text, %(chars)s) AS text FROM memoryapp_passage WHERE owner_id = %(owner)s AND id = ANY(%(passages)s)
"""


@dataclass(frozen=True, slots=True)
class Search:
    """Candidates best first, topic ids in plain vector order, and how many passages were compared.

    Without any vector to compare, ``baseline`` is the order of the words. ``without_vector`` passages have
    none in this profile yet.
    """

    candidates: tuple[Candidate, ...]
    baseline: tuple[str, ...]
    passages: int
    without_vector: int = 0


@dataclass(frozen=True, slots=True)
class _Compared:
    """The owner's n passages against the query; all arrays have shape (n,)."""

    ids: NDArray[np.int64]
    cosine: Floats
    words: Weighed
    fused: Floats


@dataclass(frozen=True, slots=True)
class _Topic:
    id: int
    summary: str
    started_at: datetime
    message_count: int
    size_chars: int


async def search_topics(
    connection: Connection,
    owner_id: int,
    query: str,
    vector: Vectors | None,
    *,
    profile_id: int,
    dimensions: int,
    threshold: float,
    shown: int = 50,
    ranked: int = 200,
) -> Search:
    """The owner's live topics for ``query``, the first ``ranked`` of them, of which ``shown`` are shown.

    ``vector`` is the query in the profile ``profile_id``, shape (dimensions,), unit length; None searches
    by words alone. A topic whose best passage shares no word with the query and lies below the cosine
    ``threshold`` is ranked, so that its absence can be explained, but never shown.
    """
    compared = await _compare(connection, owner_id, query, vector, profile_id, dimensions)
    topics = _TopicsOf(connection, owner_id, compared.ids)
    relevant = (compared.words.total > 0) | (compared.cosine >= threshold)
    best = await topics.ranked(descending(compared.fused), compared.fused, most=ranked)
    nearest = await _vector_order(topics, compared.cosine, {found.topic for found in best})
    candidates = await _candidates(connection, owner_id, compared, best, nearest, _shown(best, relevant, shown))
    baseline = (nearest or [found.topic for found in best if relevant[found.passage]])[:BASELINE]
    without = int(np.isnan(compared.cosine).sum()) if vector is not None else 0
    return Search(candidates, tuple(topic_id(topic) for topic in baseline), len(compared.ids), without)


async def _compare(
    connection: Connection, owner_id: int, query: str, vector: Vectors | None, profile_id: int, dimensions: int
) -> _Compared:
    sql, values = _passages_sql(owner_id, vector, profile_id, dimensions)
    rows = await _rows(connection, sql, values)
    ids = np.array([row[0] for row in rows], dtype=np.int64)
    lengths = np.array([row[1] for row in rows], dtype=np.float64)
    # "<#>" is the negative inner product; of unit vectors the inner product is the cosine.
    cosine = np.array([np.nan if row[3] is None else -row[3] for row in rows], dtype=np.float64)
    wide = is_wide(query)
    foreign = np.array([row[2] != wide for row in rows], dtype=np.bool_)
    words = bm25(await _matches(connection, owner_id, query, ids), lengths)
    return _Compared(ids, cosine, words, fuse(cosine, words, foreign))


def _passages_sql(
    owner_id: int, vector: Vectors | None, profile_id: int, dimensions: int
) -> tuple[str, dict[str, Any]]:
    if vector is None:
        return UNSEEN.format(wide=WIDE), {"owner": owner_id}
    covered = f"AND dimensions <= {_COVERED_DIMENSIONS}" if dimensions <= _COVERED_DIMENSIONS else ""
    written = "[" + ",".join(map(repr, vector.tolist())) + "]"
    return PASSAGES.format(covered=covered, wide=WIDE), {"owner": owner_id, "profile": profile_id, "vector": written}


async def _matches(
    connection: Connection, owner_id: int, query: str, ids: NDArray[np.int64]
) -> dict[str, Matches | None]:
    """For each word of the query the passages that hold it, by their position in ``ids``."""
    terms = (await _rows(connection, TERMS, {"query": fold_query(query[:_QUERY_CHARS])}))[0][0]
    matches: dict[str, Matches | None] = dict.fromkeys(terms)
    if not terms or not len(ids):
        return matches
    for term, passages, counts in await _rows(connection, COUNTS, {"owner": owner_id, "terms": terms}):
        matches[term] = _positions(ids, np.array(passages, dtype=np.int64), np.array(counts, dtype=np.float64))
    return matches


def _positions(ids: NDArray[np.int64], passages: NDArray[np.int64], counts: Floats) -> Matches:
    places = np.minimum(np.searchsorted(ids, passages), len(ids) - 1)
    # A passage may have come between the two statements.
    known = ids[places] == passages
    return Matches(places[known], counts[known])


class _TopicsOf:
    """The live topics of passages, by position in ``ids``; asked for in chunks, each once."""

    def __init__(self, connection: Connection, owner_id: int, ids: NDArray[np.int64]) -> None:
        self._connection = connection
        self._owner_id = owner_id
        self._ids = ids
        self._known: dict[int, tuple[int, ...]] = {}

    async def learn(self, positions: Sequence[int]) -> None:
        """Ask the database for the topics of those passages whose topics are not known yet."""
        missing = [position for position in positions if position not in self._known]
        if not missing:
            return
        place = {int(self._ids[position]): position for position in missing}
        self._known.update(dict.fromkeys(missing, ()))
        for passage, topic in await _rows(
            self._connection, TOPICS_OF, {"owner": self._owner_id, "passages": list(place)}
        ):
            self._known[place[passage]] += (topic,)

    def best(self, order: NDArray[np.intp], values: Floats) -> list[Best]:
        return best_passages(order, values, self._known)

    async def ranked(self, order: NDArray[np.intp], values: Floats, most: int) -> list[Best]:
        """Topics by their best passage, at most ``most``; ``order`` lists positions from the best."""
        best: list[Best] = []
        for end in range(_CHUNK, len(order) + _CHUNK, _CHUNK):
            await self.learn(order[end - _CHUNK : end].tolist())
            best = self.best(order[:end], values)
            if len(best) >= most:
                break
        return best[:most]


async def _vector_order(topics: _TopicsOf, cosine: Floats, wanted: Iterable[int]) -> list[int]:
    """Topics by cosine alone, as far as it takes to meet every wanted one that has a vector."""
    order = descending(cosine)
    order = order[~np.isnan(cosine[order])]
    missing = set(wanted)
    nearest: list[int] = []
    for end in range(_CHUNK, len(order) + _CHUNK, _CHUNK):
        await topics.learn(order[end - _CHUNK : end].tolist())
        nearest = [found.topic for found in topics.best(order[:end], cosine)]
        if len(nearest) >= BASELINE and missing.issubset(nearest):
            break
    return nearest


def _shown(best: Sequence[Best], relevant: NDArray[np.bool_], most: int) -> set[int]:
    """The topics the model may see: the first ``most`` whose best passage is relevant."""
    return {found.topic for found in [found for found in best if relevant[found.passage]][:most]}


async def _candidates(
    connection: Connection,
    owner_id: int,
    compared: _Compared,
    best: Sequence[Best],
    nearest: Sequence[int],
    shown: Collection[int],
) -> tuple[Candidate, ...]:
    if not best:
        return ()
    passages = [int(compared.ids[found.passage]) for found in best if found.topic in shown]
    texts = dict(await _rows(connection, TEXTS, {"owner": owner_id, "passages": passages, "chars": _PASSAGE_CHARS}))
    rows = await _topics(connection, owner_id, [found.topic for found in best])
    vector_rank = {topic: rank for rank, topic in enumerate(nearest, start=1)}
    return tuple(
        _candidate(
            compared,
            found,
            rank,
            vector_rank.get(found.topic, len(nearest) + 1 if nearest else 0),
            rows[found.topic],
            found.topic in shown,
            texts,
        )
        for rank, found in enumerate((found for found in best if found.topic in rows), start=1)
    )


async def _topics(connection: Connection, owner_id: int, ids: Sequence[int]) -> dict[int, _Topic]:
    cursor = connection.cursor(binary=True, row_factory=class_row(_Topic))
    await cursor.execute(TOPICS, {"owner": owner_id, "topics": list(ids)})
    return {topic.id: topic for topic in await cursor.fetchall()}


def _candidate(
    compared: _Compared, found: Best, rank: int, vector_rank: int, topic: _Topic, shown: bool, texts: Mapping[int, str]
) -> Candidate:
    at = found.passage
    score = round(shown_score(found.fused), 6)
    date = _date(topic.started_at)
    cosine = float(compared.cosine[at])
    return Candidate(
        id=topic_id(found.topic),
        rank=rank,
        vector_rank=vector_rank,
        cosine=0.0 if np.isnan(cosine) else round(cosine, 6),
        bm25=round(float(compared.words.total[at]), 6),
        fused=round(found.fused, 6),
        score=score,
        date=date,
        message_count=topic.message_count,
        size_chars=topic.size_chars,
        summary=topic.summary,
        line=candidate_line(topic_id(found.topic), score, date, topic.message_count, topic.size_chars, topic.summary),
        shown=shown,
        passage=texts.get(int(compared.ids[at]), ""),
        terms={term: round(float(adds[at]), 6) for term, adds in compared.words.terms.items() if adds[at] > 0},
    )


def _date(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d}"


async def _rows(connection: Connection, sql: str, values: Mapping[str, Any]) -> list[Any]:
    cursor = connection.cursor(binary=True)
    await cursor.execute(sql, values)
    return await cursor.fetchall()
