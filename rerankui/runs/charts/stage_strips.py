"""The times of each stage over many runs: a point a run on one axis, and those that took unusually long by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, exp, floor, log, log10
from statistics import quantiles
from zlib import crc32

from django.utils.functional import Promise
from django.utils.translation import pgettext_lazy

from memoryapp.browsing.stage_times import STAGES, RunTimes
from memoryapp.models import Run

WIDTH, HEIGHT = 1000, 56
_LEFT, _RIGHT = 10, 10
_LEAST = 0.0005
# Of one stage; the longest of them.
MOST_OUTLIERS = 8
# Fewer runs show no usual time that another could be far from.
_ENOUGH = 8
NAMES: Mapping[str, str | Promise] = {
    "enrich": pgettext_lazy("stage", "enrich"),
    "search": pgettext_lazy("stage", "search"),
    "turn": pgettext_lazy("stage", "turns of the model"),
    "rest": pgettext_lazy("stage", "everything else"),
    "whole": pgettext_lazy("stage", "the whole run"),
}


@dataclass(frozen=True, slots=True)
class StagePoint:
    """A run's time of one stage: its place in the picture, and the run."""

    run: Run
    seconds: float
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class TimeTick:
    seconds: float
    x: float


@dataclass(frozen=True, slots=True)
class StageStrip:
    """One stage: ``points`` are ordinary runs, ``outliers`` those far from what is usual there, longest first.

    ``box`` is where the middle half of the runs lies, as x and width.
    """

    name: str
    words: str | Promise
    points: Sequence[StagePoint]
    outliers: Sequence[StagePoint]
    median: float
    p95: float
    longest: float
    box: tuple[float, float]
    median_x: float
    p95_x: float
    height: int = HEIGHT

    @property
    def count(self) -> int:
        return len(self.points) + len(self.outliers)


@dataclass(frozen=True, slots=True)
class StageStrips:
    """All stages on one axis, whose steps are powers of ten."""

    strips: Sequence[StageStrip]
    ticks: Sequence[TimeTick]
    width: int = WIDTH


def stage_strips(runs: Sequence[RunTimes]) -> StageStrips | None:
    """None without runs."""
    found = {stage: [(each.run, each.seconds[stage]) for each in runs if stage in each.seconds] for stage in STAGES}
    found = {stage: times for stage, times in found.items() if any(seconds >= _LEAST for _run, seconds in times)}
    if not found:
        return None
    every = [max(seconds, _LEAST) for times in found.values() for _run, seconds in times]
    low, high = floor(log10(min(every))), max(ceil(log10(max(every))), floor(log10(min(every))) + 1)
    axis = _Axis(low, high)
    ticks = [TimeTick(10.0**power, axis.x(10.0**power)) for power in range(low, high + 1)]
    return StageStrips([_strip(stage, times, axis) for stage, times in found.items()], ticks)


@dataclass(frozen=True, slots=True)
class _Axis:
    """Powers of ten from ``low`` to ``high``."""

    low: int
    high: int

    def x(self, seconds: float) -> float:
        share = (log10(max(seconds, _LEAST)) - self.low) / (self.high - self.low)
        return round(_LEFT + max(share, 0.0) * (WIDTH - _LEFT - _RIGHT), 1)


def _strip(stage: str, times: Sequence[tuple[Run, float]], axis: _Axis) -> StageStrip:
    seconds = sorted(taken for _run, taken in times)
    cuts = quantiles(seconds, n=100, method="inclusive") if len(seconds) > 1 else [seconds[0]] * 99
    edge = _edge(cuts[24], cuts[49], cuts[74]) if len(seconds) >= _ENOUGH else float("inf")
    places = [StagePoint(run, taken, axis.x(taken), _height(run)) for run, taken in times]
    far = sorted((point for point in places if point.seconds > edge), key=lambda point: -point.seconds)
    outliers = far[:MOST_OUTLIERS]
    named = {point.run.pk for point in outliers}
    start, end = axis.x(cuts[24]), axis.x(cuts[74])
    return StageStrip(
        stage,
        NAMES[stage],
        [point for point in places if point.run.pk not in named],
        outliers,
        cuts[49],
        cuts[94],
        seconds[-1],
        (start, max(round(end - start, 1), 2.0)),
        axis.x(cuts[49]),
        axis.x(cuts[94]),
    )


def _edge(low: float, middle: float, high: float) -> float:
    """From here on a time is unusual: Tukey's fence on the axis as drawn, and at least twice the median."""
    lower, upper = log(max(low, _LEAST)), log(max(high, _LEAST))
    return max(exp(upper + 1.5 * (upper - lower)), 2 * middle)


def _height(run: Run) -> float:
    """Its own height for each run, so that equal times do not hide each other."""
    return 8 + crc32(run.pk.bytes) % (HEIGHT - 16)
