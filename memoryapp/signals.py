"""Both signals of a search: how near each text of an owner lies to a query, and which words it shares.

The database hands over what only it has: each text's cosine (an index-only scan of the owner's vectors) and how
often it holds each word of the query (stemmed in the ``russian`` configuration, which stems English too). The
arithmetic is numpy's, in ``engine.scoring``. Columns come as bytes, for a thousand rows cost more to make than to
compare, and are put beside each other here, which takes a tenth of what a join takes.

A query that a model rewrote is searched in both wordings, in one look at the texts: each text counts by the wording
that finds it better, so neither a rewrite that guessed wrong nor an unclear query hides what the other finds.

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
# The wordings of a query, in the order in which they are compared.
WORDINGS = ("original", "rewrite")
_DIGITS = 6
_NO_TERMS: Mapping[str, float] = {}

# The condition on dimensions is the covering index's own and has to stand here as a literal to match it.
# The vector is read through a sub-select so that a generic plan does not parse it for every row.
_DISTANCES = "string_agg(float8send(vector <#> (SELECT %({name})s::halfvec)), ''::bytea)"
_NEAR = """
    (SELECT string_agg(int8send({noun}_id), ''::bytea), {distances}, {of_rewrite}
     FROM memoryapp_{noun}vector
     WHERE owner_id = %(owner)s AND profile_id = %(profile)s AND (SELECT %(vector)s::halfvec) IS NOT NULL {covered}
    ) AS near_{noun}s"""
# Cards of artifacts have their row's number negative, so that one column tells both kinds apart.
_CARDS = """
    (SELECT string_agg(int8send(id), ''::bytea), string_agg(int4send(term_count), ''::bytea),
            string_agg(boolsend(is_wide), ''::bytea), string_agg(int8send(coalesce(person_id, -artifact_id)), ''::bytea)
     FROM memoryapp_card WHERE owner_id = %(owner)s) AS cards"""
_THRESHOLD = """
    (SELECT coalesce(max(threshold), 0) FROM memoryapp_embeddingprofile WHERE id = %(profile)s) AS profile"""
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


def near_sql(*, covered: bool, rewritten: bool) -> str:
    """One row: the distances of all passages and of all cards to each wording; what the cards are; the threshold."""
    distances = _DISTANCES.format(name="vector")
    of_rewrite = _DISTANCES.format(name="rewrite_vector") if rewritten else "NULL::bytea"
    only = f"AND dimensions <= {COVERED_DIMENSIONS}" if covered else ""
    near = [_NEAR.format(noun=noun, distances=distances, of_rewrite=of_rewrite, covered=only) for noun in _NOUNS]
    return "SELECT * FROM" + ",".join((*near, _CARDS, _THRESHOLD))


# A row for each word of either wording, and of which: which passages hold it and how often, and which cards.
COUNTS = """
WITH each AS MATERIALIZED (
    SELECT to_tsvector('russian', %(query)s) AS query, to_tsvector('russian', %(rewrite)s) AS rewrite
), asked AS MATERIALIZED (SELECT tsvector_to_array(query || rewrite) AS terms FROM each)
SELECT lexeme, lexeme = ANY(tsvector_to_array(query)), lexeme = ANY(tsvector_to_array(rewrite)),
       coalesce(in_passages.ids, ''), coalesce(in_passages.counts, ''),
       coalesce(in_cards.ids, ''), coalesce(in_cards.counts, '')
FROM each CROSS JOIN (SELECT unnest(terms) AS lexeme FROM asked) wanted
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
    is NaN where there is no vector yet. Of two wordings each text has the numbers of the one that finds it better, but
    the cosine of the nearer; ``by_wording`` is what ``fused`` is by each alone, nothing for a query in one wording.
    """

    ids: Ids
    items: Ids
    cosine: Floats
    words: Weighed
    fused: Floats
    by_wording: tuple[Floats, ...] = ()

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
class Wording:
    """A query in words; ``vector`` is its unit vector in the profile, where it has one."""

    text: str
    vector: HalfVector | None


@dataclass(frozen=True, slots=True)
class Question:
    """A query of one owner as it was typed, and as a model rewrote it, where the two differ."""

    owner_id: int
    text: str
    vector: HalfVector | None
    profile_id: int
    dimensions: int
    rewrite: Wording | None = None

    @property
    def wordings(self) -> tuple[Wording, ...]:
        typed = Wording(self.text, self.vector)
        return (typed, self.rewrite) if self.rewrite else (typed,)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Every passage and every card of an owner against a query, which topics the passages are of, and the cosine
    below which nothing is near in the query's profile."""

    passages: Compared
    cards: Compared
    layout: Layout
    threshold: float


