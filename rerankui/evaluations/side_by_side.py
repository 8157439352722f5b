"""Strategies side by side: a column each, a row for each figure, and the questions with the worst losses first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.template.defaultfilters import floatformat
from django.utils.functional import Promise
from django.utils.translation import gettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from memoryapp.insight.evaluation.comparison import (
    MEASURES,
    Bound,
    Loss,
    Measure,
    Row,
    bounds,
    differences,
    figure,
    loss,
    may_go,
    pairs,
    questions_of,
)
from memoryapp.insight.evaluation.scores import Interval, interval
from memoryapp.models import Evaluation

# An interval of a difference as a picture: zero in the middle, the interval as a bar, its mean as a dot.

WIDTH, HEIGHT = 360, 20
_MARGIN = 6
# Below this the picture is not widened further: a hair's breadth would look like a gulf.
_LEAST_SCALE = 0.05


@dataclass(frozen=True, slots=True)
class Picture:
    """Places from the left, in the picture's own units. ``verdict`` is better, worse or unsure."""

    difference: Interval
    low: float
    high: float
    mean: float
    verdict: str
    zero: float = WIDTH / 2
    width: int = WIDTH
    height: int = HEIGHT

    @property
    def words(self) -> str:
        """The mean and the interval, with signs."""
        values = {name: _signed(getattr(self.difference, name)) for name in ("mean", "low", "high")}
        return gettext("%(mean)s (%(low)s to %(high)s)") % values

    @property
    def span(self) -> float:
        """How wide the bar is; an interval of a single number is drawn as a line."""
        return max(round(self.high - self.low, 1), 1.5)


def scale_of(differences: list[Interval]) -> float:
    """The difference at the edge of the pictures of one row."""
    return max(_LEAST_SCALE, *(max(abs(each.low), abs(each.high)) for each in differences)) if differences else 1.0


def picture(difference: Interval, scale: float, sign: int) -> Picture:
    """``sign`` is 1 where more is better, else -1."""
    better = difference.is_above_zero if sign > 0 else difference.is_below_zero
    worse = difference.is_below_zero if sign > 0 else difference.is_above_zero
    return Picture(
        difference,
        _place(difference.low, scale),
        _place(difference.high, scale),
        _place(difference.mean, scale),
        "better" if better else "worse" if worse else "unsure",
    )


def _place(value: float, scale: float) -> float:
    return round(WIDTH / 2 + value / scale * (WIDTH / 2 - _MARGIN), 1)


def _signed(value: float) -> str:
    sign = "+" if value > 0 else "−" if value < 0 else ""
    return f"{sign}{floatformat(abs(value), 3)}"


NAMES: Mapping[str, Promise] = {
    "kept": pgettext_lazy("figure", "kept right"),
    "recall@5": _("Recall in the first 5 topics"),
    "recall@10": _("Recall in the first 10 topics"),
    "f1": _("F1 of the selection"),
    "citation_precision": _("Precision of citations"),
    "citation_coverage": _("Coverage of citations"),
    "refused_unanswerable": _("Unanswerable questions refused"),
    "refused_answerable": _("Answerable questions refused"),
    "seconds": pgettext_lazy("figure", "Seconds, on average"),
}
BOUNDS: Mapping[str, Promise] = {
    "supported": _("Answerable questions with every expected citation: at least %(bound)s"),
    "fewer_inventions": _("Unanswerable questions refused more than by the reference, at the least: above %(bound)s"),
    "slowdown": _("Average time, as a multiple of the reference: at most %(bound)s"),
    "slowest": _("Slowest question: below %(bound)s s"),
}


@dataclass(frozen=True, slots=True)
class StrategyColumn:
    """A strategy's pass. ``judged`` is empty for one without a report."""

    evaluation: Evaluation
    is_reference: bool
    judged: tuple[tuple[str, Bound], ...]

    @property
    def may_go(self) -> bool:
        return may_go([bound for _name, bound in self.judged])


@dataclass(frozen=True, slots=True)
class MeasureRow:
    """A cell is a figure and its difference from the reference; each is None if it is unknown."""

    name: Promise
    fewer_is_better: bool
    cells: tuple[tuple[float | None, Picture | None], ...]


@dataclass(frozen=True, slots=True)
class StrategyAnswer:
    """How one strategy fared with a question; ``loss`` is in what it did worse than the reference, None in nothing."""

    row: Mapping[str, Any]
    loss: Loss | None = None

    @property
    def recall(self) -> float:
        return float(self.row["recall@5"])

    @property
    def worse_in(self) -> Promise | str:
        """The figure that lost most."""
        return NAMES[self.loss.name] if self.loss else ""


@dataclass(frozen=True, slots=True)
class QuestionRow:
    """A question with an answer of each column, the reference first; None where a column did not ask it."""

    answers: tuple[StrategyAnswer | None, ...]

    @property
    def loss(self) -> float:
        """The worst of them, 0 where there is none."""
        return max((answer.loss.amount for answer in self.answers if answer and answer.loss), default=0.0)

    @property
    def row(self) -> Mapping[str, Any]:
        """What the reference's report says of the question."""
        return next(answer.row for answer in self.answers if answer)

    @property
    def runs(self) -> list[str]:
        return [answer.row["run"] for answer in self.answers if answer]


def columns(reference: Evaluation, others: Sequence[Evaluation]) -> list[StrategyColumn]:
    first = StrategyColumn(reference, True, _bounds_of(reference, None))
    return [first, *(StrategyColumn(each, False, _bounds_of(each, reference)) for each in others)]


