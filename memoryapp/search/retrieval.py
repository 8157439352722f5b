"""Retrieval: from a query to ranked candidates of three kinds. Every passage and card of the owner is compared,
exactly.

Passages belong to messages, not to topics: a topic ranks by the best passage that contains one of its messages. A
search takes two round trips to the database: one compares, one reads the facts of candidates that no earlier search has
read."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from time import monotonic
from typing import Any
from weakref import WeakSet

import numpy as np
from cachetools import TTLCache
from django.dispatch import receiver

from memoryapp.engine.beside import table_beside
from memoryapp.engine.candidates import BASELINE, RANKED, Candidate, ItemCandidate, UnderstoodQuery
from memoryapp.engine.chat.cross_encoder import log_odds
from memoryapp.engine.fusion import Best, Fusion, fuse, shown_scores, z_scores
from memoryapp.engine.memory import ANYWHERE, Where, topic_id
from memoryapp.engine.sight import sight
from memoryapp.engine.strategies.strategy import FoundPassage
from memoryapp.engine.text.excerpts import Saying, originals
from memoryapp.engine.text.lexical import Floats
from memoryapp.engine.text.lines import candidate_line, placed
from memoryapp.memory import content
from memoryapp.memory import sessions as active
from memoryapp.memory.content import erased
from memoryapp.memory.sessions import ActiveTalk
from memoryapp.platform import metrics
from memoryapp.platform.database import RoundTrip, SqlRead, SqlStatement, round_trip
from memoryapp.search import items, passages
from memoryapp.search.columns import Ids
from memoryapp.search.memory_index import IndexCache, TopicFacts
from memoryapp.search.scores import ScoredTexts
from memoryapp.search.similarity import WORDINGS, Connection, Question, ScoredMemory, compare

FACTS = (
    "SELECT id, summary, (started_at AT TIME ZONE 'UTC')::date::text, message_count, size_chars FROM ({topics}) topic"
)


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many candidates of each kind are ranked, and how many of those are shown to the model. ``passages`` is how
    many of the best passages are read in addition."""

    topics: int = 50
    people: int = 20
    artifacts: int = 20
    ranked: int = RANKED
    passages: int = 0


