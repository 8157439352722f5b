"""From a query to ranked candidates of three kinds: every passage and card of one owner is compared, exactly.

Passages belong to messages, so topics enter last: a topic is as good as the best passage that holds one of its
messages. Two round trips to the database: compare, and read what the candidates are called, as far as no earlier
search has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from memoryapp import items
from memoryapp.columns import Ids
from memoryapp.database import Asked, array, together
from memoryapp.engine.candidates import Below, Candidate, ItemCandidate
from memoryapp.engine.lines import candidate_line
from memoryapp.engine.memory import topic_id
from memoryapp.engine.scoring import Best, TopicPassages
from memoryapp.layout import Called, Layouts
from memoryapp.signals import WORDINGS, Compared, Connection, Question, compare

BASELINE = 50

TOPICS = """
SELECT id, summary, (started_at AT TIME ZONE 'UTC')::date::text, message_count, size_chars FROM memoryapp_topic
WHERE owner_id = %(owner)s AND id = ANY(%(topics)s::bigint[])
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

    ``candidates`` are the topics shown, ``below`` those that are only ranked.
    Without any vector to compare, ``baseline`` is the order of the words. ``without_vector`` passages have
    none in this profile yet. ``cards`` counts people and artifacts together.
    """

    candidates: tuple[Candidate, ...]
    below: Below
    baseline: tuple[str, ...]
    passages: int
    without_vector: int = 0
    people: tuple[ItemCandidate, ...] = ()
    artifacts: tuple[ItemCandidate, ...] = ()
    cards: int = 0


@dataclass(frozen=True, slots=True)
class _Ranked:
    """Topics by their best passage; ``nearest`` are all topics by cosine alone, ``shown`` those the model may see.

    ``by_wording`` holds each topic's rank by one wording alone, nothing for a query in one wording.
    """

    best: Best
    nearest: Ids
    shown: frozenset[int]
    baseline: tuple[int, ...]
    by_wording: Mapping[str, Mapping[int, int]]


async def search(
    connection: Connection,
    asked: Question,
    *,
    threshold: float | None = None,
    sizes: Sizes = Sizes(),
    keep: Sequence[Asked] = (),
    layouts: Layouts | None = None,
) -> Search:
    """The owner's live topics, people and artifacts for a query.

    What shares no word with it and lies below the cosine ``threshold`` is ranked, so that its absence can be
    explained, but never shown; where no threshold is given it is that of the profile's row. Statements to ``keep``
    something are sent along with the last ones. What earlier searches read of the owner's memory is taken from
    ``layouts``, where an edit has not changed it.
    """
    layouts = layouts or Layouts()
    compared = await compare(connection, asked, layouts)
    passages, cards, layout = compared.passages, compared.cards, compared.layout
    least = compared.threshold if threshold is None else threshold
    ranked = _ranked(passages, layout.topics, least, sizes)
    found = items.found(cards, least, shown=(sizes.people, sizes.artifacts), most=sizes.ranked)
    people, artifacts, topics, *_ = await together(
        connection,
        *items.rows_sql(asked.owner_id, found),
        _topics_sql(asked.owner_id, [number for number in ranked.best.topics.tolist() if number not in layout.called]),
        *keep,
    )
    layouts.learn(asked.owner_id, layout, [Called(*row) for row in topics])
    candidates, below = _told(passages, ranked, layout.called)
    return Search(
        candidates=candidates,
        below=below,
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
    by_wording = {
        wording: _ranks(grouped.best(fused, sizes.ranked).topics)
        for wording, fused in zip(WORDINGS, compared.by_wording, strict=False)
    }
    return _Ranked(best, nearest, frozenset(kept[: sizes.topics].tolist()), tuple(baseline.tolist()), by_wording)


def _ranks(topics: Ids) -> dict[int, int]:
    return {topic: rank for rank, topic in enumerate(topics.tolist(), start=1)}


def _topics_sql(owner_id: int, topics: Sequence[int]) -> Asked | None:
    """What the topics are called."""
    return (TOPICS, {"owner": owner_id, "topics": array(topics)}) if topics else None


def _told(compared: Compared, ranked: _Ranked, called: Mapping[int, Called]) -> tuple[tuple[Candidate, ...], Below]:
    """The topics that are shown, and those below. A topic that is gone since it was ranked is neither."""
    vector_rank = _ranks(ranked.nearest)
    beyond = len(ranked.nearest) + 1 if len(ranked.nearest) else 0
    said = compared.numbers(ranked.best.passages)
    columns = (said.cosine, said.bm25, said.fused, said.score)
    passages = compared.ids[ranked.best.passages].tolist()
    rows = zip(ranked.best.topics.tolist(), passages, said.terms, zip(*columns, strict=True), strict=True)
    here = (row for row in rows if row[0] in called)
    shown: list[Candidate] = []
    below: list[tuple[Any, ...]] = []
    terms_below: dict[str, Mapping[str, float]] = {}
    for rank, (number, passage, terms, scores) in enumerate(here, start=1):
        id, facts = topic_id(number), called[number].facts
        told = (id, rank, vector_rank.get(number, beyond), *scores, *facts)
        if number in ranked.shown:
            line = candidate_line(id, scores[-1], *facts)
            found_by = {name: ranks[number] for name, ranks in ranked.by_wording.items() if number in ranks}
            shown.append(Candidate(*told, line=line, shown=True, passage_id=passage, terms=terms, found_by=found_by))
        else:
            below.append((*told, passage))
            terms_below |= {id: terms} if terms else {}
    return tuple(shown), Below.of(below, terms_below)
