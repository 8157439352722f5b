"""Similarity: how near each text of an owner is to a query in meaning, and which words it shares with the query.

The database computes each text's cosine (an index-only scan of the owner's vectors) and counts the words of the query
in it (``words``; ``common_words`` limits how many texts are read for that). numpy does the remaining arithmetic, in
``scores``. Results arrive as columns of bytes, because building a thousand rows takes longer than comparing the texts;
they are aligned here, in a tenth of the time that a join would take.

A query that a model rewrote is compared in both wordings, in one round trip. Each text counts with the wording that
fits it better, so neither a wrong rewrite nor an unclear query hides what the other wording finds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import numpy as np
import psycopg
from pgvector import HalfVector
from psycopg import AsyncConnection

from memoryapp.engine.beside import table_beside
from memoryapp.engine.candidates import UnderstoodQuery
from memoryapp.engine.fusion import Fusion, Sum, TopicPassages, fuse
from memoryapp.engine.memory import ANYWHERE, AtHand, Where
from memoryapp.engine.text.framing import bare
from memoryapp.engine.text.lexical import Floats, Matches, base, is_wide
from memoryapp.models.embedding import COVERED_DIMENSIONS
from memoryapp.platform.database import RoundTrip, SqlRead, Unprepared, array, round_trip
from memoryapp.search.columns import Ids, Positions, int64s, positions
from memoryapp.search.memory_index import IndexCache, MemoryIndex, Passages, as_of, current, state_read
from memoryapp.search.scores import (
    MatchedTexts,
    ScoredTexts,
    SummaryWords,
    better,
    instructions_read,
    lifts,
    scored,
    scored_among,
    understood_of,
)
from memoryapp.search.where import at_hand_read, permitted_read, phrases_read, topics_to_search, with_phrases
from memoryapp.search.words import WORDS, WordingWords, folded, words_read

# Common words: the words of a query that are too frequent in a large memory to search for.
#
# Reading tens of thousands of passages takes most of a search's time, and a word that is in so many of them hardly
# distinguishes them. So a search looks for passages with the rarest words of the query, and counts the other words,
# its common words, only in those passages, like the "common terms query" of Lucene. The number of passages with a
# word is estimated from an evenly spaced sample; a word that no passage of the sample contains is counted.
#
# On the development set (``engine.fusion``), by the share of all passages that is searched (recall@5 / recall@10 /
# MRR): all .882 / .934 / .827; an eighth .882 / .935 / .828; a fifteenth, which is ``MOST`` of 150,000, .873 / .930 /
# .820; a thirtieth .859 / .927 / .810.

# How many passages a search may read for the words of a query; more only when its rarest word alone is in more.
MOST = 10_000
# With a sample of this size, the frequency of a word in a fifteenth of the passages is off by an eighth.
SAMPLE = 1_000

_SQL = table_beside(__file__)
FREQUENCIES: str = _SQL["frequencies"].format(words=WORDS)


@dataclass(frozen=True, slots=True)
class CommonWords:
    """The ``words`` of a query that are not searched for. ``terms`` are their base forms, each with the estimated
    number of passages that contain it."""

    words: tuple[str, ...] = ()
    terms: Mapping[str, int] = field(default_factory=dict)


def step(n: int) -> int:
    """The distance between two passages of the sample, by position among ``n`` passages."""
    return max(n // SAMPLE, 1)


async def of_query(
    connection: AsyncConnection[Any], owner_id: int, queries: Mapping[str, str], passages: Ids
) -> CommonWords:
    """The common words of a query in all its wordings. A small memory has none: it is searched for all words."""
    n = len(passages)
    if n <= MOST:
        return CommonWords()
    values = {"owner": owner_id, "sample": array(passages[:: step(n)].tolist()), **queries}
    (rows,) = await round_trip(connection, Unprepared(FREQUENCIES, values))
    return common({word: about(seen, n) if seen else counted for word, seen, counted in rows})


def sought(matches: Mapping[str, Matches | None], n: int) -> tuple[Mapping[str, Matches | None], CommonWords]:
    """What ``of_query`` and a search for the remaining words would find, computed from all ``matches`` in ``n``
    passages."""
    if n <= MOST:
        return matches, CommonWords()
    found = common({word: _about_in(each, n) for word, each in matches.items()})
    others = [each.documents for word, each in matches.items() if each and word not in found.words]
    within = np.unique(np.concatenate(others)) if others else np.zeros(0, np.intp)
    return {word: _within(each, within) if word in found.words else each for word, each in matches.items()}, found


def _about_in(matches: Matches | None, n: int) -> int:
    documents = matches.documents if matches else np.zeros(0, np.intp)
    return about(int((documents % step(n) == 0).sum()), n) or len(documents)


def _within(matches: Matches | None, documents: Positions) -> Matches | None:
    """The matches in these documents; None when there are none."""
    here = np.isin(matches.documents, documents) if matches else np.zeros(0, np.bool_)
    return Matches(matches.documents[here], matches.counts[here]) if matches and here.any() else None


def about(seen: int, n: int) -> int:
    """The estimated number of passages, of ``n``, with a word that ``seen`` passages of the sample contain."""
    return round(seen * n / len(range(0, n, step(n))))


def common(holding: Mapping[str, int]) -> CommonWords:
    """The common ones among words with a number of passages each. All forms of a word count as one term."""
    forms: defaultdict[str, list[str]] = defaultdict(list)
    for word in holding:
        forms[base(word)].append(word)
    passages = {term: sum(holding[word] for word in words) for term, words in forms.items()}
    rarest = sorted((term for term in passages if passages[term]), key=lambda term: (passages[term], term))
    reached = accumulate(passages[term] for term in rarest)
    terms = {
        term: passages[term]
        for place, (term, so_far) in enumerate(zip(rarest, reached, strict=True))
        if place and so_far > MOST
    }
    return CommonWords(tuple(word for term in terms for word in forms[term]), terms)


Connection = psycopg.AsyncConnection[Any]

# The wordings of a query, in the order in which they are compared.
WORDINGS = ("original", "rewrite")

# The condition on the dimensions is part of the covering index, and has to be written as a literal to match it. The
# vector is read through a sub-select so that a generic plan does not parse it for every row.
_DISTANCES = "string_agg(float8send(vector <#> (SELECT %({name})s::halfvec)), ''::bytea)"
_NEAR: str = _SQL["near"]
# The number of an artifact is negative, so that one column holds both people and artifacts.
_CARDS: str = _SQL["cards"]
_THRESHOLD = """
    (SELECT coalesce(max(threshold), 0) FROM memoryapp_embeddingprofile WHERE id = %(profile)s) AS profile"""
_NOUNS = ("passage", "card")


@dataclass(frozen=True, slots=True)
class Wording:
    """A wording of a query; ``vector`` is its unit vector in the profile, if there is one."""

    text: str
    vector: HalfVector | None


@dataclass(frozen=True, slots=True)
class Question:
    """A query to one owner's memory: as it was typed, and as a model rewrote it, if that differs. ``where`` restricts
    what is found; ``known`` of active sessions is not, without ``fresh`` nothing of them."""

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
class Cosines:
    """The cosine of each of the texts ``ids`` that have a vector, for both wordings; None for one without a vector."""

    ids: Ids
    of_wordings: tuple[Floats | None, ...]

    @classmethod
    def of(cls, ids: bytes | None, *distances: bytes | None) -> Cosines:
        # "<#>" is the negative inner product; for unit vectors the inner product is the cosine.
        return cls(int64s(ids), tuple(None if each is None else -np.frombuffer(each, ">f8") for each in distances))

    def among(self, known: Ids, wording: int) -> Floats:
        """The cosine of each of the ``known`` texts, NaN for a text without a vector."""
        cosine, column = np.full(len(known), np.nan), self.of_wordings[wording]
        if column is not None:
            places, here = positions(known, self.ids)
            cosine[places] = column[here]
        return cosine


@dataclass(frozen=True, slots=True)
class NearTexts:
    """What the database says of nearness: the cosines of passages and of cards, the cards themselves, the ``items``
    that they are of, and the ``threshold`` below which nothing counts as near in this profile."""

    passages: Cosines
    cards: Cosines
    card_texts: Passages
    items: Ids
    threshold: float


@dataclass(frozen=True, slots=True)
class ScoredMemory:
    """Every passage and card of an owner with its score for a query, and what was ``understood`` of the query.
    ``topics`` may be found, with their passages, which are at the positions ``within``; ``summaries`` holds the words
    of the summaries of all topics."""

    passages: ScoredTexts
    cards: ScoredTexts
    index: MemoryIndex
    topics: TopicPassages
    within: Positions
    summaries: SummaryWords
    threshold: float
    understood: UnderstoodQuery


async def compare(connection: Connection, asked: Question, cache: IndexCache, fusion: Fusion = fuse) -> ScoredMemory:
    """Compares everything the owner has with a query; ``fusion`` makes the order. It takes one round trip; a second one
    when the memory is not in the ``cache``, when an edit came since, and for a large memory."""
    owner, texts = asked.owner_id, [bare(wording.text) for wording in asked.wordings]
    index = cache.of(owner) or await current(connection, owner, cache)
    queries = {"query": folded(texts[0]), "rewrite": folded(texts[1] if asked.rewrite else "")}
    common = await of_query(connection, owner, queries, index.passages.ids)
    trip = RoundTrip()
    state = trip.ask(state_read(owner))
    near, words = trip.ask(near_read(asked)), trip.ask(words_read(owner, queries, common.words))
    instructions = trip.ask(instructions_read(owner, texts, index.origins))
    permitted = trip.ask(permitted_read(owner, asked.where))
    at_hand = trip.ask(at_hand_read(owner, asked.text, asked.known))
    phrases = trip.ask(phrases_read(owner, asked.where))
    await trip.make(connection)
    index = await as_of(connection, owner, state.value, index, cache)
    must, should = (
        [phrases.value[each] for each in wanted] for wanted in (asked.where.must_phrases, asked.where.should_phrases)
    )
    compared = _ComparedQuery(index, near.value, words.value, common, instructions.value, fusion, should)
    passages, cards = zip(*(compared.scores(place, text) for place, text in enumerate(texts)), strict=True)
    topics = topics_to_search(index, permitted.value, at_hand.value, fresh=asked.fresh)
    topics = with_phrases(index, topics, must)
    return ScoredMemory(
        passages=better(*passages),
        cards=better(*cards),
        index=index,
        topics=topics,
        within=np.unique(topics.places) if topics is not index.topics else np.arange(len(index.passages.ids)),
        summaries=compared.summaries(len(texts)),
        threshold=near.value.threshold,
        understood=understood_of(
            texts,
            index.origins,
            common.terms,
            instructed=bool(len(instructions.value)),
            where=asked.where,
            absent=[each for each in asked.where.must_phrases if not len(phrases.value[each])],
        ),
    )


@dataclass(frozen=True, slots=True)
class _ComparedQuery:
    """What the database said of a query, and the memory of which it said that."""

    index: MemoryIndex
    near: NearTexts
    words: Sequence[WordingWords]
    common: CommonWords
    instructions: Ids
    fusion: Fusion
    should: Sequence[Ids] = ()

    def scores(self, wording: int, text: str) -> tuple[ScoredTexts, ScoredTexts]:
        """All passages and all cards, scored by the wording of that number, which is ``text``."""
        owner, near, wide = self.index.passages, self.near, is_wide(text)
        passages = MatchedTexts(
            ids=owner.ids,
            items=np.zeros(len(owner.ids), np.int64),
            lengths=owner.lengths,
            wide=owner.wide,
            cosine=near.passages.among(owner.ids, wording),
            matches=self.words[wording].in_passages(owner.ids),
            common=self.common.terms,
        )
        cards = MatchedTexts(
            ids=near.card_texts.ids,
            items=near.items,
            lengths=near.card_texts.lengths,
            wide=near.card_texts.wide,
            cosine=near.cards.among(near.card_texts.ids, wording),
            matches=self.words[wording].in_cards(near.card_texts.ids),
        )
        lifted = lifts(text, self.index.origins, owner.ids, self.instructions, self.should)
        return scored(passages, wide, self.fusion, lifted), scored_among(passages, cards, wide, self.fusion)

    def summaries(self, wordings: int) -> SummaryWords:
        """The words of so many wordings in the summaries of all topics."""
        topics = self.index.topics.topics
        matches = [words.in_summaries(topics) for words in self.words[:wordings]]
        weight = self.fusion.words if isinstance(self.fusion, Sum) else 1.0
        return SummaryWords.of(topics, matches, self.common.terms, weight)


def near_read(asked: Question) -> SqlRead[NearTexts]:
    """Reads, as one row, the distances of all passages and cards to the wordings that have a vector, the cards, and the
    threshold."""
    rewrite = asked.rewrite.vector if asked.rewrite else None
    distances = _DISTANCES.format(name="vector")
    of_rewrite = _DISTANCES.format(name="rewrite_vector") if rewrite is not None else "NULL::bytea"
    covered = f"AND dimensions <= {COVERED_DIMENSIONS}" if asked.dimensions <= COVERED_DIMENSIONS else ""
    near = [_NEAR.format(noun=noun, distances=distances, of_rewrite=of_rewrite, covered=covered) for noun in _NOUNS]
    vectors = {"vector": asked.vector, **({"rewrite_vector": rewrite} if rewrite is not None else {})}
    values = {"owner": asked.owner_id, "profile": asked.profile_id, **vectors}
    return SqlRead(("SELECT * FROM" + ",".join((*near, _CARDS, _THRESHOLD)), values), _near)


def _near(rows: Sequence[Sequence[Any]]) -> NearTexts:
    ((passages, typed, rewrite, near_cards, cards_typed, cards_rewrite, *cards, items, threshold),) = rows
    order = np.argsort(int64s(cards[0]), kind="stable")
    return NearTexts(
        passages=Cosines.of(passages, typed, rewrite),
        cards=Cosines.of(near_cards, cards_typed, cards_rewrite),
        card_texts=Passages.of(*cards),
        items=int64s(items)[order],
        threshold=threshold,
    )