NEWEST = "SELECT last_value FROM memoryapp_message_id_seq"


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Candidates of each kind, best first; topic ids in plain vector order; and how many texts were compared.

    Topics are only those that the query's ``where`` permits. When there is no vector to compare, ``baseline`` is
    ordered by words. ``without_vector`` counts the passages that have no vector in this profile yet, ``cards`` counts
    people and artifacts together. A topic that shares no word with the query and whose cosine is below ``threshold`` is
    ranked and not shown. ``copies`` maps each topic that is left out, because a shown one says the same, to that one.
    ``rarity`` is the idf of each stem of the query that any passage contains.

    ``sessions`` are the active sessions that were ranked, with the numbers of their messages. ``newest`` is the
    number of the last message of anybody that had arrived: whatever came later has a higher one."""

    candidates: tuple[Candidate, ...]
    baseline: tuple[str, ...]
    passages: int
    without_vector: int = 0
    people: tuple[ItemCandidate, ...] = ()
    artifacts: tuple[ItemCandidate, ...] = ()
    cards: int = 0
    best_passages: tuple[FoundPassage, ...] = ()
    understood: UnderstoodQuery = UnderstoodQuery()
    threshold: float = 0.0
    copies: Mapping[str, str] = field(default_factory=dict)
    rarity: Mapping[str, float] = field(default_factory=dict)
    sessions: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    newest: int = 0

    @property
    def shown(self) -> tuple[Candidate, ...]:
        """The candidates that the model is shown."""
        return tuple(candidate for candidate in self.candidates if candidate.shown)


@dataclass(frozen=True, slots=True)
class RankedTopics:
    """Topics ranked by their best passage. ``nearest`` are all topics by cosine alone; ``relevant`` are those that may
    be shown, best first. ``by_wording`` is the rank of each topic by each wording alone; empty for a query with one
    wording."""

    best: Best
    nearest: Ids
    relevant: tuple[int, ...]
    baseline: tuple[int, ...]
    by_wording: Mapping[str, Mapping[int, int]]

    @classmethod
    def of(cls, memory: ScoredMemory, threshold: float, most: int) -> RankedTopics:
        """The ``most`` best topics; those without a word of the query are relevant from the cosine ``threshold``."""
        passages, topics, summaries = memory.passages, memory.topics, memory.summaries
        lifts = passages.topic_lifts(topics, summaries)
        best, nearest = topics.best(passages.fused, most, lifts), topics.nearest(passages.cosine)
        kept = best.topics[passages.relevant(threshold)[best.passages] | summaries.speak(best.topics)]
        baseline = (nearest if len(nearest) else kept)[:BASELINE]
        by_wording = {
            wording: _ranks(topics.best(fused, most, lifts).topics)
            for wording, fused in zip(WORDINGS, passages.by_wording, strict=False)
        }
        return cls(best, nearest, tuple(kept.tolist()), tuple(baseline.tolist()), by_wording)

    def once(self, ids: Ids, sayings: Mapping[int, Saying], most: int) -> tuple[frozenset[int], Mapping[int, int]]:
        """The ``most`` topics to show, of copies only the original; and the original of each copy that was left out."""
        passages = dict(zip(self.best.topics.tolist(), ids[self.best.passages].tolist(), strict=True))
        by_topic = {topic: sayings[passages[topic]] for topic in self.relevant if passages[topic] in sayings}
        owner = originals(self.relevant, by_topic)
        shown = frozenset(list(dict.fromkeys(owner.get(topic, topic) for topic in self.relevant))[:most])
        return shown, {copy: original for copy, original in owner.items() if original in shown}


async def search(
    connection: Connection,
    asked: Question,
    *,
    threshold: float | None = None,
    sizes: Sizes = Sizes(),
    keep: Sequence[SqlStatement] = (),
    cache: IndexCache | None = None,
    fusion: Fusion = fuse,
) -> SearchResult:
    """Searches the owner's live topics, people and artifacts. A topic that shares no word with the query and whose
    cosine is below ``threshold``, or that of the profile's row, is ranked and never shown. ``keep`` are statements sent
    with the last ones; ``cache`` has what earlier searches read."""
    cache, owner, where = cache or IndexCache(), asked.owner_id, asked.where
    memory = await compare(connection, asked, cache, fusion)
    texts, index, within = memory.passages, memory.index, memory.within
    least = memory.threshold if threshold is None else threshold
    ranked = RankedTopics.of(memory, least, sizes.ranked)
    # A phrase is looked for in what was said; a card says what was made of it.
    cards = (0, 0) if where.must_phrases else (sizes.people, sizes.artifacts)
    found = items.find_items(memory.cards, least, shown=cards, most=sizes.ranked, but=where.never_people)
    best = passages.best(texts, sizes.passages, within)
    # What a filter hides of a topic is not shown, so its facts are those of this search alone.
    narrowed = where.has_filters
    unknown = [number for number in ranked.best.topics.tolist() if narrowed or number not in index.facts]
    read_for = dict.fromkeys([*texts.ids[ranked.best.passages].tolist(), *texts.ids[best].tolist()])
    trip = RoundTrip()
    people = trip.ask(items.people_read(owner, found.people))
    artifacts = trip.ask(items.artifacts_read(owner, found.artifacts))
    topics = trip.ask(_facts_read(asked, [number for number in unknown if number > 0]))
    sessions = trip.ask(_session_facts_read(asked, [number for number in unknown if number < 0], index.active))
    best_rows = trip.ask(passages.best_read(owner, texts, best, where))
    sayings = trip.ask(passages.sayings_read(owner, [number for number in read_for if number not in index.sayings]))
    newest = trip.ask(SqlRead((NEWEST, {}), lambda rows: int(rows[0][0])))
    for statement in keep:
        trip.ask(SqlRead(statement, list))
    await trip.make(connection)
    facts = [*topics.value, *sessions.value]
    cache.learn(owner, index, () if narrowed else facts, sayings.value)
    shown, left_out = ranked.once(texts.ids, index.sayings, sizes.topics)
    known = {each.id: each for each in facts} if narrowed else index.facts
    return SearchResult(
        candidates=_candidates(texts, ranked, known, shown),
        baseline=tuple(map(topic_id, dict.fromkeys(left_out.get(topic, topic) for topic in ranked.baseline))),
        passages=len(within),
        without_vector=int(np.isnan(texts.cosine[within]).sum()) if asked.vector is not None else 0,
        people=people.value,
        artifacts=artifacts.value,
        cards=len(memory.cards.ids),
        best_passages=passages.find_passages(texts, best, best_rows.value, index.sayings, index.active.session_of),
        understood=memory.understood,
        threshold=least,
        copies={topic_id(copy): topic_id(original) for copy, original in left_out.items()},
        rarity=texts.words.rarity,
        sessions=_sessions(ranked.best.topics, index.active),
        newest=newest.value,
    )


def _facts_read(asked: Question, topics: Sequence[int]) -> SqlRead[list[TopicFacts]]:
    """Reads what candidates show of these topics: nothing beyond the permitted messages."""
    rows, values = content.topics_sql(asked.owner_id, topics, asked.where)
    statement = (FACTS.format(topics=rows), values) if topics else None
    return SqlRead(statement, lambda found: [TopicFacts(*row) for row in found])


def _session_facts_read(asked: Question, sessions: Sequence[int], talk: ActiveTalk) -> SqlRead[list[TopicFacts]]:
    """Reads what candidates show of active sessions: the beginnings of their first messages, if no filter is set."""

    def facts(rows: Sequence[Sequence[Any]]) -> list[TopicFacts]:
        found = ((talk.sessions[-number], text) for number, text in rows if -number in talk.sessions)
        return [
            TopicFacts(
                id=each.number,
                summary="" if asked.where.has_filters else active.title(text),
                date=each.date,
                message_count=len(each.messages),
                size_chars=each.size_chars,
            )
            for each, text in found
        ]

    return SqlRead(active.titles_sql(asked.owner_id, sessions), facts)


def _sessions(ranked: Ids, talk: ActiveTalk) -> dict[str, tuple[int, ...]]:
    """The messages of the active sessions that were ranked."""
    numbers = (number for number in ranked.tolist() if number in talk.sessions)
    return {topic_id(number): talk.sessions[number].messages for number in numbers}


def _ranks(topics: Ids) -> dict[int, int]:
    return {topic: rank for rank, topic in enumerate(topics.tolist(), start=1)}


def _ranks_among(every: Ids, topics: Ids) -> dict[int, int]:
    """The rank of each of ``topics`` in ``every``, which is sorted best first; topics that are not in it
    are left out."""
    at = np.flatnonzero(np.isin(every, topics))
    return dict(zip(every[at].tolist(), (at + 1).tolist(), strict=True))


def _candidates(
    texts: ScoredTexts, ranked: RankedTopics, facts: Mapping[int, TopicFacts], shown_topics: frozenset[int]
) -> tuple[Candidate, ...]:
    """The ranked topics as candidates, without one that was retired meanwhile."""
    vector_rank = _ranks_among(ranked.nearest, ranked.best.topics)
    beyond = len(ranked.nearest) + 1 if len(ranked.nearest) else 0
    numbers = texts.numbers(ranked.best.passages, ranked.best.lifts)
    columns = (numbers.cosine, numbers.bm25, numbers.fused, numbers.score)
    passages = texts.ids[ranked.best.passages].tolist()
    details = numbers.terms, numbers.parts, zip(*columns, strict=True)
    rows = zip(ranked.best.topics.tolist(), passages, *details, strict=True)
    here = (row for row in rows if row[0] in facts)
    made: list[Candidate] = []
    for rank, (number, passage, terms, parts, scores) in enumerate(here, start=1):
        id, topic = topic_id(number), facts[number].columns
        line, found_by = "", {}
        if is_shown := number in shown_topics:
            line = candidate_line(id, scores[-1], *topic)
            found_by = {name: ranks[number] for name, ranks in ranked.by_wording.items() if number in ranks}
        row = (id, rank, vector_rank.get(number, beyond), *scores, *topic, line, is_shown)
        made.append(Candidate(*row, passage, terms, found_by, parts))
    return tuple(made)


# Reranking: a cross-encoder corrects the order of a search, before the best candidates are shown to the model.
#
# The cross-encoder reads the query together with the best passage of each of the first topics. Its scores, in
# standard deviations from their mean, become one more part of the topics' scores; topics further down keep theirs. No
# connection is held while it computes. When it fails, the order of the search is kept.
#
# The effect of its weight was measured with simulated cross-encoders, because no real one was available. They return
# noise of one standard deviation, and add 1, 2 or 3 for a topic with the answer; over the first forty topics of 760
# questions about five public English two-person conversations in whole sessions, ranked by meaning and words
# (recall@5, without one .880):
#
# weight                       1      2      3      5      8
#     one that knows nothing     .855   .817   .785   .664   .523
#     one that adds 1            .899   .902   .891   .861   .799
#     one that adds 2            .937   .955   .955   .953   .942
#     one that adds 3            .954   .974   .985   .987   .989
#
# These figures come from one sample of the noise. Between 2 and 5 a good cross-encoder gains about the same; one
# whose quality is unknown should have a small weight.

WEIGHT = 3.0
_DIGITS = 6


async def passage_texts(
    connection: Connection, owner_id: int, candidates: Sequence[Candidate], where: Where = ANYWHERE
) -> list[str]:
    """The text of the best passage of each candidate, as far as ``where`` permits; empty for a passage that was
    erased."""
    ids = [candidate.passage_id for candidate in candidates]
    rows, values = passages.texts_sql(owner_id, ids, where)
    found = await (await connection.execute(rows, values)).fetchall()
    texts = {id: passages.text_of(text, messages) for id, text, *_messages, messages in found}
    return [texts.get(id, "") for id in ids]


def reranked(found: SearchResult, scores: Floats, shown: int) -> SearchResult:
    """The search with the ``scores`` of the first topics added; ``shown`` is how many topics the model sees."""
    candidates = found.candidates
    lifts = np.round(WEIGHT * z_scores(log_odds(scores)), _DIGITS).tolist()
    scored = [_lifted(candidate, lift) for candidate, lift in zip(candidates, lifts, strict=False)]
    ordered = sorted((*scored, *candidates[len(scored) :]), key=lambda each: -each.fused)
    relevant = [each.id for each in ordered if each.shown or _is_relevant(each, found.threshold)]
    kept = set([id for id in relevant if id not in found.copies][:shown])
    placed_anew = (placed(each, rank, shown=each.id in kept) for rank, each in enumerate(ordered, start=1))
    return replace(found, candidates=tuple(placed_anew))


def _is_relevant(each: Candidate, threshold: float) -> bool:
    return each.bm25 > 0 or "summary" in each.parts or each.cosine >= threshold


def _lifted(candidate: Candidate, lift: float) -> Candidate:
    fused = round(candidate.fused + lift, _DIGITS)
    score = round(float(shown_scores(np.array(fused))), _DIGITS)
    return replace(candidate, fused=fused, score=score, line="", parts={**candidate.parts, "cross_encoder": lift})


# Search cache: results of searches, kept for some seconds for an identical search.
#
# A series of questions, several strategies for one question, or a reloaded page repeat the same search within
# seconds. A cached result is used while the memory is unchanged: each search asks for the last edit of topics, the
# changes of the talk, the last erasure, the cards of people and artifacts, and the threshold of the profile. A result
# without all vectors is not cached, because the vectors are being made. The query's own vectors are not part of it:
# each run makes and stores its own.

# Results that one process keeps, for all owners together. A result of a large memory takes some hundred kilobytes.
MOST = 64

_SQL = table_beside(__file__)
VERSION: str = _SQL["version"]


@dataclass(frozen=True, slots=True)
class CachedResult:
    """A result, the state of the memory that it belongs to, and the time of the search on the process's clock."""

    result: SearchResult
    version: tuple[Any, ...]
    at: float


