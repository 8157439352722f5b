"""Similarity: how near each text of an owner is to a query in meaning, and which words it shares with the query.

The database computes each text's cosine (an index-only scan of the owner's vectors) and counts the words of the query
in it (``words``; ``common_words`` limits how many texts are read for that). numpy does the remaining arithmetic, in
``engine.fusion``. Results arrive as columns of bytes, because building a thousand rows takes longer than comparing the
texts; they are aligned here, in a tenth of the time that a join would take.

A query that a model rewrote is compared in both wordings, in one round trip. Each text counts with the wording that
fits it better, so neither a wrong rewrite nor an unclear query hides what the other wording finds.

A dozen cards are too few to tell which words are rare, so cards are scored together with the passages, and their scores
mean the same as those of topics. Passages are scored without the cards, so a topic's score does not depend on which
people are known.
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
from memoryapp.engine.memory import ANYWHERE, AtHand, Where
from memoryapp.engine.text.lexical import Floats, Matches, Weighed, bm25, is_wide
from memoryapp.models.embedding import COVERED_DIMENSIONS
from memoryapp.operations.database import SqlStatement, together
from memoryapp.search import common_words
from memoryapp.search.columns import Ids, Positions, int64s, positions
from memoryapp.search.index_cache import IndexCache, MemoryIndex, Passages, current, reread, version_of, versions
from memoryapp.search.lifts import instructions_sql, lifts, understood_of
from memoryapp.search.summaries import SummaryWords, holding
from memoryapp.search.where import at_hand_sql, let_through, pairs_sql
from memoryapp.search.words import Occurrences, counts_sql, folded, joined, matches_in, one_term_each

Connection = psycopg.AsyncConnection[Any]

# The wordings of a query, in the order in which they are compared.
WORDINGS = ("original", "rewrite")
_DIGITS = 6
_NOTHING: Mapping[str, float] = {}

# The condition on the dimensions is part of the covering index, and has to be written as a literal to match it. The
# vector is read through a sub-select so that a generic plan does not parse it for every row.
_DISTANCES = "string_agg(float8send(vector <#> (SELECT %({name})s::halfvec)), ''::bytea)"
_NEAR = """
    (SELECT string_agg(int8send({noun}_id), ''::bytea), {distances}, {of_rewrite}
     FROM memoryapp_{noun}vector
     WHERE owner_id = %(owner)s AND profile_id = %(profile)s AND (SELECT %(vector)s::halfvec) IS NOT NULL {covered}
    ) AS near_{noun}s"""
# The number of an artifact is negative, so that one column holds both people and artifacts.
_CARDS = """
    (SELECT string_agg(int8send(id), ''::bytea), string_agg(int4send(term_count), ''::bytea),
            string_agg(boolsend(is_wide), ''::bytea), string_agg(int8send(coalesce(person_id, -artifact_id)), ''::bytea)
     FROM memoryapp_card WHERE owner_id = %(owner)s) AS cards"""
_THRESHOLD = """
    (SELECT coalesce(max(threshold), 0) FROM memoryapp_embeddingprofile WHERE id = %(profile)s) AS profile"""
_NOUNS = ("passage", "card")


class Near(NamedTuple):
    """The row of ``near_sql``: columns of bytes, None for an empty column."""

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
    """The statement that returns, in one row, the distances of all passages and cards to each wording, the items of the
    cards, and the threshold."""
    distances = _DISTANCES.format(name="vector")
    of_rewrite = _DISTANCES.format(name="rewrite_vector") if rewritten else "NULL::bytea"
    only = f"AND dimensions <= {COVERED_DIMENSIONS}" if covered else ""
    near = [_NEAR.format(noun=noun, distances=distances, of_rewrite=of_rewrite, covered=only) for noun in _NOUNS]
    return "SELECT * FROM" + ",".join((*near, _CARDS, _THRESHOLD))


@dataclass(frozen=True, slots=True)
class Numbers:
    """Columns for n texts. ``cosine`` is 0 when it is unknown. ``terms`` is what each word adds to ``bm25``, ``parts``
    what each part of the score adds to ``fused``."""

    cosine: list[float]
    bm25: list[float]
    fused: list[float]
    score: list[float]
    terms: list[Mapping[str, float]]
    parts: list[Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Compared:
    """A query compared with n texts of one kind, in the order of ``ids``; all arrays have shape (n,).

    ``parts`` is what each part of the score adds, by the names of ``candidates.PARTS``; if ``is_sum``, ``fused`` is
    their sum.

    ``items`` names the owner of each card: a person's number, or an artifact's number as a negative; it is 0 for
    passages. The cosine of a text without a vector is NaN. With two wordings, each text has the numbers of the wording
    that fits it better, but the larger of both cosines; ``by_wording`` is ``fused`` by each wording alone, empty for a
    query with one wording.
    """

    ids: Ids
    items: Ids
    cosine: Floats
    words: Weighed
    fused: Floats
    by_wording: tuple[Floats, ...] = ()
    parts: Mapping[str, Floats] = field(default_factory=dict)
    is_sum: bool = False

    def topic_lifts(self, topics: TopicPassages, summaries: SummaryWords) -> Mapping[str, Floats]:
        """What the rest of each topic adds to the score of its best passage, by part, shape (topics,) each.

        The parts are the meaning of all its passages and the words of its summary; none when scores are not sums.
        """
        if not self.is_sum:
            return {}
        summary = summaries.beyond(topics.topics, topics.highest(self.parts["words"]))
        return {"topic": topics.lifts(self.parts["meaning"]), "summary": summary}

    def relevant(self, threshold: float) -> NDArray[np.bool_]:
        """Which texts share a word with the query or have at least the cosine ``threshold``, shape (n,)."""
        near: NDArray[np.bool_] = (self.words.total > 0) | (self.cosine >= threshold)
        return near

    def numbers(self, at: Positions, lifts: Mapping[str, Floats] = MappingProxyType({})) -> Numbers:
        """The numbers of candidates for the texts at these positions, with the ``lifts`` of topics in their scores;
        shape (positions,)."""
        fused = sum(lifts.values(), self.fused[at])
        parts = {**{name: adds[at] for name, adds in self.parts.items()}, **lifts}
        return Numbers(
            cosine=_rounded(np.nan_to_num(self.cosine[at])),
            bm25=_rounded(self.words.total[at]),
            fused=_rounded(fused),
            score=_rounded(shown_scores(fused)),
            # What each word of the query adds to the texts that contain it.
            terms=_added({term: adds[at] for term, adds in self.words.terms.items()}, len(at)),
            parts=_added(parts, len(at)),
        )


def _added(columns: Mapping[str, Floats], n: int) -> list[Mapping[str, float]]:
    """What the columns add to each of the ``n`` texts, by name; columns that add nothing are left out."""
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
    """The rows of one table, by id, and how often they contain each word of the query.

    ``common`` are words for which only some matches are known, with the estimated number of texts that contain each.
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
    """A wording of a query; ``vector`` is its unit vector in the profile, if there is one."""

    text: str
    vector: HalfVector | None


