"""Costs of models: by stage and day, and by stage and chat user. From the rows of runs and of agents' calls."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, tzinfo

from django.db.models import QuerySet, Sum
from django.db.models.functions import TruncDate
from django.utils import timezone

from memoryapp.engine.agents import AGENTS
from memoryapp.models import AgentCall, ChatUser, Run

DAYS = 14
MOST_OWNERS = 20
RUNS = "runs"


@dataclass(frozen=True, slots=True)
class Cost:
    """US dollars by stage, in the order of ``stages``, of one day or of one chat user."""

    dollars: tuple[float, ...]
    day: date | None = None
    owner: ChatUser | None = None

    @property
    def named(self) -> list[tuple[str, float]]:
        """The dollars with their stages."""
        return list(zip(stages(), self.dollars, strict=True))

    @property
    def total(self) -> float:
        return sum(self.dollars)


def stage_of(agent: str) -> str:
    """The stage that an agent works for; that of recalls for calls of an agent that there is no more."""
    return AGENTS[agent].stage if agent in AGENTS else RUNS


def agents_of(stage: str) -> list[str]:
    """The names of the agents that work for a stage."""
    return [agent.name for agent in AGENTS.values() if agent.stage == stage]


def stages() -> tuple[str, ...]:
    """The stages that may cost anything, recalls last."""
    return (*dict.fromkeys(agent.stage for agent in AGENTS.values() if agent.stage != RUNS), RUNS)


def by_stage(owners: QuerySet[ChatUser], since: datetime) -> dict[str, float]:
    """Dollars of each stage since then."""
    asked = AgentCall.objects.filter(owner__in=owners, at__gte=since).values_list("agent")
    found: defaultdict[str, float] = defaultdict(float)
    for agent, cost in asked.annotate(cost=Sum("cost_usd")).order_by():
        found[stage_of(agent)] += cost
    runs = Run.objects.made_here().filter(owner__in=owners, created_at__gte=since)
    found[RUNS] += runs.aggregate(cost=Sum("cost_usd", default=0.0))["cost"]
    return dict(found)


def by_day(owners: QuerySet[ChatUser], *, now: datetime, zone: tzinfo, days: int = DAYS) -> Sequence[Cost]:
    """The last ``days`` of ``zone`` that cost anything, today first. Two queries."""
    since = _midnight(now, zone) - timedelta(days=days - 1)
    found: defaultdict[tuple[date, str], float] = defaultdict(float)
    asked = AgentCall.objects.filter(owner__in=owners, at__gte=since).annotate(day=TruncDate("at", tzinfo=zone))
    for day, agent, cost in asked.values_list("day", "agent").annotate(cost=Sum("cost_usd")).order_by():
        found[day, stage_of(agent)] += cost
    runs = Run.objects.made_here().filter(owner__in=owners, created_at__gte=since)
    dated = runs.annotate(day=TruncDate("created_at", tzinfo=zone)).values_list("day")
    for day, cost in dated.annotate(cost=Sum("cost_usd")).order_by():
        found[day, RUNS] += cost
    listed = sorted({day for day, _stage in found}, reverse=True)
    costs = (Cost(tuple(found.get((day, stage), 0.0) for stage in stages()), day=day) for day in listed)
    return [cost for cost in costs if cost.total]


def by_owner(owners: QuerySet[ChatUser], *, now: datetime, zone: tzinfo, days: int = DAYS) -> Sequence[Cost]:
    """The chat users of the same days, the most expensive first. Three queries."""
    since = _midnight(now, zone) - timedelta(days=days - 1)
    found: defaultdict[tuple[int, str], float] = defaultdict(float)
    asked = AgentCall.objects.filter(owner__in=owners, at__gte=since).values_list("owner", "agent")
    for owner, agent, cost in asked.annotate(cost=Sum("cost_usd")).order_by():
        found[owner, stage_of(agent)] += cost
    runs = Run.objects.made_here().filter(owner__in=owners, created_at__gte=since).values_list("owner")
    for owner, cost in runs.annotate(cost=Sum("cost_usd")).order_by():
        found[owner, RUNS] += cost
    numbers = {owner for owner, _stage in found}
    rows = {
        number: Cost(tuple(found.get((number, stage), 0.0) for stage in stages()), owner=owner)
        for number, owner in ChatUser.objects.in_bulk(numbers).items()
    }
    dearest = sorted(rows.values(), key=lambda cost: cost.total, reverse=True)[:MOST_OWNERS]
    return [cost for cost in dearest if cost.total]


def _midnight(now: datetime, zone: tzinfo) -> datetime:
    return timezone.make_aware(datetime.combine(now.astimezone(zone).date(), datetime.min.time()), zone)