class SearchCache:
    """Results of the last ``seconds`` seconds; with 0 none are kept."""

    def __init__(self, seconds: float = 0.0) -> None:
        self._kept: TTLCache[Hashable, CachedResult] = TTLCache(MOST, seconds)
        # Searches run in the event loop, erasures in threads.
        self._lock = Lock()
        _caches.add(self)

    @property
    def is_on(self) -> bool:
        return bool(self._kept.ttl > 0)

    def of(self, key: Hashable, version: tuple[Any, ...]) -> CachedResult | None:
        """The result of an identical search, if the memory has not changed since."""
        with self._lock:
            known = self._kept.get(key)
        return known if known and known.version == version else None

    def keep(self, key: Hashable, kept: CachedResult) -> None:
        with self._lock:
            self._kept[key] = kept

    def clear(self) -> None:
        """Deletes all results; from any thread."""
        with self._lock:
            self._kept.clear()


async def cached_search(
    connection: Connection,
    asked: Question,
    cache: SearchCache,
    *,
    sizes: Sizes,
    keep: Sequence[SqlStatement] = (),
    index: IndexCache | None = None,
    fusion: Fusion = fuse,
) -> tuple[SearchResult, float | None]:
    """``retrieval.search``, and how many seconds ago its result was found; None when it was found just now."""
    if not cache.is_on:
        return await search(connection, asked, sizes=sizes, keep=keep, cache=index, fusion=fusion), None
    key = _key(asked, sizes, fusion)
    ((version,),) = await round_trip(connection, (VERSION, {"owner": asked.owner_id, "profile": asked.profile_id}))
    known = cache.of(key, version)
    metrics.search_cache.labels(outcome="miss" if known is None else "hit").inc()
    if known is not None:
        await round_trip(connection, *keep)
        return known.result, round(monotonic() - known.at, 3)
    result = await search(connection, asked, sizes=sizes, keep=keep, cache=index, fusion=fusion)
    if not result.without_vector:
        cache.keep(key, CachedResult(result, version, monotonic()))
    return result, None


def _key(asked: Question, sizes: Sizes, fusion: Fusion) -> Hashable:
    """The key of a search: its texts, and which of them had a vector. The vectors themselves follow from texts and
    model."""
    wordings = tuple((wording.text, wording.vector is not None) for wording in asked.wordings)
    seen = sight().projects
    return asked.owner_id, seen, asked.profile_id, wordings, asked.where, asked.fresh, asked.known, sizes, fusion


_caches: WeakSet[SearchCache] = WeakSet()


@receiver(erased)
def _forget(number: int, **_signal: Any) -> None:
    """Deletes the results of an erased chat user in this process; in other processes they expire."""
    for cache in list(_caches):
        cache.clear()
