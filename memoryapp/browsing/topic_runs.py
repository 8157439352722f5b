"""Recent runs that concern one topic: how many read it, selected it and used it, and which they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Q

from memoryapp.engine.memory import topic_id
from memoryapp.models import Run, RunEvent, Topic

RUNS_LOOKED_AT = 300


@dataclass(frozen=True, slots=True)
class TopicRuns:
    """How many recent runs showed a topic to the model, read it and selected it, and how many answers used it.

    ``runs`` are the latest that read or selected it. ``former`` are earlier topics with some of its messages, latest
    first.
    """

    candidate: int
    read: int
    chosen: int
    used: int
    looked_at: int
    runs: Sequence[tuple[Run, bool]]
    former: Sequence[int] = ()


def topic_runs(topic: Topic, former: Sequence[int] = (), most: int = 6, until: datetime | None = None) -> TopicRuns:
    """Counts for the topic, including the ``former`` ones, in the last few hundred runs by hand (before ``until``).

    Two events of each run are searched, its candidates and its last one, by containment in the database, and what was
    sent of the assistant's answers. Four statements.
    """
    names = [topic_id(number) for number in (topic.pk, *former)]
    asked = Run.objects.of(topic.owner_id).by_hand().made_here().order_by("-created_at")
    asked = asked.filter(created_at__lte=until) if until else asked
    recent = {run.pk: run for run in asked[:RUNS_LOOKED_AT]}
    chose = Q(*(Q(payload__selected__contains=[{"id": name}]) for name in names), _connector=Q.OR)
    read = Q(payload__requested__has_any_keys=names) | Q(payload__dropped__has_any_keys=names)
    ends = RunEvent.objects.filter(owner=topic.owner_id, run__in=list(recent), kind="run_finished")
    found = dict(ends.filter(chose | read).values_list("run").annotate(n=Count("pk", chose)))
    shown = [(run, bool(found[pk])) for pk, run in recent.items() if pk in found]
    searches = RunEvent.objects.filter(owner=topic.owner_id, run__in=list(recent), kind="candidates_found")
    offered = Q(*(Q(payload__candidates__contains=[{"id": name}]) for name in names), _connector=Q.OR)
    candidate = searches.filter(offered).count()
    named = Q(*(Q(delivered__uses__contains=[{"id": name}]) for name in names), _connector=Q.OR)
    used = Run.objects.of(topic.owner_id).filter(named, pk__in=list(recent)).count()
    return TopicRuns(candidate, len(found), sum(map(bool, found.values())), used, len(recent), shown[:most], former)
