"""The stages of a run on its time axis, to scale; the axis is also that of the scrubber."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from memoryapp.engine.events import CandidatesFound, Event, ModelReplied, QueryEnriched, RunFinished, TopicsRead
from memoryapp.engine.kinds.react import ToolUsed
from memoryapp.runs.followers import StoredEvent

# Of the axis, so that a stage of no time is seen too.
LEAST = 0.004
# What lies between two stages has a name from this share of the axis on.
GAP = 0.02


@dataclass(frozen=True, slots=True)
class StageBar:
    """A stage from ``start`` over ``width``, in milliseconds of ``whole``; ``seconds`` is its wall time.

    ``is_gap``: the program worked between two stages that have seconds of their own.
    """

    seq: int
    stage: str
    turn: int
    start: int
    width: int
    seconds: float
    whole: int
    is_gap: bool = False

    @property
    def left_share(self) -> str:
        return f"{self.start / self.whole:.4%}"

    @property
    def share(self) -> str:
        return f"{self.width / self.whole:.4%}"

    @property
    def look(self) -> str:
        """The classes of its colour: turns alternate, gaps have none."""
        even = " is-even" if self.turn and self.turn % 2 == 0 else ""
        return f"stage-{self.stage}{even}{' is-gap' if self.is_gap else ''}"

    @property
    def room(self) -> str:
        """Whether a label fits: in a window (wide), only on a broad screen (narrow), or not."""
        share = self.width / self.whole
        return "wide" if share >= 0.3 else "narrow" if share >= 0.1 else ""


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
    return WaterfallAxis(whole, milliseconds(began, last.at), [*_bars(stored, began, whole, least)])


def milliseconds(began: datetime, at: datetime) -> int:
    return int((at - began).total_seconds() * 1000)


def _bars(stored: Sequence[StoredEvent], began: datetime, whole: int, least: int) -> Iterator[StageBar]:
    """The stages, and before each the gap since the one before."""
    done = 0
    for item in stored:
        end = milliseconds(began, item.at)
        name, turn, seconds = _stage(item.event, (end - done) / 1000)
        width = max(min(round(seconds * 1000), end), least) if name and (seconds or name == "read") else 0
        # A stage that measured itself longer than there was room does not cover the one before.
        start = max(min(max(min(end, whole) - width, done), end - least), 0)
        width = min(width, max(end - start, least)) if width else 0
        if start - done >= whole * GAP and (gap := _gap(item.event, done)):
            yield StageBar(item.seq, gap, 0, done, start - done, (start - done) / 1000, whole, is_gap=True)
            done = end
        if width:
            yield StageBar(item.seq, name, turn, start, width, seconds, whole)
            done = end


def _stage(event: Event, since: float) -> tuple[str, int, float]:
    """Its name, turn and seconds; reading took those since the model had asked for it."""
    match event:
        case QueryEnriched():  # typed words are searched as they are, in no time
            return "enrich", 0, event.seconds
        case CandidatesFound():  # a trial takes the candidates of another run
            return "search", 0, event.seconds
        case ModelReplied():
            return "turn", event.turn, event.seconds
        case TopicsRead():
            return "read", event.turn, since
        case _:
            return "", 0, 0.0


def _gap(event: Event, done: int) -> str:
    """What took the time that ends with this event or its stage."""
    match event:
        case RunFinished(fallback="stopped" | "abandoned" | "crashed"):
            return "wait"
        case RunFinished():
            return "check"
        case ToolUsed():
            return "tools"
        case QueryEnriched() | CandidatesFound() | ModelReplied():
            return "wait" if done else "start"
        case _:
            return ""
