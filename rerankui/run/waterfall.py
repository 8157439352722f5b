"""The stages of a run on its time axis, to scale; the axis is also that of the scrubber."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from memoryapp.engine.events import CandidatesFound, Event, ModelReplied, QueryEnriched, RunFinished, TopicsRead
from memoryapp.runs.following import StoredEvent

# Of the axis, so that a stage of no time is seen too.
LEAST = 0.004


@dataclass(frozen=True, slots=True)
class StageBar:
    """A stage from ``start`` over ``width``, in milliseconds; ``seconds`` is its wall time."""

    seq: int
    stage: str
    turn: int
    start: int
    width: int
    seconds: float


@dataclass(frozen=True, slots=True)
class WaterfallAxis:
    """Milliseconds from the first event to the last one, or until now while the run continues.

    ``going`` is where the current stage began.
    """

    whole: int
    going: int
    bars: Sequence[StageBar]

    @property
    def going_width(self) -> int:
        return max(self.whole - self.going, 1)


def axis(stored: Sequence[StoredEvent], now: datetime) -> WaterfallAxis:
    """One bar for each stage that took time. An event is recorded when its stage ends."""
    if not stored:
        return WaterfallAxis(1, 0, ())
    began, last = stored[0].at, stored[-1]
    ended = last.at if isinstance(last.event, RunFinished) else max(now, last.at)
    whole = max(milliseconds(began, ended), 1)
    least = max(round(whole * LEAST), 1)
    bars = (_bar(item, began, whole, least) for item in stored)
    return WaterfallAxis(whole, milliseconds(began, last.at), [bar for bar in bars if bar])


def milliseconds(began: datetime, at: datetime) -> int:
    return int((at - began).total_seconds() * 1000)


def _bar(item: StoredEvent, began: datetime, whole: int, least: int) -> StageBar | None:
    stage = _stage(item.event)
    if stage is None:
        return None
    name, turn, seconds = stage
    end = milliseconds(began, item.at)
    width = max(end - max(end - round(seconds * 1000), 0), least)
    return StageBar(item.seq, name, turn, max(min(end, whole) - width, 0), width, seconds)


def _stage(event: Event) -> tuple[str, int, float] | None:
    if isinstance(event, QueryEnriched):
        return ("enrich", 0, event.seconds) if event.seconds else None  # typed words are searched as they are
    if isinstance(event, CandidatesFound):
        return ("search", 0, event.seconds) if event.seconds else None  # a trial takes the candidates of another run
    if isinstance(event, ModelReplied):
        return "turn", event.turn, event.seconds
    if isinstance(event, TopicsRead):
        return "read", event.turn, 0.0
    return None
