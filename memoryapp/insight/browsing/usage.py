"""Recalls of the last days: how many, how they ended, how long they took, what they cost. Runs of evaluations are not
counted, because nobody waited for them."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, tzinfo
from statistics import fmean, median
from typing import Any
from uuid import UUID

import numpy as np
from django.db.models import Aggregate, Case, Count, F, FloatField, Q, QuerySet, Sum, Value, When
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast, TruncDate
from django.utils import timezone

from memoryapp.engine.agents import AGENTS
from memoryapp.models import AgentCall, ChatUser, Run, RunEvent, Topic
from memoryapp.models.run import RunQuerySet
from memoryapp.platform import cells

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
    counted, totals = _by_day(runs, zone), _totals(runs)
    today = now.astimezone(zone).date()
    calendar = [today - timedelta(days=back) for back in reversed(range(days))]
    return RecallUsage(days=[Day(day, **counted.get(day, {})) for day in calendar], **totals)


@cells.everywhere()
def _by_day(runs: QuerySet[Run], zone: tzinfo) -> dict[date, dict[str, int]]:
    days = runs.annotate(day=TruncDate("created_at", tzinfo=zone)).order_by().values_list("day")
    counted = days.annotate(recalls=Count("pk"), fallbacks=Count("pk", ~_as_meant()))
    return {day: {"recalls": recalls, "fallbacks": fallbacks} for day, recalls, fallbacks in counted}


def _joined(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Of several cells the times are those of the slowest."""
    slowest = {name: max(one[name] or 0.0, other[name] or 0.0) for name in ("median_seconds", "p95_seconds")}
    return {**{name: one[name] + other[name] for name in one.keys() - slowest.keys()}, **slowest}


@cells.everywhere(join=_joined)
def _totals(runs: QuerySet[Run]) -> dict[str, Any]:
    return runs.aggregate(
        recalls=Count("pk"),
        fallbacks=Count("pk", ~_as_meant()),
        cost_usd=Sum("cost_usd", default=0.0),
        median_seconds=_Percentile("seconds", 0.5, filter=_is_finished()),
        p95_seconds=_Percentile("seconds", 0.95, filter=_is_finished()),
    )


def worst_runs(
    owners: QuerySet[ChatUser], most: int, *, now: datetime, zone: tzinfo, days: int = DAYS
) -> Sequence[Run]:
    """Finished recalls of the last ``days`` that deserve a look, at most so many: first fallbacks, then the slowest."""
    return _worst(owners, now, zone, days, most)[:most]


@cells.everywhere(order=lambda run: (run.fallback not in _MEANT, run.seconds, run.pk))
def _worst(owners: QuerySet[ChatUser], now: datetime, zone: tzinfo, days: int, most: int) -> list[Run]:
    rank = Case(When(_as_meant(), then=Value(1)), default=Value(0))
    runs = _lately(owners, now, zone, days).filter(_is_finished())
    return list(runs.with_answers().select_related("owner").order_by(rank, "-seconds", "-id")[:most])


def _lately(owners: QuerySet[ChatUser], now: datetime, zone: tzinfo, days: int) -> RunQuerySet:
    since = _midnight(now, zone) - timedelta(days=days - 1)
    return Run.objects.by_hand().made_here().filter(owner__in=owners, created_at__gte=since)


def _as_meant() -> Q:
    return Q(fallback__in=_MEANT)


def _is_finished() -> Q:
    return Q(state=Run.State.FINISHED)


# Costs of models: by stage and day, and by stage and chat user. From the rows of runs and of agents' calls.

DAYS_OF_COSTS = 14
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
    found = _dollars(owners, since, lambda at: Value(0))
    return {stage: cost for (_all, stage), cost in found.items()}


def by_day(owners: QuerySet[ChatUser], *, now: datetime, zone: tzinfo, days: int = DAYS_OF_COSTS) -> Sequence[Cost]:
    """The last ``days`` of ``zone`` that cost anything, today first. Two queries."""
    since = _midnight(now, zone) - timedelta(days=days - 1)
    found = _dollars(owners, since, lambda at: TruncDate(at, tzinfo=zone))
    listed = sorted({day for day, _stage in found}, reverse=True)
    costs = (Cost(tuple(found.get((day, stage), 0.0) for stage in stages()), day=day) for day in listed)
    return [cost for cost in costs if cost.total]


def by_owner(owners: QuerySet[ChatUser], *, now: datetime, zone: tzinfo, days: int = DAYS_OF_COSTS) -> Sequence[Cost]:
    """The chat users of the same days, the most expensive first. Three queries."""
    found = _dollars(owners, _midnight(now, zone) - timedelta(days=days - 1), lambda at: F("owner"))
    costs = [
        Cost(tuple(found.get((number, stage), 0.0) for stage in stages()), owner=owner)
        for number, owner in ChatUser.objects.in_bulk({number for number, _stage in found}).items()
    ]
    dearest = sorted(costs, key=lambda cost: cost.total, reverse=True)[:MOST_OWNERS]
    return [cost for cost in dearest if cost.total]


