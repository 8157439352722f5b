"""Retrieval: from a query to ranked candidates of three kinds. Every passage and card of the owner is compared,
exactly.

Passages belong to messages, not to topics: a topic ranks by the best passage that contains one of its messages. A
search takes two round trips to the database: one compares, one reads the facts of candidates that no earlier search has
read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from memoryapp.content import reading
from memoryapp.engine.candidates import BASELINE, RANKED, Candidate, ItemCandidate, UnderstoodQuery
from memoryapp.engine.fusion import Best, Fusion, fuse
from memoryapp.engine.memory import topic_id
from memoryapp.engine.strategies.ports import FoundPassage
from memoryapp.engine.text.copies import Saying, originals
from memoryapp.engine.text.lines import candidate_line
from memoryapp.operations.database import RoundTrip, SqlRead, SqlStatement
from memoryapp.search import items, passages
from memoryapp.search.columns import Ids
from memoryapp.search.index_cache import IndexCache
from memoryapp.search.memory_index import TopicFacts
from memoryapp.search.scores import ScoredTexts
from memoryapp.search.similarity import WORDINGS, Connection, Question, ScoredMemory, compare
from memoryapp.sessions import active
from memoryapp.sessions.active import ActiveTalk

FACTS = (
    "SELECT id, summary, (started_at AT TIME ZONE 'UTC')::date::text, message_count, size_chars FROM ({topics}) topic"
)


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many candidates of each kind are ranked, and how many of those are shown to the model.

    ``passages`` is how many of the best passages are read in addition.
    """

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
    number of the last message of anybody that had arrived: whatever came later has a higher one.
    """

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
    be shown, best first.

    ``by_wording`` is the rank of each topic by each wording alone; empty for a query with one wording.
    """

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
    """Searches the owner's live topics, people and artifacts.

    A topic that shares no word with the query and whose cosine is below ``threshold``, or that of the profile's row, is
    ranked and never shown. ``keep`` are statements sent with the last ones; ``cache`` has what earlier searches read.
    """
    cache, owner, where = cache or IndexCache(), asked.owner_id, asked.where
    memory = await compare(connection, asked, cache, fusion)
    texts, index, within = memory.passages, memory.index, memory.within
    least = memory.threshold if threshold is None else threshold
    ranked = RankedTopics.of(memory, least, sizes.ranked)
    found = items.find_items(
        memory.cards, least, shown=(sizes.people, sizes.artifacts), most=sizes.ranked, but=where.never_people
    )
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
    rows, values = reading.topics_sql(asked.owner_id, topics, asked.where)
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
