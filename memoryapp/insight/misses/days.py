"""What the days say of misses: how many, where they were lost, what put them right, what costs most, and how long a
repair takes."""

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, tzinfo

from django.db.models import QuerySet

from memoryapp.models import ChatUser, Miss

DAYS = 30
_MOST = 10_000
_COSTLIEST = 3
_NONE = "none"


@dataclass(frozen=True, slots=True)
class Cause:
    """A stage with its misses, and the hours in which they were open."""

    stage: str
    misses: int
    hours: float


@dataclass(frozen=True, slots=True)
class MissDays:
    """``days`` are all days, the oldest first, with the number of misses by stage; ``median_hours`` is the time from a
    miss to its repair, None without one. What was no miss is left out; an unknown stage or no remedy is ``none``."""

    days: Sequence[tuple[date, Counter[str]]]
    by_stage: Sequence[tuple[str, int]]
    by_remedy: Sequence[tuple[str, int]]
    costliest: Sequence[Cause]
    open: int
    total: int
    median_hours: float | None


def days_of(
    owners: QuerySet[ChatUser] | Iterable[ChatUser], *, now: datetime, zone: tzinfo, days: int = DAYS
) -> MissDays:
    """The last ``days`` of these memories on the calendar of ``zone``; one statement."""
    today = now.astimezone(zone).date()
    first = today - timedelta(days=days - 1)
    rows = Miss.objects.filter(owner__in=owners, at__gte=datetime.combine(first, datetime.min.time(), zone))
    found = list(
        rows.exclude(state=Miss.State.DISMISSED).values_list("at", "stage", "remedy", "state", "repaired_at")[:_MOST]
    )
    by_day: dict[date, Counter[str]] = defaultdict(Counter)
    hours: dict[str, float] = defaultdict(float)
    for at, stage, _remedy, state, repaired in found:
        by_day[at.astimezone(zone).date()][stage or _NONE] += 1
        end = repaired or (now if state == Miss.State.OPEN else at)
        hours[stage or _NONE] += (end - at).total_seconds() / 3_600
    stages = Counter(stage or _NONE for _at, stage, *_rest in found)
    taken = [(repaired - at).total_seconds() / 3_600 for at, *_rest, repaired in found if repaired]
    worst = sorted(stages, key=lambda stage: (-hours[stage], -stages[stage], stage))[:_COSTLIEST]
    return MissDays(
        [(first + timedelta(days=place), by_day[first + timedelta(days=place)]) for place in range(days)],
        stages.most_common(),
        Counter(
            remedy or _NONE for _at, _stage, remedy, state, _repaired in found if remedy or state == Miss.State.KEPT
        ).most_common(),
        [Cause(stage, stages[stage], round(hours[stage], 2)) for stage in worst],
        sum(state == Miss.State.OPEN for _at, _stage, _remedy, state, _repaired in found),
        len(found),
        round(statistics.median(taken), 2) if taken else None,
    )