@dataclass(frozen=True, slots=True)
class Question:
    """A query to one owner's memory: as it was typed, and as a model rewrote it, if that differs.

    ``where`` restricts what is found; ``known`` of active sessions is not, without ``fresh`` nothing of them.
    """

    owner_id: int
    text: str
    vector: HalfVector | None
    profile_id: int
    dimensions: int
    rewrite: Wording | None = None
    where: Where = ANYWHERE
    fresh: bool = True
    known: AtHand = AtHand()

    @property
    def wordings(self) -> tuple[Wording, ...]:
        typed = Wording(self.text, self.vector)
        return (typed, self.rewrite) if self.rewrite else (typed,)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Every passage and card of an owner compared with a query, and what was ``understood`` of the query.

    ``topics`` may be found, with their passages, which are at the positions ``within``; ``summaries`` holds the words
    of the summaries of all topics; ``threshold`` is the cosine below which nothing counts as near in this profile.
    """

    passages: Compared
    cards: Compared
    index: MemoryIndex
    topics: TopicPassages
    within: Positions
    summaries: SummaryWords
    threshold: float
    understood: UnderstoodQuery


async def compare(connection: Connection, asked: Question, cache: IndexCache, fusion: Fusion = fuse) -> Comparison:
    """Compares everything the owner has with a query; ``fusion`` makes the order.

    It takes one round trip; a second one when the memory is not in the ``cache``, when an edit came since, and for a
    large memory.
    """
    known = cache.of(asked.owner_id) or await current(connection, asked.owner_id, cache)
    texts = [wording.text for wording in asked.wordings]
    queries = {"query": folded(asked.text), "rewrite": folded(asked.rewrite.text if asked.rewrite else "")}
    common = await common_words.of_query(connection, asked.owner_id, queries, known.passages.ids)
    counting = counts_sql(asked.owner_id, queries, common.words)
    instructing = instructions_sql(asked.owner_id, texts, known.talk)
    asks = (
        *(*versions(asked.owner_id), _near(asked), counting, instructing),
        *(pairs_sql(asked.owner_id, asked.where), at_hand_sql(asked.owner_id, asked.text, asked.known)),
    )
    versioned, (erasure,), (row,), counted, instructed, pairs, at_hand = await together(connection, *asks)
    cache.forget_erased(tuple(erasure))
    if known.version != (version := version_of(versioned)):
        known = await reread(connection, asked.owner_id, version, cache)
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
    topics = let_through(asked.where, known, pairs)
    hidden = known.active_passages if not asked.fresh else known.active_within({number for (number,) in at_hand})
    topics = topics.without(positions(known.passages.ids, np.array(list(hidden), np.int64))[0]) if hidden else topics
    within = np.unique(topics.places) if topics is not known.topics else np.arange(len(known.passages.ids))
    matches = [_summaries(known.topics.topics, words, place) for place in range(len(asked.wordings))]
    summaries = SummaryWords.of(
        known.topics.topics, matches, common.terms, fusion.words if isinstance(fusion, Sum) else 1.0
    )
    found, items = better(*of_passages), better(*of_cards)
    return Comparison(found, items, known, topics, within, summaries, near.threshold, understood)


def better(typed: Compared, rewrite: Compared | None = None) -> Compared:
    """The same texts, each with the numbers of the wording that fits it better."""
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
    """Combines meaning, words and lifts; ``wide`` says whether the query is written mostly in non-Latin letters.

    Lifts are counted in standard deviations, so they are added only to a sum of deviations; another ``fusion`` ranks
    without them.
    """
    words = bm25(texts.matches, texts.lengths, texts.common)
    foreign = texts.wide != wide
    added = fusion if isinstance(fusion, Sum) else None
    meaning, shared = (added or fuse).weighed(texts.cosine, words, foreign)
    every = {"meaning": meaning, "words": shared, **(lifted if added else {})}
    fused = sum(every.values(), np.zeros(len(texts.ids))) if added else fusion(texts.cosine, words, foreign)
    return Compared(texts.ids, texts.items, texts.cosine, words, fused, parts=every, is_sum=added is not None)


def _weighed_among(others: Texts, texts: Texts, wide: bool, fusion: Fusion) -> Compared:
    """The scores of ``texts`` as if they were among ``others``; those are left out of the result."""
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
    """The statement that returns all distances to the wordings that have a vector."""
    rewrite = asked.rewrite.vector if asked.rewrite else None
    vectors = {"vector": asked.vector, **({"rewrite_vector": rewrite} if rewrite is not None else {})}
    sql = near_sql(covered=asked.dimensions <= COVERED_DIMENSIONS, rewritten=rewrite is not None)
    return sql, {"owner": asked.owner_id, "profile": asked.profile_id, **vectors}


def _passages(
    known: Passages, near: Near, words: Sequence[Occurrences], wording: int, common: Mapping[str, int]
) -> Texts:
    """All passages compared with the wording of that number."""
    ids, of_wording = known.ids, [word for word in words if (word.in_query, word.in_rewrite)[wording]]
    distances = (near.passage_distances, near.passage_rewrite_distances)[wording]
    matches = {word.word: matches_in(ids, word.passages, word.passage_counts) for word in of_wording}
    cosine = _cosines(ids, near.passages, distances)
    return Texts(ids, np.zeros(len(ids), np.int64), known.lengths, known.wide, cosine, one_term_each(matches), common)


def _cards(near: Near, words: Sequence[Occurrences], wording: int) -> Texts:
    """All cards compared with the wording of that number."""
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
    """The cosine of each of the ``known`` texts, NaN for a text without a vector."""
    cosine = np.full(len(known), np.nan)
    places, here = positions(known, int64s(near))
    # "<#>" is the negative inner product; for unit vectors the inner product is the cosine.
    if distances is not None:
        cosine[places] = -np.frombuffer(distances, ">f8")[here]
    return cosine
