"""Ends traces of which nothing comes any more, and drops spans that are not needed any more."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from django.db import transaction
from django.db.models.functions import Now

from memoryapp.models import Run, Trace, TraceSpan
from memoryapp.operations import advisory_locks
from memoryapp.operations.outages import each_alone
from memoryapp.traces.arrival import LATE, LOCK, write

# A root may end in another process, or its spans may be lost.
QUIET = timedelta(seconds=30)
_AT_ONCE = 500


def end_quiet(quiet: timedelta = QUIET) -> list[UUID]:
    """Ends the runs of traces that got no span for so long; returns them. One transaction for each."""
    waiting = Trace.objects.filter(run__state=Run.State.RUNNING, run__heartbeat_at__lt=Now() - quiet)
    ended: list[UUID] = []

    @transaction.atomic
    def end(trace: Trace) -> None:
        advisory_locks.acquire_until_commit(LOCK, trace.owner_id)
        for row in waiting.filter(pk=trace.pk).select_related("run"):
            write(trace.owner, [row], is_over=True)
            ended.append(row.pk)

    each_alone(list(waiting.select_related("owner")[:_AT_ONCE]), "Trace %s is not ended yet.", end)
    return ended


def drop_spans(late: timedelta = LATE) -> int:
    """Deletes spans of traces that take no more; returns how many. The events of their runs remain."""
    over = Trace.objects.filter(run__state=Run.State.FINISHED, run__heartbeat_at__lt=Now() - late, spans__isnull=False)
    traces = list(over.values_list("pk", flat=True).distinct()[:_AT_ONCE])
    deleted: int = TraceSpan.objects.filter(trace__in=traces).delete()[0]
    return deleted