def _bounds_of(evaluation: Evaluation, reference: Evaluation | None) -> tuple[tuple[str, Bound], ...]:
    if not has_questions(evaluation):
        return ()
    against = reference.report if reference and has_questions(reference) else None
    judged = bounds(evaluation.report, against)
    return tuple((BOUNDS[bound.name] % {"bound": floatformat(bound.bound)}, bound) for bound in judged)


def has_questions(evaluation: Evaluation) -> bool:
    """Whether the report has results for each question; an evaluation that broke off, or an old one, has none."""
    return bool(evaluation.report.get("questions"))


def rows(shown: Sequence[StrategyColumn]) -> list[MeasureRow]:
    reports = [column.evaluation.report for column in shown]
    changes = [differences(reports[0], report) for report in reports[1:]]
    found = [_row(measure, reports, changes) for measure in MEASURES]
    return [row for row in found if any(value is not None for value, _drawn in row.cells)]


def _row(
    measure: Measure, reports: Sequence[Mapping[str, Any]], changes: Sequence[Mapping[str, Interval]]
) -> MeasureRow:
    intervals = [each.get(measure.name) for each in changes]
    scale = scale_of([each for each in intervals if each])
    pictures = [None, *(picture(each, scale, measure.sign) if each else None for each in intervals)]
    cells = tuple((figure(report, measure), drawn) for report, drawn in zip(reports, pictures, strict=True))
    return MeasureRow(NAMES[measure.name], measure.sign < 0, cells)


def questions(shown: Sequence[StrategyColumn]) -> list[QuestionRow]:
    """What the reference was asked, the worst losses first, then in its own order."""
    reference, *others = (column.evaluation.report for column in shown)
    matched = [{ours["qid"]: theirs for ours, theirs in pairs(reference, other)} for other in others]
    asked = [_question_row(row, [each.get(key) for each in matched]) for key, row in questions_of(reference).items()]
    return sorted(asked, key=lambda each: -each.loss)


def _question_row(row: Mapping[str, Any], others: Sequence[Mapping[str, Any] | None]) -> QuestionRow:
    return QuestionRow(
        (StrategyAnswer(row), *(StrategyAnswer(other, loss(row, other)) if other else None for other in others))
    )


# One figure as a forest plot: each strategy's difference from the reference, over all questions and by category.

# Categories beyond these would make the plot longer than a page, and each costs a bootstrap.
MOST_CATEGORIES = 12


def forest(shown: Sequence[StrategyColumn], figure: str = "") -> dict[str, Any] | None:
    """``shown`` are the columns, the reference first; None where nothing can be compared. ``tabs`` are the figures,
    those that got worse first, each with the number of strategies that surely did; the lines belong to the ``chosen``
    one, worst first."""
    reference, *others = (column.evaluation.report for column in shown)
    changes = [differences(reference, other) for other in others]
    found = [(measure, [each[measure.name] for each in changes if measure.name in each]) for measure in MEASURES]
    known = [(measure, of_figure) for measure, of_figure in found if of_figure]
    if not known:
        return None
    ordered = sorted(known, key=lambda each: -_worse(*each))
    tabs = [{"figure": each.name, "name": NAMES[each.name], "worse": _worse(each, found)} for each, found in ordered]
    chosen = next((place for place, tab in enumerate(tabs) if tab["figure"] == figure), 0)
    measure = ordered[chosen][0]
    return {
        "tabs": tabs,
        "chosen": tabs[chosen],
        "fewer_is_better": measure.sign < 0,
        "lines": tuple(_lines(shown, measure)),
    }


def _worse(measure: Measure, of_figure: Sequence[Interval]) -> int:
    return sum(each.is_below_zero if measure.sign > 0 else each.is_above_zero for each in of_figure)


def _lines(shown: Sequence[StrategyColumn], measure: Measure) -> list[dict[str, Any]]:
    """Strategies in their order, each over all questions and then in its categories, the worst first.
    ``category`` is empty over all questions."""
    reference, *others = shown
    found: list[tuple[str, str, Interval]] = []
    for column in others:
        both = [each for each in pairs(reference.evaluation.report, column.evaluation.report) if measure.of([each[0]])]
        if both:
            name = column.evaluation.strategy
            inner = [(name, category, _difference(measure, rows)) for category, rows in _categories(both)]
            found += [
                (name, "", _difference(measure, both)),
                *sorted(inner, key=lambda each: measure.sign * each[2].mean),
            ]
    scale = scale_of([difference for _name, _category, difference in found])
    return [
        {"strategy": name, "category": category, "drawn": picture(each, scale, measure.sign), "n": each.n}
        for name, category, each in found
    ]


def _categories(both: Sequence[tuple[Row, Row]]) -> list[tuple[str, list[tuple[Row, Row]]]]:
    """Those with the most questions; none where all questions have the same."""
    names = {ours["category"] for ours, _theirs in both}
    if len(names) < 2:
        return []
    grouped = [(name, [each for each in both if each[0]["category"] == name]) for name in sorted(names) if name]
    return sorted(grouped, key=lambda each: -len(each[1]))[:MOST_CATEGORIES]


def _difference(measure: Measure, rows: Sequence[tuple[Row, Row]]) -> Interval:
    return interval([measure.value(theirs) - measure.value(ours) for ours, theirs in rows])
