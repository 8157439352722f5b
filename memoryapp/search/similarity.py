"""Both signals of a search: how near each text of an owner lies to a query, and which words it shares.

The database hands over what only it has: each text's cosine (an index-only scan of the owner's vectors) and how
often it holds each word of the query (``words``; ``common_words`` bounds how many texts are read for them). The
arithmetic is numpy's, in ``engine.fusion``. Columns come as bytes, for a thousand rows cost more to make than to
compare, and are put beside each other here, which takes a tenth of what a join takes.

A query that a model rewrote is searched in both wordings, in one look at the texts: each text counts by the wording
that finds it better, so neither a rewrite that guessed wrong nor an unclear query hides what the other finds.

A dozen cards say little about what is rare or near, so they are weighed among the passages: their scores then mean
the same as those of topics. Passages are weighed by themselves, so a topic's score does not hang on who is known.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import psycopg
from numpy.typing import NDArray
from pgvector import HalfVector

from memoryapp.engine.candidates import UnderstoodQuery
from memoryapp.engine.fusion import Fusion, Sum, TopicPassages, fuse, shown_scores
from memoryapp.engine.memory import ANYWHERE, Where
from memoryapp.engine.text.lexical import Floats, Matches, Weighed, bm25, is_wide
from memoryapp.models.embedding import COVERED_DIMENSIONS
from memoryapp.operations.database import SqlStatement, together
from memoryapp.search import common_words
from memoryapp.search.columns import Ids, Positions, int64s, positions
from memoryapp.search.index_cache import IndexCache, MemoryIndex, Passages, current, reread, versions
from memoryapp.search.lifts import instructions_sql, lifts, understood_of
from memoryapp.search.summaries import SummaryWords, holding
from memoryapp.search.where import let_through, pairs_sql
from memoryapp.search.words import Occurrences, counts_sql, folded, joined, matches_in, one_term_each

Connection = psycopg.AsyncConnection[Any]

# The wordings of a query, in the order in which they are compared.
WORDINGS = ("original", "rewrite")
_DIGITS = 6
_NOTHING: Mapping[str, float] = {}

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


class Near(NamedTuple):
    """The row of ``near_sql``: columns of bytes, None where there is nothing."""

    passages: bytes | None
    passage_distances: bytes | None
    passage_rewrite_distances: bytes | None
    cards: bytes | None
    card_distances: bytes | None
    card_rewrite_distances: bytes | None
    card_ids: bytes | None
    card_lengths: bytes | None
    card_wide: bytes | None
    card_items: bytes | None
    threshold: float


def near_sql(*, covered: bool, rewritten: bool) -> str:
    """One row: the distances of all passages and of all cards to each wording; what the cards are; the threshold."""
    distances = _DISTANCES.format(name="vector")
    of_rewrite = _DISTANCES.format(name="rewrite_vector") if rewritten else "NULL::bytea"
    only = f"AND dimensions <= {COVERED_DIMENSIONS}" if covered else ""
    near = [_NEAR.format(noun=noun, distances=distances, of_rewrite=of_rewrite, covered=only) for noun in _NOUNS]
    return "SELECT * FROM" + ",".join((*near, _CARDS, _THRESHOLD))


@dataclass(frozen=True, slots=True)
class Numbers:
    """Columns of n texts; ``cosine`` is 0 where it is unknown, ``terms`` says what each word adds to ``bm25``, and
    ``parts`` what each part adds to ``fused``."""

    cosine: list[float]
    bm25: list[float]
    fused: list[float]
    score: list[float]
    terms: list[Mapping[str, float]]
    parts: list[Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Compared:
    """n texts of one kind against a query, in the order of their ``ids``; all arrays have shape (n,).

    ``parts`` say what each part of the score adds, by the names of ``candidates.PARTS``: ``fused`` is their sum, where
    it is a sum (``is_sum``).

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
    parts: Mapping[str, Floats] = field(default_factory=dict)
    is_sum: bool = False

    def topic_lifts(self, topics: TopicPassages, said: SummaryWords) -> Mapping[str, Floats]:
        """What each topic's best passage gains by the whole topic, by part, shape (topics,) each.

        It gains by what meaning adds to all its passages, and by what is ``said`` in its summary; nothing where scores
        are no sum.
        """
        if not self.is_sum:
            return {}
        summary = said.beyond(topics.topics, topics.highest(self.parts["words"]))
        return {"topic": topics.lifts(self.parts["meaning"]), "summary": summary}

    def relevant(self, threshold: float) -> NDArray[np.bool_]:
        """Which texts share a word with the query or lie above the cosine ``threshold``, shape (n,)."""
        near: NDArray[np.bool_] = (self.words.total > 0) | (self.cosine >= threshold)
        return near

    def numbers(self, at: Positions, lifts: Mapping[str, Floats] = MappingProxyType({})) -> Numbers:
        """What both signals say of the texts at those positions, as candidates tell it, with the ``lifts`` of topics
        in their scores; shape (positions,)."""
        fused = sum(lifts.values(), self.fused[at])
        parts = {**{name: adds[at] for name, adds in self.parts.items()}, **lifts}
        return Numbers(
            cosine=_rounded(np.nan_to_num(self.cosine[at])),
            bm25=_rounded(self.words.total[at]),
            fused=_rounded(fused),
            score=_rounded(shown_scores(fused)),
            # What each word of the query adds to those texts that hold it.
            terms=_added({term: adds[at] for term, adds in self.words.terms.items()}, len(at)),
            parts=_added(parts, len(at)),
        )


