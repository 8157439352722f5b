"""Strategies side by side: a column each, a row for each figure, and the questions with the worst losses first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.template.defaultfilters import floatformat
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from memoryapp.evaluation.bootstrap import Interval
from memoryapp.evaluation.comparison import (
    MEASURES,
    Bound,
    Loss,
    Measure,
    bounds,
    differences,
    figure,
    loss,
    may_go,
    pairs,
    questions_of,
)
from memoryapp.models import Evaluation
from rerankui.evaluations.interval_chart import Picture, picture, scale_of

NAMES: Mapping[str, Promise] = {
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
class MeasureCell:
    """A figure, and its difference from the reference; None if that is unknown."""

    value: float | None
    picture: Picture | None


@dataclass(frozen=True, slots=True)
class MeasureRow:
    name: Promise
    fewer_is_better: bool
    cells: tuple[MeasureCell, ...]


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
    """The reference first."""
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
    """A row for each measure that any column has."""
    reports = [column.evaluation.report for column in shown]
    changes = [differences(reports[0], report) for report in reports[1:]]
    found = [_row(measure, reports, changes) for measure in MEASURES]
    return [row for row in found if any(cell.value is not None for cell in row.cells)]


def _row(
    measure: Measure, reports: Sequence[Mapping[str, Any]], changes: Sequence[Mapping[str, Interval]]
) -> MeasureRow:
    intervals = [each.get(measure.name) for each in changes]
    scale = scale_of([each for each in intervals if each])
    pictures = [None, *(picture(each, scale, measure.sign) if each else None for each in intervals)]
    cells = tuple(MeasureCell(figure(report, measure), drawn) for report, drawn in zip(reports, pictures, strict=True))
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
