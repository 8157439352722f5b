"""Waits and leases that end at a time in a row.

A time much further ahead than such a wait lasts was written while a clock was ahead. Whoever believed it would wait
until the clock is there again, so it counts as over.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db.models import Q
from django.utils import timezone


def waits(until: datetime | None, longest: timedelta) -> bool:
    """Whether a wait of at most ``longest`` goes on; None is none. Clocks of two machines may differ by as much."""
    now = timezone.now()
    return until is not None and now < until <= now + 2 * longest


def waiting(column: str, longest: timedelta) -> Q:
    """The rows whose wait goes on, which ends at the time in ``column``."""
    now = timezone.now()
    return Q(**{f"{column}__gt": now, f"{column}__lte": now + 2 * longest})


def renewed(column: str, lease: timedelta) -> Q:
    """The rows whose lease was renewed, at the time in ``column``, so lately that it holds."""
    now = timezone.now()
    return Q(**{f"{column}__gte": now - lease, f"{column}__lte": now + lease})
