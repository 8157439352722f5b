"""The last nights of a golden set as lines: two figures of each, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import FloatField
from django.db.models.fields.json import KT
from django.db.models.functions import Cast
from django.utils.translation import gettext as _

from memoryapp.evaluation.bootstrap import Interval
from memoryapp.evaluation.comparison import MEASURES
from memoryapp.models import Evaluation, GoldenNight
from rerankui.evaluations.interval_chart import picture
from rerankui.evaluations.side_by_side import NAMES

SHOWN = 30
WIDTH, HEIGHT = 720, 132
_LEFT, _RIGHT, _TOP, _BOTTOM = 36, 12, 10, 10
_SIGNS = {measure.name: measure.sign for measure in MEASURES}


@dataclass(frozen=True, slots=True)
class NightRow:
    """A night as the table shows it: its two figures, None where it has none, and what got worse, in words."""

    night: GoldenNight
    recall: float | None
    f1: float | None
    worse: tuple[tuple[str, str], ...]

    @property
    def may_be_baseline(self) -> bool:
        """Whether other nights can be compared with it."""
        return bool(self.night.evaluation_id) and self.night.state in (
            GoldenNight.State.PASSED,
            GoldenNight.State.DROPPED,
        )


@dataclass(frozen=True, slots=True)
class NightPoint:
    """A figure of a night in the picture."""

    x: float
    y: float
    value: float
    night: GoldenNight


@dataclass(frozen=True, slots=True)
class NightChart:
    """Lines from the oldest night to the latest; a night without figures breaks none, it has a mark of its own."""

    recall: tuple[NightPoint, ...]
    f1: tuple[NightPoint, ...]
    marks: tuple[tuple[float, GoldenNight], ...]
    width: int = WIDTH
    height: int = HEIGHT

    @property
    def grid(self) -> list[tuple[float, str]]:
        return [(_y(value), f"{value:.1f}") for value in (0.0, 0.5, 1.0)]

    @property
    def recall_line(self) -> str:
        return _line(self.recall)

    @property
    def f1_line(self) -> str:
        return _line(self.f1)


def rows_of(nights: Sequence[GoldenNight]) -> list[NightRow]:
    """One statement for the figures, without the reports themselves, which are large."""
    numbers = {night.evaluation_id for night in nights if night.evaluation_id}
    found = Evaluation.objects.filter(pk__in=numbers).annotate(
        recall=Cast(KT("report__candidates__recall@5"), FloatField()),
        f1=Cast(KT("report__selection__f1"), FloatField()),
    )
    figures = {pk: (recall, f1) for pk, recall, f1 in found.values_list("pk", "recall", "f1")}
    return [
        NightRow(
            night, *figures.get(night.evaluation_id or 0, (None, None)), worse=tuple(map(_worse, night.regressions))
        )
        for night in nights
    ]


def worse_in(night: GoldenNight) -> list[tuple[str, str]]:
    """What got worse, each with its difference and interval in words."""
    return [_worse(each) for each in night.regressions]


def _worse(each: Any) -> tuple[str, str]:
    name = each["figure"]
    difference = Interval(each["n"], each["mean"], each["low"], each["high"])
    label = str(NAMES[name]) if name in NAMES else _("another figure")
    return label, picture(difference, 1.0, _SIGNS.get(name, 1)).words


def chart(rows: Sequence[NightRow]) -> NightChart:
    """``rows`` are the latest first."""
    ordered = list(rows)[:SHOWN][::-1]
    step = (WIDTH - _LEFT - _RIGHT) / max(len(ordered) - 1, 1)
    places = [round(_LEFT + place * step, 1) for place in range(len(ordered))]
    shown = list(zip(places, ordered, strict=True))
    return NightChart(
        tuple(NightPoint(x, _y(row.recall), row.recall, row.night) for x, row in shown if row.recall is not None),
        tuple(NightPoint(x, _y(row.f1), row.f1, row.night) for x, row in shown if row.f1 is not None),
        tuple(
            (x, row.night)
            for x, row in shown
            if row.night.state in (GoldenNight.State.FAILED, GoldenNight.State.DROPPED)
        ),
    )


def _y(value: float) -> float:
    return round(HEIGHT - _BOTTOM - value * (HEIGHT - _TOP - _BOTTOM), 1)


def _line(points: Sequence[NightPoint]) -> str:
    return " ".join(f"{point.x},{point.y}" for point in points)
