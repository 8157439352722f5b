"""One figure as a forest plot: each strategy's difference from the reference, over all questions and by category."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.functional import Promise

from memoryapp.evaluation.bootstrap import Interval, interval
from memoryapp.evaluation.comparison import MEASURES, Measure, Row, differences, pairs
from rerankui.evaluations.interval_chart import Picture, picture, scale_of
from rerankui.evaluations.side_by_side import NAMES, StrategyColumn

# Categories beyond these would make the plot longer than a page, and each costs a bootstrap.
MOST_CATEGORIES = 12


@dataclass(frozen=True, slots=True)
class ForestLine:
    """A difference; ``category`` is empty over all questions."""

    strategy: str
    category: str
    drawn: Picture

    @property
    def n(self) -> int:
        return self.drawn.difference.n


@dataclass(frozen=True, slots=True)
class ForestTab:
    """A figure that can be drawn, and how many strategies surely got worse in it."""

    figure: str
    name: Promise
    worse: int


@dataclass(frozen=True, slots=True)
class Forest:
    """``tabs`` are the figures, those that got worse first; the lines belong to the ``chosen`` one, worst first."""

    tabs: tuple[ForestTab, ...]
    chosen: ForestTab
    fewer_is_better: bool
    lines: tuple[ForestLine, ...]


def forest(shown: Sequence[StrategyColumn], figure: str = "") -> Forest | None:
    """``shown`` are the columns, the reference first; None where nothing can be compared."""
    reference, *others = (column.evaluation.report for column in shown)
    changes = [differences(reference, other) for other in others]
    found = [(measure, [each[measure.name] for each in changes if measure.name in each]) for measure in MEASURES]
    known = [(measure, of_figure) for measure, of_figure in found if of_figure]
    if not known:
        return None
    ordered = sorted(known, key=lambda each: -_worse(*each))
    tabs = tuple(ForestTab(measure.name, NAMES[measure.name], _worse(measure, each)) for measure, each in ordered)
    chosen = next((place for place, tab in enumerate(tabs) if tab.figure == figure), 0)
    measure = ordered[chosen][0]
    return Forest(tabs, tabs[chosen], measure.sign < 0, tuple(_lines(shown, measure)))


def _worse(measure: Measure, of_figure: Sequence[Interval]) -> int:
    return sum(each.is_below_zero if measure.sign > 0 else each.is_above_zero for each in of_figure)


def _lines(shown: Sequence[StrategyColumn], measure: Measure) -> list[ForestLine]:
    """Strategies in their order, each over all questions and then in its categories, the worst first."""
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
    return [ForestLine(name, category, picture(each, scale, measure.sign)) for name, category, each in found]


def _categories(both: Sequence[tuple[Row, Row]]) -> list[tuple[str, list[tuple[Row, Row]]]]:
    """Those with the most questions; none where all questions have the same."""
    names = {ours["category"] for ours, _theirs in both}
    if len(names) < 2:
        return []
    grouped = [(name, [each for each in both if each[0]["category"] == name]) for name in sorted(names) if name]
    return sorted(grouped, key=lambda each: -len(each[1]))[:MOST_CATEGORIES]


def _difference(measure: Measure, rows: Sequence[tuple[Row, Row]]) -> Interval:
    return interval([measure.value(theirs) - measure.value(ours) for ours, theirs in rows])
