"""A run's life: start, execute, follow, close.

The rows are the truth. ``execute`` claims a run and records its events, those before a wait together; a notice
then says only that there is more. Whoever watches reads rows after the last number they have, so a notice may
be lost or doubled and the page is right all the same. A process that dies leaves a run without a sign of
life; ``close_abandoned`` ends it, and a run nobody began is ``waiting`` for the worker. ``stop`` ends a run that
goes on, whichever process executes it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.db import DatabaseError, transaction
from django.db.models import Count, F, Max, OuterRef, Subquery, Value
from django.db.models.functions import Coalesce, Now
from django.utils import timezone

from memoryapp import metrics, stopping
from memoryapp.claiming import Claim, claim, request_of
from memoryapp.clients import Clients
from memoryapp.engine.events import Event, MediaItem, ModelProgress, RunFinished, from_payload, summarise, to_payload
from memoryapp.journal import EventsLost
from memoryapp.logs import about_run
from memoryapp.models import ApiToken, ChatUser, Evaluation, Prompt, Run, RunEvent, RunProgress
from memoryapp.notices import Announce, say_nothing
from memoryapp.parameters import overridden, strategy_named
from memoryapp.recall import recall
from memoryapp.recording import Recorder, RunClosed, finished_columns
from memoryapp.stopping import Stopped

SILENCE = timedelta(seconds=15)
PATIENCE = timedelta(seconds=3)
LONGEST_QUERY = 4_000
ABANDONED = "The process that worked on this run was stopped, so nothing was chosen."
STOPPED = "{by} stopped this run before the model had chosen."
CRASHED = "A fault in the program ended this run, so nothing was chosen; the log of the server tells which."
LOST = "The database lost events of this run after a crash, so it ends behind the last one before the gap."

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """An event as stored: ``seq`` from 1, ``at`` when it was recorded."""

    seq: int
    at: datetime
    event: Event


def start(
    owner: ChatUser,
    query: str,
    *,
    strategy: str = "flash",
    parameters: Mapping[str, Any] | None = None,
    operator: User | None = None,
    evaluation: Evaluation | None = None,
    token: ApiToken | None = None,
    messages: Sequence[Mapping[str, Any]] | None = None,
    media: Sequence[MediaItem] = (),
    parent: Run | None = None,
    prompt: Prompt | None = None,
    evidence: Sequence[int] = (),
) -> Run:
    """A run waiting to be executed. Raises ParameterError for a strategy or parameter that there is not.

    ``messages`` are the running conversation (``id, role, author, ts, text``), None for the active session;
    ``media`` is stored already. With ``parent`` the run tries that one again, with ``prompt``.
    """
    return Run.objects.create(
        owner=owner,
        query=query.replace("\x00", " ").strip()[:LONGEST_QUERY],
        strategy=strategy_named(strategy),
        parameters=overridden(parameters or {}).as_dict(),
        operator=operator,
        evaluation=evaluation,
        token=token,
        messages=None if messages is None else list(messages),
        media=[asdict(item) for item in media],
        parent=parent,
        prompt=prompt,
        evidence=list(evidence),
    )


async def execute(run_id: UUID, clients: Clients, announce: Announce = say_nothing) -> None:
    """Run to its end what ``start`` made. Does nothing when another process has claimed it."""
    claimed = await claim(run_id, clients.pool)
    if claimed is None:
        return
    with about_run(run_id):
        await _executed(claimed, clients, announce)


async def _executed(claimed: Claim, clients: Clients, announce: Announce) -> None:
    run_id = claimed.run_id
    recorder = Recorder(run_id, clients.journal, announce)
    with stopping.stoppable(run_id) as stop, clients.leases.renewed(run_id, stop):
        try:
            await stop.bound(_follow(recorder, claimed, clients))
        except RunClosed:
            logger.warning("run %s was closed while it was executing", run_id)
        except Stopped as stopped:
            with suppress(RunClosed):
                await asyncio.shield(recorder.close(_stopped(stopped.by)))
        except BaseException as error:
            with suppress(RunClosed):
                await asyncio.shield(recorder.close(_ending(error)))
            raise
        finally:
            await recorder.stop_showing()


async def _follow(recorder: Recorder, claimed: Claim, clients: Clients) -> None:
    async with aclosing(recall(await request_of(claimed, clients.pool), clients)) as events:
        async for event in events:
            if isinstance(event, ModelProgress):
                recorder.show(event)
            else:
                await recorder.record(event)


def _ending(error: BaseException) -> RunFinished:
    if isinstance(error, asyncio.CancelledError | KeyboardInterrupt):
        return _nothing("abandoned", ABANDONED)
    return _nothing("crashed", LOST if isinstance(error, EventsLost) else CRASHED)


def _stopped(by: str) -> RunFinished:
    return _nothing("stopped", STOPPED.format(by=by), stopped_by=by)


def _nothing(fallback: str, note: str, stopped_by: str = "") -> RunFinished:
    return RunFinished(selected=(), dropped=(), fallback=fallback, note=note, stopped_by=stopped_by)


def stored(run_id: UUID) -> list[StoredEvent]:
    """The run's events in order: one query."""
    rows = RunEvent.objects.filter(run_id=run_id).order_by("seq")
    return [
        StoredEvent(row.seq, row.at, from_payload(row.kind, row.payload))
        for row in rows.only("seq", "at", "kind", "payload")
    ]


