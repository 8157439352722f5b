"""Closes runs from outside: writes the last event of a run whose process died, or that ended with a fault."""

import asyncio
import logging
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

from django.db import DatabaseError, transaction
from django.db.models import Count, F, Max, OuterRef, Q, QuerySet, Subquery, Value
from django.db.models.functions import Coalesce, Now
from django.utils import timezone

from memoryapp.engine.events import Event, ModelReplied, RunFinished, TurnStarted, from_payload, to_json
from memoryapp.engine.kinds.react import ToolUsed
from memoryapp.engine.notes import Note, english
from memoryapp.engine.outline import Outline, read_in, summarise
from memoryapp.engine.parameters import DEFAULTS
from memoryapp.engine.strategies.strategy import interrupted
from memoryapp.models import ChatUser, Run, RunEvent, RunProgress
from memoryapp.platform import metrics
from memoryapp.platform.database import is_outage, rests
from memoryapp.platform.statements import execute
from memoryapp.platform.telemetry import ended
from memoryapp.runs.claims import LEASE
from memoryapp.runs.journal import EventRow, EventsLost, JournalEntry, finished_columns

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
    """The last event of a run whose process ended: topics it asked to read, or the nearest, are the selection."""
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
    lapsed = _lapsed(lease).values_list("pk", flat=True)[:500]
    return sum(_try_to_close(run_id, lease) for run_id in lapsed if not rests.holds(run_id))


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
        # One run that cannot be closed does not prevent the others from being closed.
        logger.error("run %s is not closed: %s", run_id, type(error).__name__)
        rests.begin(run_id)
        return False


def end_unbegun(run_id: UUID, error: BaseException) -> None:
    """Ends a run that no process can claim because of this error."""
    with transaction.atomic():
        run = Run.objects.select_for_update(of=("self",)).filter(pk=run_id, state=Run.State.PENDING).first()
        events = end(run, after_fault(error))[0] if run else []
    if run:
        _tell(run, events)


def _close(run_id: UUID, lease: timedelta) -> bool:
    with transaction.atomic():
        run = _lapsed(lease).select_for_update(skip_locked=True, of=("self",)).filter(pk=run_id).first()
        if run is None:
            return False
        if _goes_on(run):
            # What its lost process may still write is refused.
            run.events.all().delete()
            run.state, run.attempt = Run.State.PENDING, run.attempt + 1
            run.save(update_fields=["state", "attempt"])
            logger.warning("run %s lost its process and is begun again", run.pk)
            return True
        events, lost = end(run, stopped_event(run.stopped_by) if run.stopped_by else None)
    if lost:
        logger.error("run %s had lost events; %d behind the gap are removed", run_id, lost)
    _tell(run, events)
    return True


def _tell(run: Run, events: Sequence[Event]) -> None:
    """Counts the ended run, and tells telemetry."""
    metrics.run_finished(events, owner=run.owner_id)
    ended.run_ended(run.pk)


def _goes_on(run: Run) -> bool:
    """Whether another process may begin the run again: no model was asked for a selection, and nobody stopped it."""
    asked = {TurnStarted.kind, ModelReplied.kind, ToolUsed.kind}
    events = list(run.events.order_by("seq").values_list("seq", "kind"))
    is_whole = [seq for seq, _kind in events] == list(range(1, len(events) + 1))
    was_asked = any(kind in asked for _seq, kind in events) or RunProgress.objects.filter(run=run).exists()
    return is_whole and not was_asked and not run.stopped_by and run.attempt < MOST_ATTEMPTS


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
    first, added = len(events) + 1, [] if lost else _cut_off(run, whole, events)
    events += [event for _at, event in added]
    finished = replace(ending or abandoned(events), totals=summarise(events))
    events.append(finished)
    at = run.finished_at or timezone.now()
    rows_added = [EventRow(event.kind, moment, to_json(event)) for moment, event in (*added, (at, finished))]
    columns = {"finished_at": at, **finished_columns(events, finished)}
    entry = JournalEntry(run.pk, first, rows_added, columns, run.state, run.attempt)
    execute(entry.statement, entry.values)
    return events, len(lost)


