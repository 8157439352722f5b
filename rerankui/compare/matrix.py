"""Many runs as a matrix: a row for each topic, a column for each run, and topics chosen together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import pgettext_lazy

from memoryapp.compare.comparison import ComparedTopic, RunComparison, always_together
from memoryapp.compare.states import ABSENT, USED
from memoryapp.models import Run
from memoryapp.runs.replays import changes_in_words
from rerankui.compare.state_words import STATE_WORDS

SORTS: Mapping[str, str | Promise] = {
    "chosen": pgettext_lazy("sorted by", "share chosen"),
    "together": pgettext_lazy("sorted by", "chosen together"),
    "rank": pgettext_lazy("sorted by", "average rank"),
    "id": pgettext_lazy("sorted by", "topic"),
}
LONGEST_TITLE = 60
# A table of more columns takes a browser longer than a person waits.
MOST_COLUMNS = 40
_OPENED = USED | {"read", "dropped"}


@dataclass(frozen=True, slots=True)
class MatrixColumn:
    """A run, numbered from 1; ``name`` is what tells it from the others."""

    number: int
    run: Run
    name: str


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """A topic with a state, as code and word, and a rank for each run; ``group`` numbers the topics that are always
    chosen together, 0 for none."""

    topic: ComparedTopic
    cells: Sequence[tuple[str, str | Promise, int | None]]
    chosen: int
    rank: float
    group: int = 0

    @property
    def read(self) -> int:
        """In how many runs it was read, or more became of it."""
        return sum(state in _OPENED for state, _word, _rank in self.cells)


@dataclass(frozen=True, slots=True)
class Matrix:
    columns: Sequence[MatrixColumn]
    rows: Sequence[MatrixRow]
    groups: Sequence[Sequence[str]]
    sort: str
    left_out: int

    @property
    def table_columns(self) -> Sequence[MatrixColumn]:
        """The columns of the table, none where they are too many: it shows only the sums then."""
        return self.columns if len(self.columns) <= MOST_COLUMNS else ()

    @property
    def picture(self) -> dict[str, Any]:
        """What the script draws: names of rows and columns, and a cell as row, column, state and rank."""
        return {
            "rows": [[row.topic.id, _cut(row.topic.lineage.summary)] for row in self.rows],
            "columns": [[column.name, reverse("run", args=[column.run.pk])] for column in self.columns],
            "cells": [
                [at, place, state, rank or 0]
                for at, row in enumerate(self.rows)
                for place, (state, _word, rank) in enumerate(row.cells)
                if state != ABSENT
            ],
            "words": {state: str(word) for state, word in STATE_WORDS.items() if state},
        }


def matrix_of(comparison: RunComparison, sort: str) -> Matrix:
    groups = always_together(comparison.topics)
    group_of = {topic.id: number for number, group in enumerate(groups, start=1) for topic in group}
    ids = [run.pk for run in comparison.runs]
    rows = [_row(topic, ids, group_of.get(topic.id, 0)) for topic in comparison.topics]
    chosen = sort if sort in SORTS else "chosen"
    return Matrix(
        columns=[MatrixColumn(at, run, _name(at, run, comparison.runs)) for at, run in enumerate(comparison.runs, 1)],
        rows=sorted(rows, key=lambda row: _key(row, chosen)),
        groups=[[topic.id for topic in group] for group in groups],
        sort=chosen,
        left_out=comparison.left_out,
    )


def _row(topic: ComparedTopic, runs: Sequence[UUID], group: int) -> MatrixRow:
    cells = [(topic.states[run], STATE_WORDS[topic.states[run]], topic.ranks.get(run)) for run in runs]
    ranks = list(topic.ranks.values())
    return MatrixRow(
        topic,
        cells,
        chosen=sum(state in USED for state, _word, _rank in cells),
        rank=sum(ranks) / len(ranks) if ranks else 0.0,
        group=group,
    )


def _key(row: MatrixRow, sort: str) -> Any:
    last = 10_000
    order: dict[str, Sequence[float]] = {
        "chosen": (-row.chosen, row.rank or last),
        "together": (row.group or last, -row.chosen, row.rank or last),
        "rank": (row.rank or last,),
        "id": (),
    }
    return (*order[sort], row.topic.id)


def _name(number: int, run: Run, runs: Sequence[Run]) -> str:
    """What tells the run from the others: its strategy, its prompt, and its changes."""
    parts = [run.origin or run.strategy] if len({each.origin or each.strategy for each in runs}) > 1 else []
    parts += changes_in_words(run.changes)
    if not run.changes and len({each.prompt_version for each in runs}) > 1:
        parts.append(run.prompt_version)
    return " · ".join([str(number), *(part for part in parts if part)])


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_TITLE else f"{line[:LONGEST_TITLE]}…"