@cells.everywhere()
def _dollars(
    owners: QuerySet[ChatUser], since: datetime, group: Callable[[str], Any]
) -> defaultdict[tuple[Any, str], float]:
    """Dollars since then by group and stage; ``group`` gives the expression from the name of a row's time."""
    found: defaultdict[tuple[Any, str], float] = defaultdict(float)
    asked = AgentCall.objects.filter(owner__in=owners, at__gte=since).annotate(group=group("at"))
    for each, agent, cost in asked.values_list("group", "agent").annotate(cost=Sum("cost_usd", default=0.0)).order_by():
        found[each, stage_of(agent)] += cost
    runs = Run.objects.made_here().filter(owner__in=owners, created_at__gte=since).annotate(group=group("created_at"))
    for each, cost in runs.values_list("group").annotate(cost=Sum("cost_usd", default=0.0)).order_by():
        found[each, RUNS] += cost
    return found


def _midnight(now: datetime, zone: tzinfo) -> datetime:
    return timezone.make_aware(datetime.combine(now.astimezone(zone).date(), datetime.min.time()), zone)


# How long each stage of the last runs took.

MOST_RUNS = 200
# By the event that ends it. The rest is what a run took beside them: waiting, reading topics, checking the answer.
_ENDED_BY: Mapping[str, str] = {"query_enriched": "enrich", "candidates_found": "search", "model_replied": "turn"}
REST, WHOLE = "rest", "whole"
# The parts of a context that are topics' messages.
_OF_TOPICS = ("topics", "unsure")
STAGES = (*_ENDED_BY.values(), REST, WHOLE)


@dataclass(frozen=True, slots=True)
class RunTimes:
    """A finished run with the seconds of its stages; a stage that it did not have is missing."""

    run: Run
    seconds: Mapping[str, float]


@cells.everywhere(order=lambda each: (each.run.created_at, each.run.pk), most=MOST_RUNS)
def stage_times(runs: QuerySet[Run], most: int = MOST_RUNS) -> Sequence[RunTimes]:
    """The newest finished ones of ``runs``, newest first. Two queries."""
    listed = list(runs.filter(state=Run.State.FINISHED).order_by("-created_at", "-id")[:most])
    of_stage = _by_stage([run.pk for run in listed])
    return [RunTimes(run, _with_rest(of_stage.get(run.pk, {}), run.seconds)) for run in listed]


@dataclass(frozen=True, slots=True)
class RecallFigures:
    """What recalls hand over and cost: medians over runs of the tokens of a context, of the tokens of memory in it, and
    of the share of the whole memory (its size today) that these topics are; None without any such run."""

    p95_seconds: float
    cost_usd: float
    context_tokens: float | None
    memory_tokens: float | None
    memory_percent: float | None


def recall_figures(times: Sequence[RunTimes]) -> RecallFigures | None:
    """Figures of these runs, ``cost_usd`` for one of them on average; None without runs. Two queries."""
    if not times:
        return None
    owner_of = {each.run.pk: each.run.owner_id for each in times}
    whole, contexts = _sizes(set(owner_of.values())), _contexts(list(owner_of))
    of_topics = [(run, [part for part in parts if part["name"] in _OF_TOPICS]) for run, parts in contexts]
    shares = [
        min(100.0, 100 * sum(part["chars"] for part in parts) / whole[owner_of[run]])
        for run, parts in of_topics
        if whole.get(owner_of[run])
    ]
    return RecallFigures(
        p95_seconds=float(np.percentile([each.run.seconds for each in times], 95)),
        cost_usd=fmean(each.run.cost_usd for each in times),
        context_tokens=_median(sum(part["tokens"] for part in parts) for _run, parts in contexts),
        memory_tokens=_median(sum(part["tokens"] for part in parts) for _run, parts in of_topics),
        memory_percent=_median(shares),
    )


@cells.everywhere()
def _sizes(owners: Collection[int]) -> dict[int, int]:
    sizes = Topic.objects.live().filter(owner__in=owners).order_by().values_list("owner")
    return dict(sizes.annotate(chars=Sum("size_chars")))


@cells.everywhere()
def _contexts(runs: Collection[UUID]) -> list[tuple[UUID, list[dict[str, Any]]]]:
    ended = RunEvent.objects.filter(run__in=runs, kind="run_finished").order_by()
    return [(run, parts) for run, parts in ended.values_list("run", "payload__context") if parts]


def _median(values: Iterable[float]) -> float | None:
    found = list(values)
    return median(found) if found else None


def _by_stage(runs: Sequence[UUID]) -> dict[UUID, dict[str, float]]:
    ended = RunEvent.objects.filter(run__in=runs, kind__in=_ENDED_BY).order_by().values_list("run", "kind")
    seconds = Cast(KeyTextTransform("seconds", "payload"), FloatField())
    found: dict[UUID, dict[str, float]] = {}
    for run, kind, taken in ended.annotate(taken=Sum(seconds)):
        found.setdefault(run, {})[_ENDED_BY[kind]] = taken or 0.0
    return found


def _with_rest(stages: Mapping[str, float], whole: float) -> dict[str, float]:
    return {**stages, REST: max(whole - sum(stages.values()), 0.0), WHOLE: whole}
