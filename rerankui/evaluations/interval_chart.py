"""An interval of a difference as a picture: zero in the middle, the interval as a bar, its mean as a dot."""

from __future__ import annotations

from dataclasses import dataclass

from django.template.defaultfilters import floatformat
from django.utils.translation import gettext as _

from memoryapp.evaluation.bootstrap import Interval

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
        return _("%(mean)s (%(low)s to %(high)s)") % values

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
