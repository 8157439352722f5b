"""Repairs finished runs that lost events in a crash of the database."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

from django.db import transaction
from django.db.models import Count, F, Max, OuterRef, Subquery, Value
from django.db.models.functions import Coalesce

from memoryapp.engine.events import RunFinished
from memoryapp.models import ChatUser, Run, RunEvent
from memoryapp.runs.endings import end, events_lost


@dataclass(frozen=True, slots=True)
class Repair:
    """The repair of one run: the number of its last event before the gap, and how many events after the gap were
    removed."""

    run: UUID
    last: int
    removed: int


def repair(owner: ChatUser | None = None) -> Iterator[Repair]:
    """Ends finished runs that lost events after their last event before the gap. One transaction for each run; nothing
    else changes."""
    finished = Run.objects.filter(state=Run.State.FINISHED)
    mine = finished if owner is None else finished.filter(owner=owner)
    kinds = RunEvent.objects.filter(run=OuterRef("pk")).order_by("-seq").values("kind")
    counted = mine.annotate(
        count=Count("events"), last=Coalesce(Max("events__seq"), 0), kind=Coalesce(Subquery(kinds[:1]), Value(""))
    )
    for run_id in counted.exclude(last=F("count"), kind=RunFinished.kind).values_list("pk", flat=True):
        with transaction.atomic():
            run = Run.objects.select_for_update(of=("self",)).get(pk=run_id)
            events, removed = end(run, events_lost())
        yield Repair(run_id, len(events) - 1, removed)
