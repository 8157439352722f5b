"""How many requests a token may send in a time, counted by all processes together.

The count is in the token's row. A process does not write it for each request: it takes a part of what is allowed at
once and counts that down in memory. Other processes cannot use what it does not need of its part, so a token may be
refused a few requests early, by at most one part for each other process; never late.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from django.conf import settings
from django.db import connection

# A process takes this part of the limit at once. A limit that is lower is counted request by request.
PARTS = 50

# A clock that is behind another machine's counts in the later time.
TAKE = """
UPDATE memoryapp_apitoken SET
    counted = CASE WHEN counted_from >= %(start)s THEN counted ELSE 0 END + %(part)s,
    counted_from = greatest(counted_from, %(start)s)
WHERE id = %(token)s RETURNING counted
"""


@dataclass(slots=True)
class _Left:
    """How many requests the process may still admit of the part that it took in the time from ``start``."""

    start: int
    count: int
    is_spent: bool = False


@dataclass(slots=True)
class Allowances:
    """What one process may admit, by token."""

    _of: dict[int, _Left] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def wait(self, token: int) -> float:
        """Counts a request; returns 0 if it is admitted, otherwise the seconds after which to try again."""
        most, seconds = settings.API_RATE
        now = time.time()
        start = int(now // seconds * seconds)
        if self._admits(token, start, most):
            return 0.0
        return float(max(1.0, seconds - now % seconds))

    def _admits(self, token: int, start: int, most: int) -> bool:
        with self._lock:
            left = self._of.get(token)
            if left is None or left.start != start:
                left = self._of[token] = _Left(start, 0)
            if not left.count and not left.is_spent:
                left.count = _taken(token, start, most)
                left.is_spent = not left.count
            left.count -= not left.is_spent
            return not left.is_spent


def _taken(token: int, start: int, most: int) -> int:
    """Takes the next part of the limit; returns how many requests of it are within the limit."""
    part = max(1, most // PARTS)
    with connection.cursor() as cursor:
        cursor.execute(TAKE, {"token": token, "start": start, "part": part})
        row = cursor.fetchone()
    return max(0, min(part, most - (row[0] - part))) if row else 0
