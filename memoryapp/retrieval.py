"""From a query to ranked candidates of three kinds: every passage and card of one owner is compared, exactly.

Passages belong to messages, so topics enter last: the best passages are mapped to the live topics of their
messages, a thousand at a time, until enough topics are ranked. Three round trips to the database for a memory of up
to a thousand passages: compare, map, and read what the candidates are called.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memoryapp import items
from memoryapp.database import Asked, together
from memoryapp.engine.embeddings import Vectors
from memoryapp.engine.events import Candidate, ItemCandidate
from memoryapp.engine.lexical import Floats
from memoryapp.engine.lines import candidate_line
from memoryapp.engine.memory import topic_id
from memoryapp.engine.scoring import Best, best_passages, descending, shown_score
from memoryapp.signals import Compared, Connection, Ids, compare, int64s

BASELINE = 50
_CHUNK = 1_000
_PASSAGE_CHARS = 600

# A message points at no topic but a live one, so the topics themselves need not be looked at.
TOPICS_OF = """
SELECT string_agg(int8send(passage_id), ''::bytea), string_agg(int8send(topic_id), ''::bytea) FROM (
    SELECT DISTINCT pm.passage_id, m.topic_id
    FROM memoryapp_passagemessage pm
    JOIN memoryapp_message m ON m.id = pm.message_id AND m.owner_id = %(owner)s
    WHERE pm.owner_id = %(owner)s AND m.topic_id IS NOT NULL AND pm.passage_id = ANY(%(passages)s::bigint[])
) mapped
"""
TOPICS = """
SELECT id, summary, started_at, message_count, size_chars FROM memoryapp_topic
WHERE owner_id = %(owner)s AND id = ANY(%(topics)s)
"""
TEXTS = """
SELECT id, left(text, %(chars)s) FROM memoryapp_passage WHERE owner_id = %(owner)s AND id = ANY(%(passages)s)
"""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many candidates of a kind are ranked, and how many of those the model is shown."""

    topics: int = 50
    people: int = 20
    artifacts: int = 20
    ranked: int = 200


@dataclass(frozen=True, slots=True)
class Search:
    """Candidates of each kind best first, topic ids in plain vector order, and how many texts were compared.

    Without any vector to compare, ``baseline`` is the order of the words. ``without_vector`` passages have
    none in this profile yet. ``cards`` counts people and artifacts together.
    """

    candidates: tuple[Candidate, ...]
    baseline: tuple[str, ...]
    passages: int
    without_vector: int = 0
    people: tuple[ItemCandidate, ...] = ()
    artifacts: tuple[ItemCandidate, ...] = ()
    cards: int = 0


@dataclass(frozen=True, slots=True)
class _Ranked:
    """Topics by their best passage; ``nearest`` are topics by cosine alone, ``shown`` those the model may see."""

    best: tuple[Best, ...]
    nearest: tuple[int, ...]
    shown: frozenset[int]
    baseline: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Topic:
    id: int
    summary: str
    started_at: datetime
    message_count: int
    size_chars: int


async def search(
    connection: Connection,
    owner_id: int,
    query: str,
    vector: Vectors | None,
    *,
    profile_id: int,
    dimensions: int,
    threshold: float,
    sizes: Sizes = Sizes(),
) -> Search:
    """The owner's live topics, people and artifacts for ``query``.

    ``vector`` is the query in the profile ``profile_id``, shape (dimensions,), unit length; None searches
    by words alone. What shares no word with the query and lies below the cosine ``threshold`` is ranked, so that
    its absence can be explained, but never shown.
    """
    passages, cards = await compare(connection, owner_id, query, vector, profile_id=profile_id, dimensions=dimensions)
    ranked = await _ranked(_TopicsOf(connection, owner_id, passages.ids), passages, threshold, sizes)
    found = items.found(cards, threshold, shown=(sizes.people, sizes.artifacts), most=sizes.ranked)
    topics, texts, people, artifacts = await together(
        connection, *_topics_sql(owner_id, passages, ranked), *items.rows_sql(owner_id, found)
    )
    return Search(
        candidates=tuple(_candidates(passages, ranked, {row[0]: _Topic(*row) for row in topics}, dict(texts))),
        baseline=tuple(map(topic_id, ranked.baseline)),
        passages=len(passages.ids),
        without_vector=int(np.isnan(passages.cosine).sum()) if vector is not None else 0,
        people=items.people(cards, found.people, people),
        artifacts=items.artifacts(cards, found.artifacts, artifacts),
        cards=len(cards.ids),
    )


async def _ranked(topics: _TopicsOf, compared: Compared, threshold: float, sizes: Sizes) -> _Ranked:
    relevant = compared.relevant(threshold)
    best = await topics.ranked(descending(compared.fused), compared.fused, most=sizes.ranked)
    nearest = await _vector_order(topics, compared.cosine, {found.topic for found in best})
    kept = [found.topic for found in best if relevant[found.passage]]
    baseline = tuple((nearest or kept)[:BASELINE])
    return _Ranked(tuple(best), tuple(nearest), frozenset(kept[: sizes.topics]), baseline)


