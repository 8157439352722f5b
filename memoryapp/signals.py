"""Both signals of a search: how near each text of an owner lies to a query, and which words it shares.

The database hands over what only it has: each text's cosine (an index-only scan of the owner's vectors) and how
often it holds each word of the query (stemmed in the ``russian`` configuration, which stems English too). The
arithmetic is numpy's, in ``engine.scoring``. Columns come as bytes, for a thousand rows cost more to make than to
compare, and are put beside each other here, which takes a tenth of what a join takes.

A dozen cards say little about what is rare or near, so they are weighed among the passages: their scores then mean
the same as those of topics. Passages are weighed by themselves, so a topic's score does not hang on who is known.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import psycopg
from numpy.typing import NDArray
from pgvector import HalfVector

from memoryapp.columns import Ids, Positions, int64s, positions
from memoryapp.database import Asked, together
from memoryapp.engine.lexical import Floats, Matches, Weighed, bm25, fold_query, is_wide
from memoryapp.engine.scoring import fuse, shown_scores
from memoryapp.layout import Layout, Layouts, Passages, laid_out, last_edit, parts
from memoryapp.models.embedding import COVERED_DIMENSIONS

Connection = psycopg.AsyncConnection[Any]
Rows = list[Any]

# A pasted page is no query: beyond this its words only make every passage alike.
QUERY_CHARS = 2_000
_DIGITS = 6
_NO_TERMS: Mapping[str, float] = {}

# The condition on dimensions is the covering index's own and has to stand here as a literal to match it.
# The vector is read through a sub-select so that a generic plan does not parse it for every row.
_NEAR = """
    (SELECT string_agg(int8send({noun}_id), ''::bytea),
            string_agg(float8send(vector <#> (SELECT %(vector)s::halfvec)), ''::bytea)
     FROM memoryapp_{noun}vector
     WHERE owner_id = %(owner)s AND profile_id = %(profile)s AND (SELECT %(vector)s::halfvec) IS NOT NULL {covered}
    ) AS near_{noun}s"""
# Cards of artifacts have their row's number negative, so that one column tells both kinds apart.
_CARDS = """
    (SELECT string_agg(int8send(id), ''::bytea), string_agg(int4send(term_count), ''::bytea),
            string_agg(boolsend(is_wide), ''::bytea), string_agg(int8send(coalesce(person_id, -artifact_id)), ''::bytea)
     FROM memoryapp_card WHERE owner_id = %(owner)s) AS cards"""
_NOUNS = ("passage", "card")
# The asked words of a text are marked and the others dropped before it is taken apart, which costs a tenth.
_HELD = """
LEFT JOIN (
    SELECT t.lexeme, string_agg(int8send(x.id), ''::bytea) AS ids,
           string_agg(int4send(cardinality(t.positions)), ''::bytea) AS counts
    FROM memoryapp_{noun} x, unnest(ts_filter(setweight(x.terms, 'A', (SELECT terms FROM asked)), '{{a}}')) t
    WHERE x.owner_id = %(owner)s
    AND x.terms @@ (SELECT string_agg(quote_literal(term), ' | ')::tsquery FROM asked, unnest(terms) term)
    GROUP BY t.lexeme
) in_{noun}s USING (lexeme)"""


def _near_sql(covered: str) -> str:
    """One row: the vectors' distances of all passages and of all cards; numbers, words, scripts, items of the cards."""
    near = [_NEAR.format(noun=noun, covered=covered) for noun in _NOUNS]
    return "SELECT * FROM" + ",".join((*near, _CARDS))


NEAR = _near_sql("")
COVERED_NEAR = _near_sql(f"AND dimensions <= {COVERED_DIMENSIONS}")
# A row for each word of the query: which passages hold it and how often, and which cards.
COUNTS = """
WITH asked AS MATERIALIZED (SELECT tsvector_to_array(to_tsvector('russian', %(query)s)) AS terms)
SELECT lexeme, coalesce(in_passages.ids, ''), coalesce(in_passages.counts, ''),
       coalesce(in_cards.ids, ''), coalesce(in_cards.counts, '')
FROM (SELECT unnest(terms) AS lexeme FROM asked) wanted
""" + "".join(_HELD.format(noun=noun) for noun in _NOUNS)


@dataclass(frozen=True, slots=True)
class Numbers:
    """Columns of n texts; ``cosine`` is 0 where it is unknown, ``terms`` says what each word adds to ``bm25``."""

    cosine: list[float]
    bm25: list[float]
    fused: list[float]
    score: list[float]
    terms: list[Mapping[str, float]]


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

    def numbers(self, at: Positions) -> Numbers:
        """What both signals say of the texts at those positions, as candidates tell it."""
        return Numbers(
            cosine=_rounded(np.nan_to_num(self.cosine[at])),
            bm25=_rounded(self.words.total[at]),
            fused=_rounded(self.fused[at]),
            score=_rounded(shown_scores(self.fused[at])),
            terms=self._terms(at),
        )

    def _terms(self, at: Positions) -> list[Mapping[str, float]]:
        """What each word of the query adds to those texts that hold it."""
        terms: defaultdict[int, dict[str, float]] = defaultdict(dict)
        for term, adds in self.words.terms.items():
            added = np.round(adds[at], _DIGITS)
            holding = np.flatnonzero(added > 0)
            for place, number in zip(holding.tolist(), added[holding].tolist(), strict=True):
                terms[place][term] = number
        return [terms.get(place, _NO_TERMS) for place in range(len(at))]


def _rounded(column: Floats) -> list[float]:
    digits: list[float] = np.round(column, _DIGITS).tolist()
    return digits


@dataclass(frozen=True, slots=True)
class Texts:
    """The rows of one table, by id, and how often they hold each word of the query."""

    ids: Ids
    items: Ids
    lengths: Floats
    wide: NDArray[np.bool_]
    cosine: Floats
    matches: Mapping[str, Matches | None]


@dataclass(frozen=True, slots=True)
class Question:
    """A query of one owner; ``vector`` is its unit vector in the profile, where it has one."""

    owner_id: int
    text: str
    vector: HalfVector | None
    profile_id: int
    dimensions: int


async def compare(connection: Connection, asked: Question, layouts: Layouts) -> tuple[Compared, Compared, Layout]:
    """Every passage and every card of the owner against a query, and which topics the passages are of.

    One round trip, and another one after an edit.
    """
    known = layouts.of(asked.owner_id)
    asks = last_edit(asked.owner_id), *_statements(asked)
    edits, (row,), counted, *read = await together(connection, *asks, *(() if known else parts(asked.owner_id)))
    edit = tuple(edits[0]) if edits else None
    if known is None or known.edit != edit:
        (passages,), (pairs,) = read or await together(connection, *parts(asked.owner_id))
        known = laid_out(edit, passages, pairs)
        layouts.keep(asked.owner_id, known)
    near_passages, near_cards, columns = row[:2], row[2:4], row[4:]
    passages = _passages(known.passages, near_passages, [(term, *held[:2]) for term, *held in counted])
    cards = _cards(columns, near_cards, [(term, *held[2:]) for term, *held in counted])
    wide = is_wide(asked.text)
    return weighed(passages, wide), _weighed_among(passages, cards, wide), known


def weighed(texts: Texts, wide: bool) -> Compared:
    """The texts by both signals; ``wide`` says whether the query is written beyond Latin."""
    words = bm25(texts.matches, texts.lengths)
    fused = fuse(texts.cosine, words, texts.wide != wide)
    return Compared(texts.ids, texts.items, texts.cosine, words, fused)


def _weighed_among(others: Texts, texts: Texts, wide: bool) -> Compared:
    """``texts`` as they stand among ``others``, without those."""
    if not len(texts.ids):
        return weighed(texts, wide)
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


def _statements(asked: Question) -> tuple[Asked, Asked]:
    owner = {"owner": asked.owner_id}
    near = COVERED_NEAR if asked.dimensions <= COVERED_DIMENSIONS else NEAR
    return (
        (near, {**owner, "profile": asked.profile_id, "vector": asked.vector}),
        (COUNTS, {**owner, "query": fold_query(asked.text[:QUERY_CHARS])}),
    )


def _passages(known: Passages, near: Sequence[bytes | None], counted: Rows) -> Texts:
    ids = known.ids
    cosine, matches = _cosines(ids, *near), _matches(ids, counted)
    return Texts(ids, np.zeros(len(ids), np.int64), known.lengths, known.wide, cosine, matches)


def _cards(columns: Sequence[bytes | None], near: Sequence[bytes | None], counted: Rows) -> Texts:
    *texts, items = columns
    known = Passages.of(*texts)
    order = np.argsort(int64s(columns[0]), kind="stable")
    cosine, matches = _cosines(known.ids, *near), _matches(known.ids, counted)
    return Texts(known.ids, int64s(items)[order], known.lengths, known.wide, cosine, matches)


def _matches(known: Ids, counted: Rows) -> Mapping[str, Matches | None]:
    return {term: held_at(known, held, counts) for term, held, counts in counted}


def _cosines(known: Ids, near: bytes | None, distances: bytes | None) -> Floats:
    """The cosine of each of the ``known`` texts, NaN where the database has no vector to tell it by."""
    cosine = np.full(len(known), np.nan)
    places, here = positions(known, int64s(near))
    # "<#>" is the negative inner product; of unit vectors the inner product is the cosine.
    cosine[places] = -np.frombuffer(distances or b"", ">f8")[here]
    return cosine


def held_at(known: Ids, ids: bytes, counts: bytes) -> Matches | None:
    """Which of the ``known`` texts hold a word, by their position; None where none does."""
    places, here = positions(known, int64s(ids))
    return Matches(places, np.frombuffer(counts, ">i4").astype(np.float64)[here]) if len(places) else None


def _joined(one: Matches | None, other: Matches | None, first: int) -> Matches | None:
    """The matches of two collections of which the second begins at position ``first``."""
    if other is None:
        return one
    moved = Matches(other.documents + first, other.counts)
    if one is None:
        return moved
    return Matches(np.concatenate((one.documents, moved.documents)), np.concatenate((one.counts, moved.counts)))
