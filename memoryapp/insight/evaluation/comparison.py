"""Compares two reports: differences with their intervals, the verdict *go* or *no go*, and regressions.

Reports are compared question by question, over the questions of both. The verdict depends on four bounds: enough
answerable questions are fully supported by citations; unanswerable ones are refused more often than by the reference
(the measure for fewer invented answers when no person judges them); the average latency is at most twice that of the
reference; and no question takes half a minute."""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import comb
from operator import attrgetter
from typing import Any

from memoryapp.insight.evaluation.scores import RESAMPLES, SEED, Interval, interval

Report = Mapping[str, Any]
Row = Mapping[str, Any]

LEAST_SUPPORTED = 0.7
MOST_SLOWDOWN = 2.0
MOST_SECONDS = 30.0
# A mean that falls by more than this is a regression, even if there are too few questions to be certain.
MARGIN = 0.1
# A fall that chance alone brings more often than this is none.
BY_CHANCE = 0.05


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
    return {name: interval(values) for name, values in _changes(reference, other).items()}


def _changes(reference: Report, other: Report) -> dict[str, list[float]]:
    found = defaultdict(list)
    for ours, theirs in pairs(reference, other):
        for measure in MEASURES:
            if measure.of([ours]):
                found[measure.name].append(measure.value(theirs) - measure.value(ours))
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
    """The gated figures that got worse: the whole interval is on that side, and not of so few questions that it may be
    chance; or the mean fell by more than ``margin``."""
    changes = _changes(stored, report)
    gated = [measure for measure in MEASURES if measure.is_gated and measure.name in changes]
    found = [(measure.sign, changes[measure.name], measure.name) for measure in gated]
    return [
        Regression(name, difference)
        for sign, values, name in found
        if _is_worse(difference := interval(values), [sign * value for value in values], sign, margin)
    ]


def _is_worse(difference: Interval, gains: Sequence[float], sign: int, margin: float) -> bool:
    surely = difference.is_below_zero if sign > 0 else difference.is_above_zero
    return surely and _by_chance(gains) < BY_CHANCE or sign * difference.mean < -margin


def _by_chance(gains: Sequence[float]) -> float:
    """The sign test: how probably so many of the questions that changed got worse if each was as likely to improve.
    Four of four can be chance, which the bootstrap over hundreds of equal answers does not see."""
    worse, changed = sum(gain < 0 for gain in gains), sum(gain != 0 for gain in gains)
    return sum(comb(changed, count) for count in range(worse, changed + 1)) / (1 << changed)


def loss(reference: Row, other: Row) -> Loss | None:
    """The figure that got worse most for a question; None when none did."""
    losses = [
        Loss(measure.name, measure.sign * (measure.value(reference) - measure.value(other)))
        for measure in MEASURES
        if measure.is_gated and measure.of_answerable == reference["answerable"]
    ]
    worst = max(losses, key=attrgetter("amount"))
    return worst if worst.amount > 0 else None


# Reports as text for a terminal: figures in rows, strategies in columns, and below them each strategy's verdict.

_NAME, _COLUMN = 32, 34
_NAMES: Mapping[str, str] = {
    "supported": "share of answerable questions supported by citations in full",
    "fewer_inventions": "unanswerable ones refused more often than by {reference}, lower end",
    "slowdown": "average latency beside {reference}",
    "slowest": "slowest question in seconds",
}
_LIMITS: Mapping[str, str] = {
    "supported": "at least",
    "fewer_inventions": "above",
    "slowdown": "at most",
    "slowest": "below",
}


def table(reports: Sequence[Mapping[str, Any]]) -> str:
    """The first report, with the others beside it and their differences from it in brackets."""
    return "\n".join((*_figures(reports), "", *_verdicts(reports)))


def regression_lines(strategy: str, found: Sequence[Regression]) -> list[str]:
    """A sentence for each figure that got worse."""
    return [
        f"{strategy}: {each.name} changed by {each.difference.mean:+.3f} {_interval(each.difference)}"
        f" over {each.difference.n} questions."
        for each in found
    ]


def _figures(reports: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    first = reports[0]
    yield f"{first['n']} questions, {first['unanswerable']} of them unanswerable"
    if len(reports) > 1:
        yield f"in brackets: less {first['strategy']}, paired bootstrap, 95 %, {RESAMPLES} resamples, seed {SEED}"
    yield ""
    yield _line("", [report["strategy"] for report in reports])
    changes = [{}, *(differences(first, report) for report in reports[1:])]
    for measure in MEASURES:
        cells = [
            f"{_number(figure(report, measure))} {_change(intervals.get(measure.name))}"
            for report, intervals in zip(reports, changes, strict=True)
        ]
        yield _line(measure.name, cells)
    for group, name in _PLAIN:
        yield _line(f"{group} {name}".replace("_", " "), [_number(report[group].get(name)) for report in reports])
    yield _line("failed", [str(report["failed"]) for report in reports])


_PLAIN = (
    ("candidates", "mrr"),
    ("candidates", "evidence@20000chars"),
    ("selection", "precision"),
    ("selection", "recall"),
    ("selection", "mean_selected"),
    ("citations", "supported"),
    ("latency_ms", "avg"),
    ("latency_ms", "p50"),
    ("latency_ms", "p95"),
)


def _line(name: str, cells: Sequence[str]) -> str:
    return (name.ljust(_NAME) + "".join(cell.ljust(_COLUMN) for cell in cells)).rstrip()


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.3f}" if value < 10 else f"{value:.0f}"


def _change(difference: Interval | None) -> str:
    return f"({difference.mean:+.3f} {_interval(difference)})" if difference else ""


def _interval(difference: Interval) -> str:
    return f"[{difference.low:+.3f}, {difference.high:+.3f}]"


def _verdicts(reports: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    reference = reports[0]
    for report in reports:
        judged = bounds(report, None if report is reference else reference)
        yield f"{report['strategy']}: {'go' if may_go(judged) else 'no go'}"
        for bound in judged:
            yield f"  {_MARKS[bound.is_met]} {_sentence(bound, reference['strategy'])}"


_MARKS = {True: "+", False: "-", None: "?"}


def _sentence(bound: Bound, reference: str) -> str:
    if bound.value is None:
        return f"{_NAMES[bound.name].format(reference=reference)}: not judged"
    return (
        f"{_NAMES[bound.name].format(reference=reference)}: {bound.value:.2f} ({_LIMITS[bound.name]} {bound.bound:g})"
    )
