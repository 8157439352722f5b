"""Reports as text for a terminal: figures in rows, strategies in columns, and below them each strategy's verdict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from memoryapp.evaluation.bootstrap import RESAMPLES, SEED, Interval
from memoryapp.evaluation.comparison import MEASURES, Bound, Regression, bounds, differences, figure, may_go

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
