"""What each day cost, by stage, as bars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from memoryapp.browsing.costs import Cost, stages

HEIGHT, STEP = 96, 10


@dataclass(frozen=True, slots=True)
class CostPart:
    """A stage's share of a day's bar, in the picture's units."""

    stage: str
    y: float
    height: float


@dataclass(frozen=True, slots=True)
class CostDay:
    day: date
    total: float
    x: int
    parts: Sequence[CostPart]
    width: int = STEP


@dataclass(frozen=True, slots=True)
class CostBars:
    """Days, oldest first; ``stages`` are those that cost anything, and ``total`` is of all days, in dollars."""

    days: Sequence[CostDay]
    stages: Sequence[str]
    total: float
    most: float
    height: int = HEIGHT

    @property
    def width(self) -> int:
        return len(self.days) * STEP


def cost_bars(costs: Sequence[Cost], today: date, days: int) -> CostBars:
    """``costs`` are days that cost anything, in any order; the others are empty in the picture."""
    by_day = {cost.day: cost for cost in costs}
    most = max((cost.total for cost in costs), default=0.0)
    calendar = [today - timedelta(days=back) for back in reversed(range(days))]
    bars = [_day(place, day, by_day.get(day), most) for place, day in enumerate(calendar)]
    paid = [stage for place, stage in enumerate(stages()) if any(cost.dollars[place] for cost in costs)]
    return CostBars(bars, paid, sum(cost.total for cost in costs), most)


def _day(place: int, day: date, cost: Cost | None, most: float) -> CostDay:
    parts, base = [], float(HEIGHT)
    for stage, dollars in cost.named if cost else ():
        if dollars:
            height = max(round(dollars / most * (HEIGHT - 4), 1), 0.5)
            base -= height
            parts.append(CostPart(stage, round(base, 1), height))
    return CostDay(day, cost.total if cost else 0.0, place * STEP, parts)
