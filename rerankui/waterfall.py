"""The stages of a run on its time axis, to scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memoryapp.engine.events import CandidatesFound, Event, ModelReplied, QueryEnriched, TopicsRead
from memoryapp.runs import StoredEvent

WIDTH = 1000
LEAST = 4


@dataclass(frozen=True, slots=True)
class Bar:
    """A stage from ``x`` over ``width``, in thousandths of the run; ``seconds`` is its wall time."""

    seq: int
    stage: str
    turn: int
    x: int
    width: int
    seconds: float


def bars(stored: Sequence[StoredEvent]) -> list[Bar]:
    """One bar for each stage that took time. An event is recorded when its stage ends."""
    if not stored:
        return []
    began = stored[0].at
    whole = max((stored[-1].at - began).total_seconds(), 0.001)
    made = []
    for item in stored:
        stage = _stage(item.event)
        if stage:
            name, turn, seconds = stage
            end = (item.at - began).total_seconds()
            start = max(end - seconds, 0.0)
            width = max(round((end - start) / whole * WIDTH), LEAST)
            made.append(Bar(item.seq, name, turn, min(round(start / whole * WIDTH), WIDTH - width), width, seconds))
    return made


def _stage(event: Event) -> tuple[str, int, float] | None:
    if isinstance(event, QueryEnriched):
        return "enrich", 0, event.seconds
    if isinstance(event, CandidatesFound):
        return "search", 0, event.seconds
    if isinstance(event, ModelReplied):
        return "turn", event.turn, event.seconds
    if isinstance(event, TopicsRead):
        return "read", event.turn, 0.0
    return None
