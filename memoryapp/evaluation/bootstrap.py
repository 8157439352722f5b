"""How certain a difference is: the paired bootstrap over questions (Efron and Tibshirani, 1993, ch. 13).

Both strategies answered the same questions. The differences for each question are resampled with replacement, and the
interval is between the 2.5th and the 97.5th percentile of their means. The generator is seeded: the same differences
have the same interval, and reversed differences have its mirror image.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

SHARE = 0.95
RESAMPLES = 10_000
SEED = 20_250_925
# So many numbers need little memory.
AT_ONCE = 4_000_000


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean difference over ``n`` questions, and its 95 % confidence interval."""

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


def interval(differences: Sequence[float], resamples: int = RESAMPLES, at_once: int = AT_ONCE) -> Interval:
    """The interval of at least one difference, all numbers rounded to four digits; ``at_once`` are drawn at a time."""
    values = np.asarray(differences, dtype=np.float64)
    random = np.random.default_rng(SEED)
    rows = max(1, at_once // len(values))
    means = np.concatenate(
        [
            values[random.integers(0, len(values), (min(rows, resamples - start), len(values)))].mean(axis=1)
            for start in range(0, resamples, rows)
        ]
    )
    low, high = np.quantile(means, ((1 - SHARE) / 2, (1 + SHARE) / 2))
    return Interval(len(values), _rounded(values.mean()), _rounded(low), _rounded(high))


def _rounded(value: float) -> float:
    """To four digits, without a sign before zero."""
    return round(float(value), 4) + 0.0
