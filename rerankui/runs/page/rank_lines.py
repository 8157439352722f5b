"""How the selected topics were ranked: by similarity, by score, and by the model.

The three columns contain the same topics, each column in its own order, so that a line that rises is a topic that rose.
The number beside a place is the rank among all candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memoryapp.engine.candidates import Candidate
from memoryapp.engine.events import Selected

ROW = 22
TOP = 30


@dataclass(frozen=True, slots=True)
class RankLine:
    """A topic's ranks, 0 where it has none, and the heights of its places in the three columns."""

    id: str
    similarity: int
    score: int
    chosen: int
    places: tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class RankLines:
    height: int
    lines: Sequence[RankLine]


def rank_lines(chosen: Sequence[tuple[Selected, Candidate | None]]) -> RankLines | None:
    """None where fewer than two topics of the search were chosen, or without vectors."""
    ranked = [(selected, candidate) for selected, candidate in chosen if candidate is not None and selected.vector_rank]
    if len(ranked) < 2:
        return None
    ranks = [(selected.vector_rank, candidate.rank, selected.rank) for selected, candidate in ranked]
    columns = [sorted(column) for column in zip(*ranks, strict=True)]
    lines = [
        RankLine(selected.id, *of_topic, places=_places(of_topic, columns))
        for (selected, _), of_topic in zip(ranked, ranks, strict=True)
    ]
    return RankLines(TOP + ROW * len(lines), lines)


def _places(ranks: tuple[int, int, int], columns: Sequence[Sequence[int]]) -> tuple[int, int, int]:
    first, second, third = (
        TOP + ROW * column.index(rank) + ROW // 2 for rank, column in zip(ranks, columns, strict=True)
    )
    return first, second, third
