"""Waits and leases that end at a time in a row.

If that time is much further ahead than such a wait lasts, it was written while a clock was ahead. The wait then counts
as over, because otherwise it would last until the clock reaches that time again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timedelta

from django.db.models import Q
from django.utils import timezone


def waits(until: datetime | None, longest: timedelta) -> bool:
    """Whether a wait of at most ``longest`` goes on; None means no wait. Clocks may differ by up to ``longest``."""
    now = timezone.now()
    return until is not None and now < until <= now + 2 * longest


def waiting(column: str, longest: timedelta) -> Q:
    """Returns the condition that a row's wait, which ends at the time in ``column``, goes on."""
    now = timezone.now()
    return Q(**{f"{column}__gt": now, f"{column}__lte": now + 2 * longest})


def lease_holds(column: str, lease: timedelta) -> Q:
    """Returns the condition that a row's lease, last renewed at the time in ``column``, still holds."""
    now = timezone.now()
    return Q(**{f"{column}__gte": now - lease, f"{column}__lte": now + lease})


def enough_after(seconds: float) -> Callable[[], bool]:
    """Returns a function that returns True when so many seconds have passed."""
    end = time.monotonic() + seconds
    return lambda: time.monotonic() >= end
