"""Closes runs from outside: writes the last event of a run whose process died, or that ended with a fault."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

from django.db import DatabaseError, connection, transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from memoryapp.engine.events import Event, ModelReplied, RunFinished, TurnStarted, from_payload, to_json
from memoryapp.engine.kinds.react import ToolUsed
from memoryapp.engine.notes import Note
from memoryapp.engine.outline import Outline, read_in, summarise
from memoryapp.engine.parameters import DEFAULTS
from memoryapp.engine.strategies.outcomes import interrupted
from memoryapp.models import Run, RunEvent, RunProgress
from memoryapp.operations import metrics
from memoryapp.operations.outages import is_outage
from memoryapp.outgoing.telemetry import ended
from memoryapp.runs.journal import EventRow, EventsLost, JournalEntry
from memoryapp.runs.leases import LEASE
from memoryapp.runs.records import finished_columns

ABANDONED = Note("abandoned")
CRASHED = Note("crashed")
LOST = Note("events_lost")

logger = logging.getLogger(__name__)


# A run that lost its process is begun again at most so often.
MOST_ATTEMPTS = 2


def after_fault(error: BaseException, events: Sequence[Event] = ()) -> RunFinished:
    """The last event of a run with these events that ended with this error."""
    if isinstance(error, asyncio.CancelledError | KeyboardInterrupt) or is_outage(error):
        return abandoned(events)
    return events_lost() if isinstance(error, EventsLost) else _nothing_chosen("crashed", CRASHED)


def abandoned(events: Sequence[Event]) -> RunFinished:
    """The last event of a run whose process ended: the topics that the model asked to read, or else the nearest, stand
    in for a selection."""
    outline = Outline.of(events)
    if outline.found is None or outline.started is None:
        return _nothing_chosen("abandoned", ABANDONED)
    given = outline.started.parameters
    most = replace(DEFAULTS, max_topics=given.get("max_topics", DEFAULTS.max_topics)).stand_ins
    return interrupted(outline.found, list(read_in(events)), "abandoned", most)


def stopped_event(by: str) -> RunFinished:
    """The last event of a run that a person stopped."""
    return _nothing_chosen("stopped", Note("stopped", {"by": by}), stopped_by=by)


def events_lost() -> RunFinished:
    """The last event of a run that lost some of its events."""
    return _nothing_chosen("crashed", LOST)


def _nothing_chosen(fallback: str, note: Note, stopped_by: str = "") -> RunFinished:
    return RunFinished(selected=(), dropped=(), fallback=fallback, notes=(note,), stopped_by=stopped_by)


def close_abandoned(lease: timedelta = LEASE) -> int:
    """Ends every run whose lease has lapsed for ``lease``, or has it begun again by another process if its model was
    not asked yet. Returns how many. One transaction for each run."""
    return sum(_try_to_close(run_id, lease) for run_id in _lapsed(lease).values_list("pk", flat=True)[:500])


def _lapsed(lease: timedelta) -> QuerySet[Run]:
    """The runs whose lease has lapsed; foreign ones have none. A lease from the future was renewed while the
    database's clock was ahead."""
    is_over = Q(heartbeat_at__lt=Now() - lease) | Q(heartbeat_at__gt=Now() + lease)
    return Run.objects.filter(is_over, state=Run.State.RUNNING, origin="")


def _try_to_close(run_id: UUID, lease: timedelta) -> bool:
    try:
        return _close(run_id, lease)
    except Exception as error:
        if is_outage(error) and not isinstance(error, DatabaseError):
            raise
        # One run that cannot be closed does not prevent the others from being closed; its lease lapses once more first.
        logger.error("run %s is not closed: %s", run_id, type(error).__name__)
        if not isinstance(error, DatabaseError):
            Run.objects.filter(pk=run_id).update(heartbeat_at=Now())
        return False


def _close(run_id: UUID, lease: timedelta) -> bool:
    with transaction.atomic():
        run = _lapsed(lease).select_for_update(skip_locked=True, of=("self",)).filter(pk=run_id).first()
        if run is None:
            return False
        if _goes_on(run):
            _hand_over(run)
            return True
        events, lost = end(run, stopped_event(run.stopped_by) if run.stopped_by else None)
    if lost:
        logger.error("run %s had lost events; %d behind the gap are removed", run_id, lost)
    metrics.run_finished(events, owner=run.owner_id)
    ended.run_ended(run_id)
    return True


def _goes_on(run: Run) -> bool:
    """Whether another process may begin the run again: no model was asked for a selection, and nobody stopped it."""
    asked = {TurnStarted.kind, ModelReplied.kind, ToolUsed.kind}
    events = list(run.events.order_by("seq").values_list("seq", "kind"))
    is_whole = [seq for seq, _kind in events] == list(range(1, len(events) + 1))
    was_asked = any(kind in asked for _seq, kind in events) or RunProgress.objects.filter(run=run).exists()
    return is_whole and not was_asked and not run.stopped_by and run.attempt < MOST_ATTEMPTS


def _hand_over(run: Run) -> None:
    """Lets another process claim the locked run. What its lost process may still write is refused."""
    run.events.all().delete()
    run.state, run.attempt = Run.State.PENDING, run.attempt + 1
    run.save(update_fields=["state", "attempt"])
    logger.warning("run %s lost its process and is begun again", run.pk)


def end(run: Run, ending: RunFinished | None) -> tuple[list[Event], int]:
    """Ends a locked run after its last event before any gap; without an ``ending`` as abandoned. Returns all its
    events, and how many were removed after the gap."""
    rows = list(RunEvent.objects.filter(run=run).order_by("seq"))
    whole = [row for place, row in enumerate(rows, start=1) if row.seq == place]
    lost = rows[len(whole) :]
    if lost:
        ending = events_lost()
        RunEvent.objects.filter(pk__in=[row.pk for row in lost]).delete()
    events = [from_payload(row.kind, row.payload) for row in whole]
    finished = replace(ending or abandoned(events), totals=summarise(events))
    events.append(finished)
    at = run.finished_at or timezone.now()
    row = EventRow(finished.kind, at, to_json(finished))
    columns = {"finished_at": at, **finished_columns(events, finished)}
    entry = JournalEntry(run.pk, len(events), [row], columns, run.state, run.attempt)
    with connection.cursor() as cursor:
        cursor.execute(entry.statement, entry.values)
    return events, len(lost)
