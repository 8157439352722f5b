"""Recalls of the last days: how many, how they ended, how long they took, what they cost.

Runs of evaluations are not counted, because nobody waited for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, tzinfo
from typing import Any

from django.db.models import Aggregate, Case, Count, FloatField, Q, QuerySet, Sum, Value, When
from django.db.models.functions import TruncDate
from django.utils import timezone

from memoryapp.models import ChatUser, Run
from memoryapp.models.run import RunQuerySet

DAYS = 30

# An operator switched the model off: the run ended as intended.
_MEANT = ("", "disabled")


class _Percentile(Aggregate):
    """PostgreSQL's continuous percentile of a column; ``share`` in [0, 1]."""

    function = "percentile_cont"
    template = "%(function)s(%(share)s) WITHIN GROUP (ORDER BY %(expressions)s)"
    output_field = FloatField()

    def __init__(self, column: str, share: float, **more: Any) -> None:
        super().__init__(column, share=share, **more)


@dataclass(frozen=True, slots=True)
class Day:
    """Recalls asked on a day of the reader's, and how many of them fell back."""

    day: date
    recalls: int = 0
    fallbacks: int = 0


@dataclass(frozen=True, slots=True)
class RecallUsage:
    """``days`` oldest first, today last. Seconds are those of finished recalls, None without any; cost in dollars."""

    days: Sequence[Day]
    recalls: int = 0
    fallbacks: int = 0
    median_seconds: float | None = None
    p95_seconds: float | None = None
    cost_usd: float = 0.0

    @property
    def fallback_percent(self) -> int:
        return round(100 * self.fallbacks / self.recalls) if self.recalls else 0


def usage(owners: QuerySet[ChatUser], *, now: datetime, zone: tzinfo, days: int = DAYS) -> RecallUsage:
    """The last ``days`` of these chat users' memories, by days of ``zone``. Two queries."""
    runs = _lately(owners, now, zone, days)
    by_day = runs.annotate(day=TruncDate("created_at", tzinfo=zone)).order_by().values("day")
    counted = {row["day"]: row for row in by_day.annotate(recalls=Count("pk"), fallbacks=Count("pk", ~_as_meant()))}
    totals = runs.aggregate(
        recalls=Count("pk"),
        fallbacks=Count("pk", ~_as_meant()),
        cost_usd=Sum("cost_usd", default=0.0),
        median_seconds=_Percentile("seconds", 0.5, filter=_is_finished()),
        p95_seconds=_Percentile("seconds", 0.95, filter=_is_finished()),
    )
    today = now.astimezone(zone).date()
    calendar = [today - timedelta(days=back) for back in reversed(range(days))]
    return RecallUsage(days=[Day(**counted.get(day, {"day": day})) for day in calendar], **totals)


def worst_runs(owners: QuerySet[ChatUser], *, now: datetime, zone: tzinfo, days: int = DAYS) -> QuerySet[Run]:
    """Finished recalls of the last ``days`` that deserve a look: first fallbacks, then the slowest."""
    rank = Case(When(_as_meant(), then=Value(1)), default=Value(0))
    runs = _lately(owners, now, zone, days).filter(_is_finished())
    return runs.with_answers().select_related("owner").order_by(rank, "-seconds", "-id")


def _lately(owners: QuerySet[ChatUser], now: datetime, zone: tzinfo, days: int) -> RunQuerySet:
    midnight = timezone.make_aware(datetime.combine(now.astimezone(zone).date(), datetime.min.time()), zone)
    return (
        Run.objects.by_hand().made_here().filter(owner__in=owners, created_at__gte=midnight - timedelta(days=days - 1))
    )


def _as_meant() -> Q:
    return Q(fallback__in=_MEANT)


def _is_finished() -> Q:
    return Q(state=Run.State.FINISHED)
