"""Both signals of a search: how near each text of an owner lies to a query, and which words it shares.

The database hands over what only it has: each text's cosine (an index-only scan of the owner's vectors) and how
often it holds each word of the query (stemmed in the ``russian`` configuration, which stems English too). The
arithmetic is numpy's, in ``engine.scoring``. Columns come as bytes, for a thousand rows cost more to make than to
compare.

A dozen cards say little about what is rare or near, so they are weighed among the passages: their scores then mean
the same as those of topics. Passages are weighed by themselves, so a topic's score does not hang on who is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import psycopg
from numpy.typing import NDArray

from memoryapp.database import Asked, together
from memoryapp.engine.embeddings import Vectors
from memoryapp.engine.lexical import WIDE, Floats, Matches, Weighed, bm25, fold_query, is_wide
from memoryapp.engine.scoring import fuse

Connection = psycopg.AsyncConnection[Any]
Ids = NDArray[np.int64]

# A pasted page is no query: beyond this its words only make every passage alike.
QUERY_CHARS = 2_000
_COVERED_DIMENSIONS = 1024

_COLUMNS = """
SELECT string_agg(int8send(id), ''::bytea), string_agg(int4send(term_count), ''::bytea),
       string_agg(boolsend(wide), ''::bytea), string_agg(float8send(distance), ''::bytea),
       string_agg(int8send(item), ''::bytea)