class _TopicsOf:
    """The live topics of passages, by position in ``ids``; asked for in chunks, each once."""

    def __init__(self, connection: Connection, owner_id: int, ids: Ids) -> None:
        self._connection = connection
        self._owner_id = owner_id
        self._ids = ids
        self._is_known = np.zeros(len(ids), np.bool_)
        self._places = np.zeros(0, np.intp)
        self._topics = np.zeros(0, np.int64)

    async def learn(self, positions: NDArray[np.intp]) -> None:
        """Ask the database for the topics of those passages whose topics are not known yet."""
        missing = positions[~self._is_known[positions]]
        if not len(missing):
            return
        # Written out here: psycopg looks at each number of a list three times.
        values = {"owner": self._owner_id, "passages": "{" + ",".join(map(str, self._ids[missing].tolist())) + "}"}
        ((passages, topics),) = (await together(self._connection, (TOPICS_OF, values)))[0]
        self._is_known[missing] = True
        self._places = np.concatenate((self._places, np.searchsorted(self._ids, int64s(passages))))
        self._topics = np.concatenate((self._topics, int64s(topics)))

    def best(self, order: NDArray[np.intp], values: Floats) -> list[Best]:
        return best_passages(order, values, self._places, self._topics)

    async def ranked(self, order: NDArray[np.intp], values: Floats, most: int) -> list[Best]:
        """Topics by their best passage, at most ``most``; ``order`` lists positions from the best."""
        best: list[Best] = []
        for end in range(_CHUNK, len(order) + _CHUNK, _CHUNK):
            await self.learn(order[end - _CHUNK : end])
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
        await topics.learn(order[end - _CHUNK : end])
        nearest = [found.topic for found in topics.best(order[:end], cosine)]
        if len(nearest) >= BASELINE and missing.issubset(nearest):
            break
    return nearest


def _topics_sql(owner_id: int, compared: Compared, ranked: _Ranked) -> tuple[Asked, Asked]:
    """What the ranked topics are called, and the passages that speak for the shown ones."""
    passages = [int(compared.ids[found.passage]) for found in ranked.best if found.topic in ranked.shown]
    return (
        (TOPICS, {"owner": owner_id, "topics": [found.topic for found in ranked.best]}),
        (TEXTS, {"owner": owner_id, "passages": passages, "chars": _PASSAGE_CHARS}),
    )


def _candidates(
    compared: Compared, ranked: _Ranked, topics: Mapping[int, _Topic], texts: Mapping[int, str]
) -> Iterable[Candidate]:
    vector_rank = {topic: rank for rank, topic in enumerate(ranked.nearest, start=1)}
    beyond = len(ranked.nearest) + 1 if ranked.nearest else 0
    here = [found for found in ranked.best if found.topic in topics]
    told = zip(here, _numbers(compared, here), strict=True)
    for rank, (found, numbers) in enumerate(told, start=1):
        ranks = {"rank": rank, "vector_rank": vector_rank.get(found.topic, beyond)}
        text = texts.get(int(compared.ids[found.passage]), "")
        yield _candidate(topics[found.topic], {**ranks, **numbers}, shown=found.topic in ranked.shown, passage=text)


def _numbers(compared: Compared, best: Sequence[Best]) -> Iterable[dict[str, Any]]:
    """What both signals say of each; read column by column, for a number taken out of an array alone is slow."""
    at = np.array([found.passage for found in best], np.intp)
    cosine, total = np.nan_to_num(compared.cosine[at]).tolist(), compared.words.total[at].tolist()
    terms = {term: adds[at].tolist() for term, adds in compared.words.terms.items()}
    for place, found in enumerate(best):
        yield {
            "cosine": round(cosine[place], 6),
            "bm25": round(total[place], 6),
            "fused": round(found.fused, 6),
            "score": round(shown_score(found.fused), 6),
            "terms": {term: round(adds[place], 6) for term, adds in terms.items() if adds[place] > 0},
        }


def _candidate(topic: _Topic, numbers: Mapping[str, Any], *, shown: bool, passage: str) -> Candidate:
    id, date = topic_id(topic.id), f"{topic.started_at.astimezone(UTC):%Y-%m-%d}"
    return Candidate(
        id=id,
        date=date,
        message_count=topic.message_count,
        size_chars=topic.size_chars,
        summary=topic.summary,
        line=_line(id, numbers["score"], date, topic) if shown else "",
        shown=shown,
        passage=passage,
        **numbers,
    )


def _line(id: str, score: float, date: str, topic: _Topic) -> str:
    return candidate_line(id, score, date, topic.message_count, topic.size_chars, topic.summary)
