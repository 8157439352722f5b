"""The strategy *vector*: the nearest topics by cosine, without a model. It is the baseline that every run is compared
with.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial

from memoryapp.engine.events import Event, QueryEnriched, RunFinished, Selected
from memoryapp.engine.parameters import Parameters
from memoryapp.engine.strategies.ports import Found, Ports, StrategyRequest
from memoryapp.engine.strategies.strategy import NEAREST, Strategy

TOPICS = 5


async def recall(request: StrategyRequest[Parameters], ports: Ports, *, disabled: bool = False) -> AsyncIterator[Event]:
    """The events: the query as it was typed, its candidates, and the nearest of them.

    ``disabled`` means that this replaces a strategy whose model is switched off.
    """
    note = "disabled" if disabled else "not_wanted"
    search = await ports.search(QueryEnriched(request.query, request.query, note=note, seconds=0.0))
    yield search.line
    found = await search.find()
    yield found.event
    yield _nearest(found, "disabled" if disabled else "no_vectors" if found.event.by_words_alone else "")


def _nearest(found: Found, fallback: str) -> RunFinished:
    """The first topics by cosine; without a vector of the query, the first by words."""
    event = found.event
    scores = {candidate.id: candidate.score for candidate in event.ranked()}
    selected = [
        Selected(id=id, rank=rank, reason="", score=scores.get(id, 0.0), vector_rank=rank)
        for rank, id in enumerate(found.baseline[:TOPICS], start=1)
    ]
    if event.by_words_alone:
        selected = [replace(topic, vector_rank=0) for topic in selected]
    return RunFinished(
        selected=tuple(selected), dropped=(), fallback=fallback, baseline=found.baseline, notes=event.notes
    )


STRATEGY = Strategy("vector", recall, Parameters, ranking=NEAREST)
WITHOUT_MODEL = replace(STRATEGY, recall=partial(recall, disabled=True))
