"""Joins stretches of a talk that are too small for a topic to the neighbour that is more similar to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from memoryapp.engine.embeddings import Vectors
from memoryapp.engine.memory import MessageContent

_FLAT = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class Stretch:
    """Consecutive messages. ``total`` is the sum of the vectors of their parts, shape (d,), and ``lift`` at least 1:
    how much the pause before them sets them apart from what precedes."""

    messages: tuple[MessageContent, ...]
    total: Vectors
    lift: float = 1.0

    @property
    def chars(self) -> int:
        return sum(len(message.text) for message in self.messages)

    def __add__(self, after: Stretch) -> Stretch:
        return Stretch((*self.messages, *after.messages), self.total + after.total, self.lift)


def joined(
    stretches: Sequence[Stretch], is_small: Callable[[Stretch], bool], fits: Callable[[Stretch, Stretch], bool]
) -> list[tuple[int, int]]:
    """The ranges of ``stretches`` that become one: first and end, in order, all of them together.

    The smallest is joined first, to the more similar neighbour with which it ``fits``; of equally similar ones, to the
    one that a shorter pause separates from it. One that fits neither neighbour stays small.
    """
    left, ranges = list(stretches), [(at, at + 1) for at in range(len(stretches))]
    alone: set[tuple[int, int]] = set()
    while small := [at for at, one in enumerate(left) if is_small(one) and ranges[at] not in alone]:
        smallest = min(small, key=lambda at: len(left[at].messages))
        pairs = [at for at in (smallest - 1, smallest) if 0 <= at < len(left) - 1 and fits(left[at], left[at + 1])]
        if not pairs:
            alone.add(ranges[smallest])
            continue
        first = max(pairs, key=lambda at: (_likeness(left[at], left[at + 1]), -pause(left[at], left[at + 1])))
        left[first : first + 2] = [left[first] + left[first + 1]]
        ranges[first : first + 2] = [(ranges[first][0], ranges[first + 1][1])]
    return ranges


def pause(before: Stretch, after: Stretch) -> float:
    """The seconds between two neighbours."""
    return (after.messages[0].sent_at - before.messages[-1].sent_at).total_seconds()


def _likeness(before: Stretch, after: Stretch) -> float:
    """The cosine of two neighbours; lower when an unusual pause separates them."""
    lengths = float(np.linalg.norm(before.total) * np.linalg.norm(after.total))
    return float(before.total @ after.total) / max(lengths, _FLAT) / after.lift