def _cut_off(run: Run, rows: Sequence[RunEvent], events: Sequence[Event]) -> list[tuple[datetime, Event]]:
    """The turn in which the run's process was lost, as far as its words were shown: none when it had said nothing."""
    turns = [(row.at, event) for row, event in zip(rows, events, strict=True) if isinstance(event, TurnStarted)]
    replied = {event.turn for event in events if isinstance(event, ModelReplied)}
    said = RunProgress.objects.filter(run=run).first()
    if said is None or not turns or turns[-1][1].turn in replied or turns[-1][1].turn != said.turn:
        return []
    seconds = max((said.at - turns[-1][0]).total_seconds(), 0.0)
    started, note = Outline.of(events).started, Note("turn_cut_off", {"seconds": seconds})
    reply = ModelReplied(
        said.turn, said.text, said.reasoning, (), 0, 0, 0.0, seconds, started.model if started else "",
        error=english((note,)), notes=(note,),
    )  # fmt: skip
    return [(said.at, reply)]


# Repairs finished runs that lost events in a crash of the database.


@dataclass(frozen=True, slots=True)
class Repair:
    """The repair of one run: the number of its last event before the gap, and how many after it were removed."""

    run: UUID
    last: int
    removed: int


def repair(owner: ChatUser | None = None) -> Iterator[Repair]:
    """Ends finished runs that lost events after the last one before the gap, in one transaction each."""
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


# Stops a run that is being executed.
#
# The name of the person who asks is written into the run's row. If this process executes the run, it stops at once;
# any other process sees the name when it renews the run's lease.


class Stopped(Exception):
    """A person asked for the end of the run; ``by`` is their name."""

    def __init__(self, by: str) -> None:
        super().__init__(f"The run was stopped by {by}.")
        self.by = by


class Stop:
    """A request to stop some work, which can be made while the work goes on. For the event loop that creates it."""

    def __init__(self) -> None:
        self.by = ""
        self._loop = asyncio.get_running_loop()
        self._limit: asyncio.Timeout | None = None

    async def complete(self, work: Awaitable[None]) -> None:
        """Does the work to its end. Raises Stopped when a person asked for the end before or meanwhile."""
        limit = self._limit = asyncio.timeout(0 if self.by else None)
        try:
            async with limit:
                await work
        except TimeoutError:
            if not limit.expired():
                raise
            raise Stopped(self.by) from None
        finally:
            self._limit = None

    def ask(self, by: str) -> None:
        """Ends the work in the name of the first person who asked. Call it only in the work's event loop."""
        if by and not self.by:
            self.by = by
            if self._limit is not None:
                self._limit.reschedule(self._loop.time())

    def ask_from_elsewhere(self, by: str) -> None:
        """``ask`` from any thread."""
        self._loop.call_soon_threadsafe(self.ask, by)


# The runs that this process executes.
_stops: dict[UUID, Stop] = {}


@contextmanager
def stoppable(run_id: UUID) -> Iterator[Stop]:
    """While the body lasts, ``stop_here`` can stop the run."""
    stop = _stops[run_id] = Stop()
    try:
        yield stop
    finally:
        # The run may have been handed over and claimed again in this process, with a stop of its own.
        if _stops.get(run_id) is stop:
            del _stops[run_id]


def stop(run_id: UUID, by: str) -> bool:
    """Asks for the end of the run in the name of ``by``; False when it has ended, a person already asked, or another
    program executes it. A run that no process has begun ends at once; one whose process is dead ends with the next
    sweep."""
    with transaction.atomic():
        asked = Run.objects.select_for_update(of=("self",)).filter(pk=run_id, stopped_by="", origin="")
        run = asked.exclude(state=Run.State.FINISHED).first()
        if run is None:
            return False
        run.stopped_by = by
        run.save(update_fields=["stopped_by"])
        events, _lost = end(run, stopped_event(by)) if run.state == Run.State.PENDING else ([], 0)
    if events:
        _tell(run, events)
    stop_here(run_id, by)
    return True


def stop_here(run_id: UUID, by: str) -> None:
    """Stops the run if this process executes it; from any thread. Other processes read the row."""
    stop = _stops.get(run_id)
    if stop is not None:
        stop.ask_from_elsewhere(by)