def _added(columns: Mapping[str, Floats], n: int) -> list[Mapping[str, float]]:
    """What the columns add to each of the ``n`` texts, by their names; those that add nothing left out."""
    rows: defaultdict[int, dict[str, float]] = defaultdict(dict)
    for name, adds in columns.items():
        added = np.round(adds, _DIGITS)
        holding = np.flatnonzero(added)
        for place, number in zip(holding.tolist(), added[holding].tolist(), strict=True):
            rows[place][name] = number
    return [rows.get(place, _NOTHING) for place in range(n)]


def _rounded(column: Floats) -> list[float]:
    digits: list[float] = np.round(column, _DIGITS).tolist()
    return digits


@dataclass(frozen=True, slots=True)
class Texts:
    """The rows of one table, by id, and how often they hold each word of the query.

    ``common`` are the words of which only some matches are known, with about how many texts hold each.
    """

    ids: Ids
    items: Ids
    lengths: Floats
    wide: NDArray[np.bool_]
    cosine: Floats
    matches: Mapping[str, Matches | None]
    common: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Wording:
    """A query in words; ``vector`` is its unit vector in the profile, where it has one."""

    text: str
    vector: HalfVector | None


@dataclass(frozen=True, slots=True)
class Question:
    """A query of one owner as it was typed, and as a model rewrote it, where the two differ.

    ``where`` says which messages may be found.
    """

    owner_id: int
    text: str
    vector: HalfVector | None
    profile_id: int
    dimensions: int
    rewrite: Wording | None = None
    where: Where = ANYWHERE

    @property
    def wordings(self) -> tuple[Wording, ...]:
        typed = Wording(self.text, self.vector)
        return (typed, self.rewrite) if self.rewrite else (typed,)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Every passage and every card of an owner against a query.

    ``topics`` are those that may be found, with their passages, ``said`` is what the summaries of all say,
    ``threshold`` the cosine below which nothing is near in the query's profile.
    """

    passages: Compared
    cards: Compared
    index: MemoryIndex
    topics: TopicPassages
    said: SummaryWords
    threshold: float
    understood: UnderstoodQuery


async def compare(connection: Connection, asked: Question, cache: IndexCache, fusion: Fusion = fuse) -> Comparison:
    """Everything the owner has against a query, in the order that ``fusion`` makes.

    One round trip, and another one after an edit, for a memory that is not in the ``cache``, and for a large one.
    """
    known = cache.of(asked.owner_id) or await current(connection, asked.owner_id, cache)
    texts = [wording.text for wording in asked.wordings]
    queries = {"query": folded(asked.text), "rewrite": folded(asked.rewrite.text if asked.rewrite else "")}
    common = await common_words.of_query(connection, asked.owner_id, queries, known.passages.ids)
    counting = counts_sql(asked.owner_id, queries, common.words)
    instructing = instructions_sql(asked.owner_id, texts, known.talk)
    asks = *versions(asked.owner_id), _near(asked), counting, instructing, pairs_sql(asked.owner_id, asked.where)
    edits, (erasure,), (row,), counted, instructed, pairs = await together(connection, *asks)
    cache.forget_erased(tuple(erasure))
    edit = tuple(edits[0]) if edits else None
    if known.edit != edit:
        known = await reread(connection, asked.owner_id, edit, cache)
    near, words = Near._make(row), [Occurrences._make(each) for each in counted]
    instructions = int64s(instructed[0][0]) if instructed else np.zeros(0, np.int64)
    by_wording = []
    for place, wording in enumerate(asked.wordings):
        passages = _passages(known.passages, near, words, place, common.terms)
        cards = _cards(near, words, place)
        lifted = lifts(wording.text, known.talk, known.passages.ids, instructions)
        wide = is_wide(wording.text)
        by_wording.append((weighed(passages, wide, fusion, lifted), _weighed_among(passages, cards, wide, fusion)))
    of_passages, of_cards = zip(*by_wording, strict=True)
    understood = understood_of(texts, known.talk, common.terms, instructed=bool(len(instructions)), where=asked.where)
    topics = let_through(known.passages.ids, pairs) if asked.where else known.topics
    matches = [_summaries(known.topics.topics, words, place) for place in range(len(asked.wordings))]
    said = SummaryWords.of(known.topics.topics, matches, common.terms, fusion.words if isinstance(fusion, Sum) else 1.0)
    return Comparison(better(*of_passages), better(*of_cards), known, topics, said, near.threshold, understood)


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
        rarity={**typed.words.rarity, **rewrite.words.rarity},
    )
    return Compared(
        ids=typed.ids,
        items=typed.items,
        cosine=np.fmax(typed.cosine, rewrite.cosine),
        words=words,
        fused=of_either(typed.fused, rewrite.fused),
        by_wording=(typed.fused, rewrite.fused),
        parts={
            part: of_either(typed.parts.get(part, nothing), rewrite.parts.get(part, nothing))
            for part in {**typed.parts, **rewrite.parts}
        },
        is_sum=typed.is_sum,
    )


def weighed(
    texts: Texts, wide: bool, fusion: Fusion = fuse, lifted: Mapping[str, Floats] = MappingProxyType({})
) -> Compared:
    """The texts by both signals and what lifts them; ``wide`` says whether the query is written beyond Latin.

    What is counted in deviations is added to a sum of deviations alone: another ``fusion`` ranks by itself.
    """
    words = bm25(texts.matches, texts.lengths, texts.common)
    foreign = texts.wide != wide
    added = fusion if isinstance(fusion, Sum) else None
    meaning, shared = (added or fuse).weighed(texts.cosine, words, foreign)
    every = {"meaning": meaning, "words": shared, **(lifted if added else {})}
    fused = sum(every.values(), np.zeros(len(texts.ids))) if added else fusion(texts.cosine, words, foreign)
    return Compared(texts.ids, texts.items, texts.cosine, words, fused, parts=every, is_sum=added is not None)


def _weighed_among(others: Texts, texts: Texts, wide: bool, fusion: Fusion) -> Compared:
    """``texts`` as they stand among ``others``, without those."""
    if not len(texts.ids):
        return weighed(texts, wide, fusion)
    n = len(others.ids)
    every = weighed(_together(others, texts), wide, fusion)
    words = Weighed(every.words.total[n:], {t: adds[n:] for t, adds in every.words.terms.items()}, every.words.weight)
    added = {part: adds[n:] for part, adds in every.parts.items()}
    return Compared(texts.ids, texts.items, texts.cosine, words, every.fused[n:], parts=added)


def _together(one: Texts, other: Texts) -> Texts:
    first = len(one.ids)
    return Texts(
        ids=np.concatenate((one.ids, other.ids)),
        items=np.concatenate((one.items, other.items)),
        lengths=np.concatenate((one.lengths, other.lengths)),
        wide=np.concatenate((one.wide, other.wide)),
        cosine=np.concatenate((one.cosine, other.cosine)),
        matches={term: joined(matches, other.matches.get(term), first) for term, matches in one.matches.items()},
        common=one.common,
    )


def _near(asked: Question) -> SqlStatement:
    """Asks for all distances to the wordings that have a vector."""
    rewrite = asked.rewrite.vector if asked.rewrite else None
    vectors = {"vector": asked.vector, **({"rewrite_vector": rewrite} if rewrite is not None else {})}
    sql = near_sql(covered=asked.dimensions <= COVERED_DIMENSIONS, rewritten=rewrite is not None)
    return sql, {"owner": asked.owner_id, "profile": asked.profile_id, **vectors}


def _passages(
    known: Passages, near: Near, words: Sequence[Occurrences], wording: int, common: Mapping[str, int]
) -> Texts:
    """All passages against one wording of the query, by its number."""
    ids, of_wording = known.ids, [word for word in words if (word.in_query, word.in_rewrite)[wording]]
    distances = (near.passage_distances, near.passage_rewrite_distances)[wording]
    matches = {word.word: matches_in(ids, word.passages, word.passage_counts) for word in of_wording}
    cosine = _cosines(ids, near.passages, distances)
    return Texts(ids, np.zeros(len(ids), np.int64), known.lengths, known.wide, cosine, one_term_each(matches), common)


def _cards(near: Near, words: Sequence[Occurrences], wording: int) -> Texts:
    """All cards against one wording of the query, by its number."""
    known = Passages.of(near.card_ids, near.card_lengths, near.card_wide)
    ids, of_wording = known.ids, [word for word in words if (word.in_query, word.in_rewrite)[wording]]
    distances = (near.card_distances, near.card_rewrite_distances)[wording]
    matches = {word.word: matches_in(ids, word.cards, word.card_counts) for word in of_wording}
    order = np.argsort(int64s(near.card_ids), kind="stable")
    cosine = _cosines(ids, near.cards, distances)
    return Texts(ids, int64s(near.card_items)[order], known.lengths, known.wide, cosine, one_term_each(matches))


def _summaries(topics: Ids, words: Sequence[Occurrences], wording: int) -> Mapping[str, Matches | None]:
    """Which topics hold each word of one wording of the query, by its number, in their summaries."""
    of_wording = [word for word in words if (word.in_query, word.in_rewrite)[wording]]
    return {word.word: holding(topics, int64s(word.topics)) for word in of_wording}


def _cosines(known: Ids, near: bytes | None, distances: bytes | None) -> Floats:
    """The cosine of each of the ``known`` texts, NaN where the database has no vector to tell it by."""
    cosine = np.full(len(known), np.nan)
    places, here = positions(known, int64s(near))
    # "<#>" is the negative inner product; of unit vectors the inner product is the cosine.
    if distances is not None:
        cosine[places] = -np.frombuffer(distances, ">f8")[here]
    return cosine
