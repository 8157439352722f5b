"""How sure a difference is: the paired bootstrap over questions (Efron and Tibshirani, 1993, ch. 13).

Both strategies were asked the same questions, so the differences question by question are drawn anew, with replacement,
and the interval lies between the 2.5th and the 97.5th percentile of their means. The draws are seeded: the same
differences have the same interval, and the other way round its mirror image.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

SHARE = 0.95
RESAMPLES = 10_000
SEED = 20_250_925
# Numbers drawn at a time, so that a file of many questions takes no more memory than one of few.
_AT_ONCE = 4_000_000


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean difference over ``n`` questions and the interval that holds it with 95 % confidence."""

    n: int
    mean: float
    low: float
    high: float

    @property
    def is_below_zero(self) -> bool:
        """Whether the whole interval is."""
        return self.high < 0

    @property
    def is_above_zero(self) -> bool:
        """Whether the whole interval is."""
        return self.low > 0


def interval(differences: Sequence[float], resamples: int = RESAMPLES) -> Interval:
    """Of at least one difference. All numbers are rounded to four digits."""
    values = np.asarray(differences, dtype=np.float64)
    random = np.random.default_rng(SEED)
    at_once = max(1, _AT_ONCE // len(values))
    means = np.concatenate(
        [
            values[random.integers(0, len(values), (min(at_once, resamples - start), len(values)))].mean(axis=1)
            for start in range(0, resamples, at_once)
        ]
    )
    low, high = np.quantile(means, ((1 - SHARE) / 2, (1 + SHARE) / 2))
    return Interval(len(values), _rounded(values.mean()), _rounded(low), _rounded(high))


def _rounded(value: float) -> float:
    """To four digits, without a sign before zero."""
    return round(float(value), 4) + 0.0