def waiting(patience: timedelta = PATIENCE) -> list[UUID]:
    """Runs nobody has claimed for ``patience``, oldest first: their process died before it began."""
    late = Run.objects.filter(state=Run.State.PENDING, created_at__lt=Now() - patience)
    return list(late.order_by("created_at").values_list("pk", flat=True)[:100])


def close_abandoned(silence: timedelta = SILENCE) -> int:
    """End every run that gave no sign of life for ``silence``; how many. One transaction a run."""
    quiet = Run.objects.filter(state=Run.State.RUNNING, heartbeat_at__lt=Now() - silence)
    return sum(_try_to_close(run_id, silence) for run_id in quiet.values_list("pk", flat=True)[:500])


def _try_to_close(run_id: UUID, silence: timedelta) -> bool:
    try:
        return _close(run_id, silence)
    except DatabaseError as error:
        # The others are closed all the same.
        logger.error("run %s is not closed: %s", run_id, type(error).__name__)
        return False


def _close(run_id: UUID, silence: timedelta) -> bool:
    with transaction.atomic():
        run = (
            Run.objects.select_for_update(skip_locked=True, of=("self",))
            .filter(pk=run_id, state=Run.State.RUNNING, heartbeat_at__lt=Now() - silence)
            .first()
        )
        if run is None:
            return False
        events, lost = _end(run, _stopped(run.stopped_by) if run.stopped_by else _nothing("abandoned", ABANDONED))
    if lost:
        logger.error("run %s had lost events; %d behind the gap are removed", run_id, lost)
    metrics.run_finished(events, owner=run.owner_id)
    return True


def stop(run_id: UUID, by: str) -> bool:
    """Have the run ended soon, in the name of whoever asks; False when it is over or on its way there.

    A run that nobody has begun ends at once, one whose process is dead with the next sweep.
    """
    with transaction.atomic():
        asked = Run.objects.select_for_update(of=("self",)).filter(pk=run_id, stopped_by="")
        run = asked.exclude(state=Run.State.FINISHED).first()
        if run is None:
            return False
        run.stopped_by = by
        run.save(update_fields=["stopped_by"])
        ended, _lost = _end(run, _stopped(by)) if run.state == Run.State.PENDING else ([], 0)
    if ended:
        metrics.run_finished(ended, owner=run.owner_id)
    stopping.stop_here(run_id, by)
    return True


def _end(run: Run, ending: RunFinished) -> tuple[list[Event], int]:
    """End a locked run behind its last event before any gap: all events now, and how many lay behind the gap."""
    rows = list(RunEvent.objects.filter(run=run).order_by("seq"))
    whole = [row for place, row in enumerate(rows, start=1) if row.seq == place]
    lost = rows[len(whole) :]
    if lost:
        ending = _nothing("crashed", LOST)
        RunEvent.objects.filter(pk__in=[row.pk for row in lost]).delete()
    events = [from_payload(row.kind, row.payload) for row in whole]
    finished = replace(ending, totals=summarise(events))
    events.append(finished)
    payload, at = to_payload(finished), run.finished_at or timezone.now()
    RunEvent.objects.create(owner_id=run.owner_id, run=run, seq=len(events), kind=finished.kind, at=at, payload=payload)
    Run.objects.filter(pk=run.pk).update(**{"finished_at": at, **finished_columns(events, finished)})
    RunProgress.objects.filter(pk=run.pk).delete()
    return events, len(lost)


@dataclass(frozen=True, slots=True)
class Repair:
    """What was done to a run that had lost events: its last whole event, and how many behind the gap were removed."""

    run: UUID
    last: int
    removed: int


def repair(owner: ChatUser | None = None) -> Iterator[Repair]:
    """End finished runs that lost events behind their last whole one. One transaction a run; nothing else changes."""
    finished = Run.objects.filter(state=Run.State.FINISHED)
    mine = finished if owner is None else finished.filter(owner=owner)
    kinds = RunEvent.objects.filter(run=OuterRef("pk")).order_by("-seq").values("kind")
    counted = mine.annotate(
        count=Count("events"), last=Coalesce(Max("events__seq"), 0), kind=Coalesce(Subquery(kinds[:1]), Value(""))
    )
    for run_id in counted.exclude(last=F("count"), kind=RunFinished.kind).values_list("pk", flat=True):
        with transaction.atomic():
            run = Run.objects.select_for_update(of=("self",)).get(pk=run_id)
            events, removed = _end(run, _nothing("crashed", LOST))
        yield Repair(run_id, len(events) - 1, removed)
