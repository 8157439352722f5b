"""A run's life: start, execute, follow, close.

The rows are the truth. ``execute`` claims a run and records each event in a transaction of its own; a notice
then says only that there is more. Whoever watches reads rows after the last number they have, so a notice may
be lost or doubled and the page is right all the same. A process that dies leaves a run without a sign of
life; ``close_abandoned`` ends it, and a run nobody began is ``waiting`` for the worker.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models.functions import Now
from django.utils import timezone
from psycopg.rows import dict_row

from memoryapp.clients import Clients
from memoryapp.engine.events import Event, RunFinished, from_payload, summarise, to_payload
from memoryapp.models import ChatUser, Evaluation, Run, RunEvent
from memoryapp.notices import Announce, say_nothing
from memoryapp.parameters import overridden, strategy_named, with_defaults
from memoryapp.recall import RecallRequest, recall
from memoryapp.recording import Recorder, RunClosed, finished_columns

HEARTBEAT = 3.0
SILENCE = timedelta(seconds=15)
PATIENCE = timedelta(seconds=3)
LONGEST_QUERY = 4_000
ABANDONED = "The process that worked on this run was stopped, so nothing was chosen."
CRASHED = "A fault in the program ended this run, so nothing was chosen; the log of the server tells which."

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
) -> Run:
    """A run waiting to be executed. Raises ParameterError for a strategy or parameter that there is not."""
    return Run.objects.create(
        owner=owner,
        query=query.replace("\x00", " ").strip()[:LONGEST_QUERY],
        strategy=strategy_named(strategy),
        parameters=overridden(parameters or {}).as_dict(),
        operator=operator,
        evaluation=evaluation,
    )


async def execute(run_id: UUID, clients: Clients, announce: Announce = say_nothing) -> None:
    """Run to its end what ``start`` made. Does nothing when another process has claimed it."""
    request = await _claim(run_id, clients)
    if request is None:
        return
    recorder = Recorder(run_id, request.owner_id, clients.pool, announce)
    async with _heartbeat(run_id, clients):
        try:
            async with aclosing(recall(request, clients)) as events:
                async for event in events:
                    await recorder.record(event)
        except RunClosed:
            logger.warning("run %s was closed while it was executing", run_id)
        except BaseException as error:
            with suppress(RunClosed):
                await asyncio.shield(recorder.close(_ending(error)))
            raise


def _ending(error: BaseException) -> RunFinished:
    stopped = isinstance(error, asyncio.CancelledError | KeyboardInterrupt)
    fallback, note = ("abandoned", ABANDONED) if stopped else ("crashed", CRASHED)
    return RunFinished(selected=(), dropped=(), fallback=fallback, note=note)


async def _claim(run_id: UUID, clients: Clients) -> RecallRequest | None:
    """Compare and set: of two that try, one gets the request."""
    async with clients.pool.connection() as connection:
        cursor = connection.cursor(row_factory=dict_row)
        await cursor.execute(
            "UPDATE memoryapp_run SET state = 'running', heartbeat_at = now() FROM memoryapp_chatuser AS u"
            " WHERE memoryapp_run.id = %s AND state = 'pending' AND u.id = owner_id"
            " RETURNING owner_id, query, strategy, parameters, u.profile",
            [run_id],
        )
        row = await cursor.fetchone()
    if row is None:
        return None
    return RecallRequest(**{**row, "parameters": with_defaults(row["parameters"])}, today=datetime.now(UTC).date())


@asynccontextmanager
async def _heartbeat(run_id: UUID, clients: Clients) -> AsyncIterator[None]:
    task = asyncio.create_task(_beat(run_id, clients))
    try:
        yield
    finally:
        task.cancel()


async def _beat(run_id: UUID, clients: Clients) -> None:
    while True:
        await asyncio.sleep(HEARTBEAT)
        try:
            async with clients.pool.connection() as connection:
                await connection.execute("UPDATE memoryapp_run SET heartbeat_at = now() WHERE id = %s", [run_id])
        except psycopg.Error as error:
            logger.warning("no sign of life for run %s: %s", run_id, error)


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
    return sum(_close(run_id, silence) for run_id in quiet.values_list("pk", flat=True)[:500])


def _close(run_id: UUID, silence: timedelta) -> bool:
    with transaction.atomic():
        run = (
            Run.objects.select_for_update(skip_locked=True, of=("self",))
            .filter(pk=run_id, state=Run.State.RUNNING, heartbeat_at__lt=Now() - silence)
            .first()
        )
        if run is None:
            return False
        events = [item.event for item in stored(run_id)]
        finished = RunFinished(selected=(), dropped=(), fallback="abandoned", note=ABANDONED, totals=summarise(events))
        RunEvent.objects.create(
            owner_id=run.owner_id,
            run=run,
            seq=len(events) + 1,
            kind=finished.kind,
            at=timezone.now(),
            payload=to_payload(finished),
        )
        columns = finished_columns([*events, finished], finished)
        Run.objects.filter(pk=run_id).update(**columns, finished_at=timezone.now())
    return True
