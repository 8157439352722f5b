"""Two runs side by side: their stages on one time axis, their candidates with lines between, and what else differs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.urls import reverse
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from memoryapp.engine.events import Event, TurnStarted
from memoryapp.engine.outline import Outline
from memoryapp.insight.compare.comparison import (
    ABSENT_TOPIC,
    BELOW,
    SHOWN,
    USED,
    ComparedTopic,
    RunComparison,
    always_together,
    is_listed,
)
from memoryapp.models import Run
from memoryapp.runs.replays import changes_in_words
from rerankui.runs.page.fork import difference as fork_difference
from rerankui.runs.page.waterfall import WORDS, StageBar, axis
from rerankui.text.differences import Difference, difference

# What became of a topic in a compared run, in a word.

STATE_WORDS: Mapping[str, str | Promise] = {
    **WORDS,
    SHOWN: WORDS[""],
    BELOW: pgettext_lazy("candidates", "below"),
    ABSENT_TOPIC: pgettext_lazy("candidate", "not found"),
}
# What the colours of a matrix mean.
LEGEND = ("chosen", "instead", "read", "dropped", SHOWN, BELOW)


ROW = 32
LETTERS = ("A", "B")


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """One of the two; ``bars`` are its stages in milliseconds of the longer run, ``whole``."""

    letter: str
    run: Run
    outline: Outline
    bars: Sequence[StageBar]
    whole: int

    @property
    def differs(self) -> str:
        """Where it was forked, and what differs from its parent."""
        return fork_difference(self.run) if self.run.parent_id else ""


@dataclass(frozen=True, slots=True)
class ListedTopic:
    """A candidate in the list of one run; ``as_id`` is the id under which the run met it."""

    topic: ComparedTopic
    as_id: str
    rank: int
    state: str

    @property
    def word(self) -> str | Promise:
        return STATE_WORDS[self.state]


@dataclass(frozen=True, slots=True)
class Line:
    """The line from a topic's place in the first list to that in the second; ``look`` is the most that became of it."""

    id: str
    start: int
    end: int
    look: str

    @property
    def path(self) -> str:
        """As SVG draws it, over a width of 100."""
        return f"M0 {self.start} C45 {self.start} 55 {self.end} 100 {self.end}"


@dataclass(frozen=True, slots=True)
class Contrast:
    """One thing that was asked of both runs, with its two values as text; ``texts`` compares long ones."""

    name: str | Promise
    values: Sequence[str]
    texts: Difference | None = None

    @property
    def as_changes(self) -> list[dict[str, Any]]:
        """The long texts as the partial of differences shows them."""
        return [{"title": self.name, "difference": self.texts}]


@dataclass(frozen=True, slots=True)
class Pair:
    sides: Sequence[ComparedRun]
    lists: Sequence[Sequence[ListedTopic]]
    lines: Sequence[Line]
    rows: Sequence[dict[str, Any]]
    contrasts: Sequence[Contrast]

    @property
    def height(self) -> int:
        return ROW * max(len(each) for each in self.lists)

    @property
    def differing(self) -> Sequence[dict[str, Any]]:
        return [row for row in self.rows if row["topic"].differs]


def pair_of(comparison: RunComparison) -> Pair:
    runs = comparison.runs[:2]
    lists = [_list(comparison.topics, run.pk) for run in runs]
    now = timezone.now()
    axes = [axis(comparison.stored[run.pk], now) for run in comparison.runs[:2]]
    whole = max(each.whole for each in axes)
    return Pair(
        sides=[
            ComparedRun(letter, run, _outline(comparison, run), each.bars, whole)
            for letter, run, each in zip(LETTERS, comparison.runs[:2], axes, strict=True)
        ],
        lists=lists,
        lines=list(_lines(*lists)),
        rows=[_numbers(topic, [run.pk for run in runs]) for topic in comparison.topics],
        contrasts=list(_contrasts(comparison)),
    )


def _outline(comparison: RunComparison, run: Run) -> Outline:
    return Outline.of([item.event for item in comparison.stored[run.pk]])


def _list(topics: Sequence[ComparedTopic], run: UUID) -> list[ListedTopic]:
    listed = [topic for topic in topics if is_listed(topic.states[run])]
    ranked = sorted(listed, key=lambda topic: topic.ranks.get(run, len(topics)))
    return [
        ListedTopic(topic, topic.met_as.get(run, (topic.id,))[0], topic.ranks.get(run, 0), topic.states[run])
        for topic in ranked
    ]