"""
# The condition on dimensions is the covering index's own and has to stand here as a literal to match it.
# The vector is read through a sub-select so that a generic plan does not parse it for every row.
COMPARED = """{columns} FROM (
    SELECT x.id, x.term_count, octet_length(x.text) > {wide} * char_length(x.text) AS wide,
           coalesce(v.distance, 'NaN') AS distance, {item}::bigint AS item
    FROM memoryapp_{noun} x
    LEFT JOIN (
        SELECT {noun}_id, vector <#> (SELECT %(vector)s::halfvec) AS distance
        FROM memoryapp_{noun}vector
        WHERE owner_id = %(owner)s AND profile_id = %(profile)s {covered}
    ) v ON v.{noun}_id = x.id
    WHERE x.owner_id = %(owner)s
    ORDER BY x.id
) compared
"""
UNSEEN = """{columns} FROM (
    SELECT x.id, x.term_count, octet_length(x.text) > {wide} * char_length(x.text) AS wide,
           'NaN'::float8 AS distance, {item}::bigint AS item
    FROM memoryapp_{noun} x WHERE x.owner_id = %(owner)s ORDER BY x.id
) unseen
"""
COUNTS = """
WITH asked AS MATERIALIZED (SELECT tsvector_to_array(to_tsvector('russian', %(query)s)) AS terms)
SELECT wanted.lexeme, coalesce(held.ids, ''), coalesce(held.counts, '')
FROM (SELECT unnest(terms) AS lexeme FROM asked) wanted
LEFT JOIN (
    SELECT t.lexeme, string_agg(int8send(x.id), ''::bytea) AS ids,
           string_agg(int4send(cardinality(t.positions)), ''::bytea) AS counts
    FROM memoryapp_{noun} x, unnest(x.terms) t
    WHERE x.owner_id = %(owner)s AND t.lexeme = ANY((SELECT terms FROM asked)::text[])
    AND x.terms @@ (SELECT string_agg(quote_literal(term), ' | ')::tsquery FROM asked, unnest(terms) term)
    GROUP BY t.lexeme
) held USING (lexeme)
"""
# Cards of artifacts have their row's number negative, so that one column tells both kinds apart.
_ITEM = {"passage": "0", "card": "coalesce(x.person_id, -x.artifact_id)"}


@dataclass(frozen=True, slots=True)
class Compared:
    """n texts of one kind against a query, in the order of their ``ids``; all arrays have shape (n,).

    ``items`` are whose cards the texts are: a person's number, or an artifact's, negative; 0 for passages. A cosine
    is NaN where there is no vector yet.
    """

    ids: Ids
    items: Ids
    cosine: Floats
    words: Weighed
    fused: Floats

    def relevant(self, threshold: float) -> NDArray[np.bool_]:
        """Which texts share a word with the query or lie above the cosine ``threshold``, shape (n,)."""
        near: NDArray[np.bool_] = (self.words.total > 0) | (self.cosine >= threshold)
        return near

    def terms(self, at: int) -> dict[str, float]:
        """What each word of the query adds to the text at a position."""
        return {term: round(float(adds[at]), 6) for term, adds in self.words.terms.items() if adds[at] > 0}


@dataclass(frozen=True, slots=True)
class Texts:
    """The rows of one table, by id, and how often they hold each word of the query."""

    ids: Ids
    items: Ids
    lengths: Floats
    wide: NDArray[np.bool_]
    cosine: Floats
    matches: Mapping[str, Matches | None]


async def compare(
    connection: Connection,
    owner_id: int,
    query: str,
    vector: Vectors | None,
    *,
    profile_id: int,
    dimensions: int,
) -> tuple[Compared, Compared]:
    """Every passage and every card of the owner against ``query``, in one round trip.

    ``vector`` is the query in the profile ``profile_id``, shape (dimensions,), unit length; None compares words.
    """
    words = {"owner": owner_id, "query": fold_query(query[:QUERY_CHARS])}
    found = await together(
        connection,
        _texts_sql("passage", owner_id, vector, profile_id, dimensions),
        _texts_sql("card", owner_id, vector, profile_id, dimensions),
        (COUNTS.format(noun="passage"), words),
        (COUNTS.format(noun="card"), words),
    )
    passages, cards = _texts(found[0][0], found[2]), _texts(found[1][0], found[3])
    wide = is_wide(query)
    return weighed(passages, wide), _weighed_among(passages, cards, wide)


def weighed(texts: Texts, wide: bool) -> Compared:
    """The texts by both signals; ``wide`` says whether the query is written beyond Latin."""
    words = bm25(texts.matches, texts.lengths)
    fused = fuse(texts.cosine, words, texts.wide != wide)
    return Compared(texts.ids, texts.items, texts.cosine, words, fused)


def _weighed_among(others: Texts, texts: Texts, wide: bool) -> Compared:
    """``texts`` as they stand among ``others``, without those."""
    n = len(others.ids)
    every = weighed(_together(others, texts), wide)
    words = Weighed(every.words.total[n:], {t: adds[n:] for t, adds in every.words.terms.items()}, every.words.weight)
    return Compared(texts.ids, texts.items, texts.cosine, words, every.fused[n:])


def _together(one: Texts, other: Texts) -> Texts:
    first = len(one.ids)
    return Texts(
        ids=np.concatenate((one.ids, other.ids)),
        items=np.concatenate((one.items, other.items)),
        lengths=np.concatenate((one.lengths, other.lengths)),
        wide=np.concatenate((one.wide, other.wide)),
        cosine=np.concatenate((one.cosine, other.cosine)),
        matches={term: _joined(held, other.matches.get(term), first) for term, held in one.matches.items()},
    )


def _texts_sql(noun: str, owner_id: int, vector: Vectors | None, profile_id: int, dimensions: int) -> Asked:
    parts = {"columns": _COLUMNS, "wide": WIDE, "noun": noun, "item": _ITEM[noun]}
    if vector is None:
        return UNSEEN.format(**parts), {"owner": owner_id}
    covered = f"AND dimensions <= {_COVERED_DIMENSIONS}" if dimensions <= _COVERED_DIMENSIONS else ""
    values = {"owner": owner_id, "profile": profile_id, "vector": written(vector)}
    return COMPARED.format(**parts, covered=covered), values


def written(vector: Vectors) -> str:
    """A vector as the database reads it: to six digits, of which the half floats it keeps hold four."""
    return "[" + ",".join([f"{number:.6g}" for number in vector.tolist()]) + "]"


def _texts(row: tuple[bytes | None, ...], counted: Iterable[tuple[str, bytes, bytes]]) -> Texts:
    ids, lengths, wide, distance, items = (column or b"" for column in row)
    known = int64s(ids)
    return Texts(
        ids=known,
        items=int64s(items),
        lengths=np.frombuffer(lengths, ">i4").astype(np.float64),
        wide=np.frombuffer(wide, np.bool_),
        # "<#>" is the negative inner product; of unit vectors the inner product is the cosine.
        cosine=-np.frombuffer(distance, ">f8").astype(np.float64),
        matches={term: held_at(known, held, counts) for term, held, counts in counted},
    )


def int64s(column: bytes | None) -> Ids:
    """Numbers that the database sent as one column of bytes."""
    return np.frombuffer(column or b"", ">i8").astype(np.int64)


def held_at(known: Ids, ids: bytes, counts: bytes) -> Matches | None:
    """Which of the ``known`` texts hold a word, by their position; None where none does."""
    rows, times = int64s(ids), np.frombuffer(counts, ">i4").astype(np.float64)
    if not len(rows) or not len(known):
        return None
    places = np.minimum(np.searchsorted(known, rows), len(known) - 1)
    # A text may have come between the two statements.
    here = known[places] == rows
    return Matches(places[here], times[here])


def _joined(one: Matches | None, other: Matches | None, first: int) -> Matches | None:
    """The matches of two collections of which the second begins at position ``first``."""
    if other is None:
        return one
    moved = Matches(other.documents + first, other.counts)
    if one is None:
        return moved
    return Matches(np.concatenate((one.documents, moved.documents)), np.concatenate((one.counts, moved.counts)))
