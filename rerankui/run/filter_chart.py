"""The similarities of a run's candidates as a picture: a bar each, the cut lines, and the cliff."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memoryapp.engine.strategies.filtering import Fate, FilteredItem, Filtering

WIDTH, HEIGHT = 960, 240
_LEFT, _TOP, _BOTTOM = 40, 14, 22
# More bars than this are no longer told apart.
MOST_BARS = 80
# What passed the first stage is shown with so many behind it, so that one sees where the cut lies.
_BEHIND = 10


@dataclass(frozen=True, slots=True)
class HistogramBar:
    """``x`` and ``y`` are the upper left corner, in the picture's own units."""

    item: FilteredItem
    x: float
    y: float
    width: float
    height: float

    @property
    def fate(self) -> Fate:
        return self.item.fate


@dataclass(frozen=True, slots=True)
class ThresholdLine:
    """A threshold: its height in the picture, and the similarity."""

    name: str
    y: float
    value: float


@dataclass(frozen=True, slots=True)
class Chart:
    """``cliff`` is where the gap cut, from left; None where it did not. ``ticks`` are similarities by height."""

    bars: tuple[HistogramBar, ...]
    lines: tuple[ThresholdLine, ...]
    ticks: tuple[ThresholdLine, ...]
    cliff: float | None
    left: int = _LEFT
    base: int = HEIGHT - _BOTTOM
    width: int = WIDTH
    height: int = HEIGHT


def chart(filtering: Filtering) -> Chart:
    """The most similar items, as many as passed the first stage and some behind them."""
    shown = filtering.items[: min(max(filtering.initial + _BEHIND, 20), MOST_BARS)]
    step = (WIDTH - _LEFT) / max(len(shown), 1)
    bars = tuple(_bar(item, place, step) for place, item in enumerate(shown))
    cuts = filtering.cuts
    lines: tuple[ThresholdLine, ...] = (ThresholdLine("initial", _y(cuts.initial_threshold), cuts.initial_threshold),)
    if cuts.threshold > cuts.initial_threshold:
        lines = (*lines, ThresholdLine("threshold", _y(cuts.threshold), cuts.threshold))
    cliff = _LEFT + filtering.cliff * step if filtering.cliff else None
    return Chart(bars, lines, _ticks(), cliff)


def _bar(item: FilteredItem, place: int, step: float) -> HistogramBar:
    y = _y(item.similarity)
    gap = min(3.0, step * 0.2)
    return HistogramBar(
        item, round(_LEFT + place * step + gap / 2, 1), y, round(step - gap, 1), round(HEIGHT - _BOTTOM - y, 1)
    )


def _y(similarity: float) -> float:
    """The height of a similarity; what is no number or below zero lies at the base."""
    inside = min(max(similarity, 0.0), 1.0) if similarity == similarity else 0.0
    return round(_TOP + (1 - inside) * (HEIGHT - _TOP - _BOTTOM), 1)


def _ticks() -> tuple[ThresholdLine, ...]:
    values: Sequence[float] = (0.0, 0.25, 0.5, 0.75, 1.0)
    return tuple(ThresholdLine("tick", _y(value), value) for value in values)