def _lines(first: Sequence[ListedTopic], second: Sequence[ListedTopic]) -> Iterator[Line]:
    places = {each.topic.id: place for place, each in enumerate(second)}
    for place, each in enumerate(first):
        if (end := places.get(each.topic.id)) is not None:
            look = "same" if not each.topic.differs else "changed"
            if {each.state, second[end].state} == {"chosen"}:
                look = "chosen"
            yield Line(each.topic.id, ROW * place + ROW // 2, ROW * end + ROW // 2, look)


def _numbers(topic: ComparedTopic, runs: Sequence[UUID]) -> dict[str, Any]:
    """A topic with its state, as code and word, and its rank in each of the two."""
    return {
        "topic": topic,
        "cells": [
            (topic.states[run], STATE_WORDS[topic.states[run] or ABSENT_TOPIC], topic.ranks.get(run)) for run in runs
        ],
    }


def _contrasts(comparison: RunComparison) -> Iterator[Contrast]:
    a, b = comparison.runs[:2]
    outlines = [_outline(comparison, run) for run in (a, b)]
    for name, values in _asked(a, b, outlines):
        if values[0] != values[1]:
            yield Contrast(name, [value or "—" for value in values])
    # What only one of two strategies knows was not asked of the other.
    of_a, of_b = a.parameters.keys(), b.parameters.keys()
    for name in sorted(of_a | of_b if a.strategy == b.strategy else of_a & of_b):
        values = [_plain(run.parameters.get(name)) for run in (a, b)]
        if values[0] != values[1]:
            yield Contrast(name, values)
    texts = [_system([item.event for item in comparison.stored[run.pk]]) for run in (a, b)]
    if all(texts) and texts[0] != texts[1]:
        yield Contrast(_("Text of the prompt"), (), difference(*texts))


def _asked(a: Run, b: Run, outlines: Sequence[Outline]) -> Sequence[tuple[str | Promise, Sequence[str]]]:
    def of_line(name: str) -> list[str]:
        return [str(getattr(outline.enriched, name, "")) for outline in outlines]

    def of_start(name: str) -> list[str]:
        return [str(getattr(outline.started, name, "")) for outline in outlines]

    return (
        (_("Query"), [a.query, b.query]),
        (_("Rewritten query"), of_line("enriched")),
        (_("Strategy"), [a.origin or a.strategy, b.origin or b.strategy]),
        (_("Model"), of_start("model")),
        (_("Prompt"), of_start("prompt_version")),
        (_("Embedding"), of_start("profile")),
        (_("Conversation"), [_talk(a), _talk(b)]),
    )


def _plain(value: Any) -> str:
    return "—" if value in (None, "") else str(value)


def _talk(run: Run) -> str:
    return "" if run.messages is None else str(len(run.messages))


def _system(events: Sequence[Event]) -> str:
    first = next((event for event in events if isinstance(event, TurnStarted)), None)
    return next((message.content for message in first.prompt if message.role == "system"), "") if first else ""


# Many runs as a matrix: a row for each topic, a column for each run, and topics chosen together.

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
    """A column is a run and the number and words that tell it from the others."""

    columns: Sequence[tuple[Run, str]]
    rows: Sequence[MatrixRow]
    groups: Sequence[Sequence[str]]
    sort: str
    left_out: int

    @property
    def table_columns(self) -> Sequence[tuple[Run, str]]:
        """The columns of the table, none where they are too many: it shows only the sums then."""
        return self.columns if len(self.columns) <= MOST_COLUMNS else ()

    @property
    def picture(self) -> dict[str, Any]:
        """What the script draws: names of rows and columns, and a cell as row, column, state and rank."""
        return {
            "rows": [[row.topic.id, _cut(row.topic.lineage.summary)] for row in self.rows],
            "columns": [[name, reverse("run", args=[run.pk])] for run, name in self.columns],
            "cells": [
                [at, place, state, rank or 0]
                for at, row in enumerate(self.rows)
                for place, (state, _word, rank) in enumerate(row.cells)
                if state != ABSENT_TOPIC
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
        columns=[(run, _name(at, run, comparison.runs)) for at, run in enumerate(comparison.runs, 1)],
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
