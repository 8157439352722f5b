"""Compares two reports: differences with their intervals, the verdict *go* or *no go*, and regressions.

Reports are compared question by question, over the questions of both. The verdict depends on four bounds: enough
answerable questions are fully supported by citations; unanswerable ones are refused more often than by the reference
(the measure for fewer invented answers when no person judges them); the average latency is at most twice that of the
reference; and no question takes half a minute.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from memoryapp.evaluation.bootstrap import Interval, interval

Report = Mapping[str, Any]
Row = Mapping[str, Any]

LEAST_SUPPORTED = 0.7
MOST_SLOWDOWN = 2.0
MOST_SECONDS = 30.0
# A mean that falls by more than this is a regression, even if there are too few questions to be certain.
MARGIN = 0.1


@dataclass(frozen=True, slots=True)
class Measure:
    """A figure of each question of its kind. ``sign`` is 1 if more is better, otherwise -1."""

    name: str
    column: str
    of_answerable: bool
    sign: int = 1
    is_gated: bool = True

    def value(self, row: Row) -> float:
        return float(row[self.column])

    def of(self, rows: Iterable[Row]) -> list[Row]:
        """The questions that have this figure."""
        return [row for row in rows if row["answerable"] == self.of_answerable]


MEASURES = (
    Measure("recall@5", "recall@5", True),
    Measure("recall@10", "recall@10", True),
    Measure("f1", "f1", True),
    Measure("citation_precision", "citation_precision", True),
    Measure("citation_coverage", "citation_coverage", True),
    Measure("refused_unanswerable", "refused", False),
    Measure("refused_answerable", "refused", True, sign=-1),
    # Seconds of two runs on one machine say little about the program, so they fail no gate.
    Measure("seconds", "seconds", True, sign=-1, is_gated=False),
)


@dataclass(frozen=True, slots=True)
class Bound:
    """One condition of the verdict: ``value`` must be at least or at most ``bound``; None when it cannot be judged."""

    name: str
    value: float | None
    bound: float
    is_met: bool | None


@dataclass(frozen=True, slots=True)
class Regression:
    """A figure that got worse; ``difference`` is the new value minus the stored one."""

    name: str
    difference: Interval


@dataclass(frozen=True, slots=True)
class Loss:
    """A figure of one question, and by how much it got worse (above 0)."""

    name: str
    amount: float


def questions_of(report: Report) -> dict[str, Row]:
    """The rows of a report by the questions' ids; none in a report that was stored before reports had them."""
    return {row["qid"]: row for row in report.get("questions", ())}


def pairs(reference: Report, other: Report) -> list[tuple[Row, Row]]:
    """Each question of both reports that is answerable in both or in neither, in the order of the reference."""
    rows = questions_of(other)
    return [
        (row, rows[key])
        for key, row in questions_of(reference).items()
        if key in rows and rows[key]["answerable"] == row["answerable"]
    ]


def figure(report: Report, measure: Measure) -> float | None:
    """The mean over the questions that have this figure."""
    values = [measure.value(row) for row in measure.of(report.get("questions", ()))]
    return statistics.fmean(values) if values else None


def differences(reference: Report, other: Report) -> dict[str, Interval]:
    """How much more ``other`` has of each measure, by name; a measure without a common question is left out."""
    shared = pairs(reference, other)
    found = {}
    for measure in MEASURES:
        values = [measure.value(theirs) - measure.value(ours) for ours, theirs in shared if measure.of([ours])]
        if values:
            found[measure.name] = interval(values)
    return found


def bounds(report: Report, reference: Report | None = None) -> tuple[Bound, ...]:
    """The four conditions; without a reference two of them cannot be judged."""
    supported, slowest = report["citations"]["supported"], report["latency_ms"]["most"] / 1000
    refused = differences(reference, report).get("refused_unanswerable") if reference else None
    slowdown = report["latency_ms"]["avg"] / reference["latency_ms"]["avg"] if reference else None
    return (
        Bound("supported", supported, LEAST_SUPPORTED, None if supported is None else supported >= LEAST_SUPPORTED),
        Bound("fewer_inventions", refused.low if refused else None, 0.0, refused.is_above_zero if refused else None),
        Bound("slowdown", slowdown, MOST_SLOWDOWN, None if slowdown is None else slowdown <= MOST_SLOWDOWN),
        Bound("slowest", slowest, MOST_SECONDS, slowest < MOST_SECONDS),
    )


def may_go(judged: Sequence[Bound]) -> bool:
    """Whether every condition that could be judged is met."""
    return all(bound.is_met is not False for bound in judged)


def regressions(stored: Report, report: Report, margin: float = MARGIN) -> list[Regression]:
    """The gated figures that got worse: the whole interval is on that side, or the mean fell by more than
    ``margin``."""
    found = differences(stored, report)
    gated = [measure for measure in MEASURES if measure.is_gated and measure.name in found]
    return [
        Regression(measure.name, found[measure.name])
        for measure in gated
        if _is_worse(found[measure.name], measure.sign, margin)
    ]


def _is_worse(difference: Interval, sign: int, margin: float) -> bool:
    surely = difference.is_below_zero if sign > 0 else difference.is_above_zero
    return surely or sign * difference.mean < -margin


def loss(reference: Row, other: Row) -> Loss | None:
    """The figure that got worse most for a question; None when none did."""
    losses = [
        Loss(measure.name, measure.sign * (measure.value(reference) - measure.value(other)))
        for measure in MEASURES
        if measure.is_gated and measure.of_answerable == reference["answerable"]
    ]
    worst = max(losses, key=attrgetter("amount"))
    return worst if worst.amount > 0 else None
