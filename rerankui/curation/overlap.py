"""The times of topics on one axis, as bars to draw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memoryapp.browsing.comparison import SLICES, TopicColumn

WIDTH = 960
HEIGHT = 24
_SLICE = WIDTH / SLICES


@dataclass(frozen=True, slots=True)
class TimeSlice:
    """A slice of time with messages in it; ``y`` grows downwards."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Strip:
    """A topic's line from its first message, at ``x``, to its last, and the number of messages between."""

    column: TopicColumn
    x: float
    width: float
    bars: tuple[TimeSlice, ...]


def strips(columns: Sequence[TopicColumn]) -> tuple[Strip, ...]:
    """One for each topic, their bars on one scale."""
    most = max((count for column in columns for count in column.slices), default=1) or 1
    return tuple(_strip(column, most) for column in columns)


def _strip(column: TopicColumn, most: int) -> Strip:
    filled = [place for place, count in enumerate(column.slices) if count]
    first, last = (filled[0], filled[-1]) if filled else (0, 0)
    bars = tuple(_bar(place, column.slices[place] / most) for place in filled)
    return Strip(column, round(first * _SLICE, 1), round((last - first + 1) * _SLICE, 1), bars)


def _bar(place: int, share: float) -> TimeSlice:
    height = round(4 + (HEIGHT - 4) * share, 1)
    return TimeSlice(round(place * _SLICE, 1), round(HEIGHT - height, 1), round(_SLICE - 1, 1), height)