async def compare(connection: Connection, asked: Question, layouts: Layouts) -> Comparison:
    """Everything the owner has against a query.

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
    near_passages, near_cards, columns, threshold = row[:3], row[3:6], row[6:-1], row[-1]
    by_wording = []
    for place, wording in enumerate(asked.wordings):
        words = [row for row in counted if row[1 + place]]
        in_passages, in_cards = [(row[0], *row[3:5]) for row in words], [(row[0], *row[5:]) for row in words]
        passages = _passages(known.passages, near_passages[0], near_passages[1 + place], in_passages)
        cards = _cards(columns, near_cards[0], near_cards[1 + place], in_cards)
        wide = is_wide(wording.text)
        by_wording.append((weighed(passages, wide), _weighed_among(passages, cards, wide)))
    of_passages, of_cards = zip(*by_wording, strict=True)
    return Comparison(better(*of_passages), better(*of_cards), known, threshold)


def better(typed: Compared, rewrite: Compared | None = None) -> Compared:
    """The same texts by whichever wording of a query finds each better."""
    if rewrite is None:
        return typed
    rewritten = rewrite.fused > typed.fused

    def of_either(one: Floats, other: Floats) -> Floats:
        chosen: Floats = np.where(rewritten, other, one)
        return chosen

    nothing, terms, others = np.zeros(len(typed.ids)), typed.words.terms, rewrite.words.terms
    words = Weighed(
        total=of_either(typed.words.total, rewrite.words.total),
        terms={term: of_either(terms.get(term, nothing), others.get(term, nothing)) for term in {**terms, **others}},
        weight=max(typed.words.weight, rewrite.words.weight),
    )
    return Compared(
        ids=typed.ids,
        items=typed.items,
        cosine=np.fmax(typed.cosine, rewrite.cosine),
        words=words,
        fused=of_either(typed.fused, rewrite.fused),
        by_wording=(typed.fused, rewrite.fused),
    )


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
    rewrite = asked.rewrite or Wording("", None)
    is_rewritten = rewrite.vector is not None
    vectors = {"vector": asked.vector, **({"rewrite_vector": rewrite.vector} if is_rewritten else {})}
    near = near_sql(covered=asked.dimensions <= COVERED_DIMENSIONS, rewritten=is_rewritten)
    words = {"query": fold_query(asked.text[:QUERY_CHARS]), "rewrite": fold_query(rewrite.text[:QUERY_CHARS])}
    return (near, {**owner, "profile": asked.profile_id, **vectors}), (COUNTS, {**owner, **words})


def _passages(known: Passages, near: bytes | None, distances: bytes | None, counted: Rows) -> Texts:
    ids = known.ids
    cosine, matches = _cosines(ids, near, distances), _matches(ids, counted)
    return Texts(ids, np.zeros(len(ids), np.int64), known.lengths, known.wide, cosine, matches)


def _cards(columns: Sequence[bytes | None], near: bytes | None, distances: bytes | None, counted: Rows) -> Texts:
    *texts, items = columns
    known = Passages.of(*texts)
    order = np.argsort(int64s(columns[0]), kind="stable")
    cosine, matches = _cosines(known.ids, near, distances), _matches(known.ids, counted)
    return Texts(known.ids, int64s(items)[order], known.lengths, known.wide, cosine, matches)


def _matches(known: Ids, counted: Rows) -> Mapping[str, Matches | None]:
    return {term: held_at(known, held, counts) for term, held, counts in counted}


def _cosines(known: Ids, near: bytes | None, distances: bytes | None) -> Floats:
    """The cosine of each of the ``known`` texts, NaN where the database has no vector to tell it by."""
    cosine = np.full(len(known), np.nan)
    places, here = positions(known, int64s(near))
    # "<#>" is the negative inner product; of unit vectors the inner product is the cosine.
    if distances is not None:
        cosine[places] = -np.frombuffer(distances, ">f8")[here]
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
