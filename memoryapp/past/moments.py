"""Moments as people and programs name them."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta

from django.utils import timezone


def moment_of(text: str) -> datetime:
    """The moment that a text in ISO 8601 names, at most now; a day means its end. Raises ValueError for other texts."""
    named = datetime.fromisoformat(text)
    named = datetime.combine(named, time.max) if len(text) == len("2026-03-02") else named
    return min(named if named.tzinfo else timezone.make_aware(named), timezone.now()).astimezone(UTC)


def just_after(moment: datetime) -> datetime:
    """The first moment that is no more part of this past, for bounds that are not included."""
    return moment + timedelta(microseconds=1)


def just_before(moment: datetime) -> datetime:
    """The last moment before a change that was made at ``moment``."""
    return moment - timedelta(microseconds=1)
