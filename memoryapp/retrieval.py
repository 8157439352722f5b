"""From a query to ranked candidates of three kinds: every passage and card of one owner is compared, exactly.

Passages belong to messages, so topics enter last: a topic is as good as the best passage that holds one of its
messages. Two round trips to the database: compare, and read what the candidates are called, as far as no earlier
search has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from memoryapp import items
from memoryapp.columns import Ids
from memoryapp.database import Asked, numbers, together
from memoryapp.engine.events import Candidate, ItemCandidate
from memoryapp.engine.lines import candidate_line
from memoryapp.engine.memory import topic_id
from memoryapp.engine.scoring import Best, TopicPassages
from memoryapp.layout import Called, Layouts
from memoryapp.signals import Compared, Connection, Question, compare

BASELINE = 50
_PASSAGE_CHARS = 600

TOPICS = """
SELECT id, summary, (started_at AT TIME ZONE 'UTC')::date::text, message_count, size_chars FROM memoryapp_topic
WHERE owner_id = %(owner)s AND id = ANY(%(topics)s::bigint[])
"""
TEXTS = """
SELECT id, left(text, %(chars)s) FROM memoryapp_passage WHERE owner_id = %(owner)s AND id = ANY(%(passages)s::bigint[])
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
    """Topics by their best passage; ``nearest`` are all topics by cosine alone, ``shown`` those the model may see."""

    best: Best
    nearest: Ids
    shown: frozenset[int]
    baseline: tuple[int, ...]


async def search(
    connection: Connection,
    asked: Question,
    *,
    threshold: float,
    sizes: Sizes = Sizes(),
    keep: Sequence[Asked] = (),
    layouts: Layouts | None = None,
) -> Search:
    """The owner's live topics, people and artifacts for a query.

    What shares no word with it and lies below the cosine ``threshold`` is ranked, so that its absence can be
    explained, but never shown. Statements to ``keep`` something are sent along with the last ones. What earlier
    searches read of the owner's memory is taken from ``layouts``, where an edit has not changed it.
    """
    layouts = layouts or Layouts()
    passages, cards, layout = await compare(connection, asked, layouts)
    ranked = _ranked(passages, layout.topics, threshold, sizes)
    found = items.found(cards, threshold, shown=(sizes.people, sizes.artifacts), most=sizes.ranked)
    texts, people, artifacts, topics, *_ = await together(
        connection,
        _texts_sql(asked.owner_id, passages, ranked),
        *items.rows_sql(asked.owner_id, found),
        _topics_sql(asked.owner_id, [number for number in ranked.best.topics.tolist() if number not in layout.called]),
        *keep,
    )
    layouts.learn(asked.owner_id, layout, [Called(*row) for row in topics])
    return Search(
        candidates=tuple(_candidates(passages, ranked, layout.called, dict(texts))),
        baseline=tuple(map(topic_id, ranked.baseline)),
        passages=len(passages.ids),
        without_vector=int(np.isnan(passages.cosine).sum()) if asked.vector is not None else 0,
        people=items.people(found.people, people),
        artifacts=items.artifacts(found.artifacts, artifacts),
        cards=len(cards.ids),
    )


def _ranked(compared: Compared, grouped: TopicPassages, threshold: float, sizes: Sizes) -> _Ranked:
    best = grouped.best(compared.fused, sizes.ranked)
    nearest = grouped.best(compared.cosine).topics
    kept = best.topics[compared.relevant(threshold)[best.passages]]
    baseline = (nearest if len(nearest) else kept)[:BASELINE]
    return _Ranked(best, nearest, frozenset(kept[: sizes.topics].tolist()), tuple(baseline.tolist()))


def _texts_sql(owner_id: int, compared: Compared, ranked: _Ranked) -> Asked:
    """The passages that speak for the shown topics."""
    is_shown = np.isin(ranked.best.topics, list(ranked.shown))
    passages = compared.ids[ranked.best.passages[is_shown]]
    return TEXTS, {"owner": owner_id, "passages": numbers(passages.tolist()), "chars": _PASSAGE_CHARS}


def _topics_sql(owner_id: int, topics: Iterable[int]) -> Asked:
    """What the topics are called."""
    return TOPICS, {"owner": owner_id, "topics": numbers(topics)}


def _candidates(
    compared: Compared, ranked: _Ranked, topics: Mapping[int, Called], texts: Mapping[int, str]
) -> Iterable[Candidate]:
    vector_rank = {topic: rank for rank, topic in enumerate(ranked.nearest.tolist(), start=1)}
    beyond = len(ranked.nearest) + 1 if len(ranked.nearest) else 0
    told = compared.numbers(ranked.best.passages)
    passages = compared.ids[ranked.best.passages].tolist()
    columns = (told.cosine, told.bm25, told.fused, told.score, told.terms)
    rows = zip(ranked.best.topics.tolist(), passages, *columns, strict=True)
    # A topic may be gone since it was ranked.
    here = (row for row in rows if row[0] in topics)
    for rank, (number, passage, cosine, bm25, fused, score, terms) in enumerate(here, start=1):
        topic, id, shown = topics[number], topic_id(number), number in ranked.shown
        facts = (topic.date, topic.message_count, topic.size_chars, topic.summary)
        yield Candidate(
            id=id,
            rank=rank,
            vector_rank=vector_rank.get(number, beyond),
            cosine=cosine,
            bm25=bm25,
            fused=fused,
            score=score,
            date=topic.date,
            message_count=topic.message_count,
            size_chars=topic.size_chars,
            summary=topic.summary,
            line=candidate_line(id, score, *facts) if shown else "",
            shown=shown,
            passage=texts.get(passage, ""),
            terms=terms,
        )
