"""The journal stores the events of runs: an entry completely or not at all, and none after a gap.

Each entry is one statement, hence one transaction and one round trip. The statement locks the run, compares the number
of its last event, and inserts the events that follow it. So an entry may be sent again after a connection broke and
nobody knows whether it was stored. When earlier events are missing, because the database lost them, it inserts nothing.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import psycopg
from django.conf import settings
from psycopg_pool import AsyncConnectionPool

from memoryapp.engine.beside import table_beside
from memoryapp.engine.events import Event, ModelProgress, RunFinished, from_payload, raw_message, to_json
from memoryapp.engine.kinds.kind import Totals
from memoryapp.engine.outline import Outline, summarise
from memoryapp.models import Run
from memoryapp.platform import metrics
from memoryapp.platform.telemetry import ended
from memoryapp.platform.webhooks.announcing import RUN_ENDED, RUN_ENDED_ALONE, news_of_run
from memoryapp.runs.notices import Announce, Showing

# Each attempt waits for a connection as long as the pool allows.
TRIES = 3

_SQL = table_beside(__file__)
_RECORD: str = _SQL["record"]
RECORD = _RECORD + "SELECT run.owner_id, last.seq FROM run, last"
# Also fills the columns of the run's row that belong to its end, and announces it to webhooks.
RECORD_AND_END = (
    _RECORD
    + """, ended AS (
    UPDATE memoryapp_run SET {columns} WHERE id IN (SELECT run_id FROM stored)
), announced AS ({announced}), shown AS (
    DELETE FROM memoryapp_runprogress WHERE run_id IN (SELECT run_id FROM stored)
)
SELECT run.owner_id, last.seq FROM run, last"""
).replace("{announced}", RUN_ENDED)
# No other entry writes an event with this number and this time.
LAST_STORED = "SELECT owner_id FROM memoryapp_runevent WHERE run_id = %s AND seq = %s AND at = %s"

logger = logging.getLogger(__name__)


class EventsLost(Exception):
    """The database no longer holds all the events that it had confirmed."""


@dataclass(frozen=True, slots=True)
class EventRow:
    """An event as its row stores it; ``payload`` is JSON text, and so is the raw ``message`` stored beside it."""

    kind: str
    at: datetime
    payload: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """Events of one run, numbered from ``first``. ``ending`` holds the columns of the run's row that its end fills; it
    is empty while the run goes on. Nothing is stored for a run whose state is not ``expected_state``, or that another
    process began again (``attempt``)."""

    run_id: UUID
    first: int
    events: Sequence[EventRow]
    ending: Mapping[str, Any]
    expected_state: str = "running"
    attempt: int = 0

    @property
    def statement(self) -> str:
        """The SQL that stores the entry and returns the run's owner and the number of the last event before."""
        columns = ", ".join(f"{name} = %({name})s" for name in self.ending)
        return RECORD_AND_END.replace("{columns}", columns) if self.ending else RECORD

    @property
    def _news(self) -> dict[str, Any]:
        """A run that had ended before was announced then."""
        if not self.ending:
            return {}
        return {"news": [] if self.expected_state == "finished" else news_of_run(self.ending.get("fallback", ""))}

    @property
    def values(self) -> dict[str, Any]:
        """The parameters of the statement."""
        return {
            "run": self.run_id,
            "expected_state": self.expected_state,
            "attempt": self.attempt,
            "first": self.first,
            "kinds": [event.kind for event in self.events],
            "moments": [event.at for event in self.events],
            "payloads": [event.payload for event in self.events],
            "messages": [event.message for event in self.events],
            **self._news,
            **self.ending,
        }


class Journal:
    """Writes entries through one connection pool, for one event loop."""

    def __init__(self, pool: AsyncConnectionPool) -> None:
        self.pool = pool

    async def write(self, entry: JournalEntry) -> int | None:
        """Returns the id of the run's owner when the entry is on disk; None when the run does not go on. Raises
        EventsLost when earlier events of the run are missing, and what the database raises."""
        for _ in range(TRIES - 1):
            try:
                return await self._store(entry)
            except (psycopg.OperationalError, psycopg.errors.UniqueViolation) as error:
                logger.warning("events of a run are sent again: %s", type(error).__name__)
        return await self._store(entry)

    async def _store(self, entry: JournalEntry) -> int | None:
        async with self.pool.connection() as connection:
            if settings.CELLS == 1:
                row = await (await connection.execute(entry.statement, entry.values)).fetchone()
            else:
                row = await _in_parts(connection, entry)
            if row and row[1] == entry.first - 1:
                return int(row[0])
            # An earlier attempt, whose answer was lost, may have stored the entry and even ended the run.
            last = entry.first + len(entry.events) - 1, entry.events[-1].at
            before = await (await connection.execute(LAST_STORED, [entry.run_id, *last])).fetchone()
        if before:
            return int(before[0])
        if row:
            raise EventsLost(f"The last event of run {entry.run_id} is {row[1]}, not {entry.first - 1}.")
        return None


async def _in_parts(connection: psycopg.AsyncConnection[Any], entry: JournalEntry) -> tuple[int, int] | None:
    """Stores the entry by the same statements one after another. As one, a distributed database would carry what each
    part finds to all of its machines, and fail while any is away."""
    async with connection.transaction():
        values = entry.values
        found = await (await connection.execute(_SQL["run"], values)).fetchone()
        if found is None:
            return None
        owner, evaluation = found
        (last,) = await (await connection.execute(_SQL["last"], values)).fetchone() or (0,)
        if last != entry.first - 1:
            return owner, last
        for seq, event in enumerate(entry.events, start=entry.first):
            written = {"owner": owner, "run": entry.run_id, "seq": seq, **asdict(event)}
            (number,) = await (await connection.execute(_SQL["event"], written)).fetchone() or (0,)
            if event.message:
                await connection.execute(_SQL["reply"], {**written, "event": number})
        if entry.ending:
            columns = ", ".join(f"{name} = %({name})s" for name in entry.ending)
            await connection.execute(f"UPDATE memoryapp_run SET {columns} WHERE id = %(run)s", values)
            await connection.execute("DELETE FROM memoryapp_runprogress WHERE run_id = %(run)s", values)
        if entry.ending and evaluation is None:
            await connection.execute(RUN_ENDED_ALONE, {**values, "owner": owner})
        return owner, last


# Recording: stores the events of a run while it goes on, as entries of the journal.
#
# Events that come between two waits for a model make one entry, so nine events make three entries, and no model waits
# for a commit. An entry is stored as a whole, and the entry with the last event ends the run. If the process dies,
# each event is stored completely or not at all, and no event is stored without those before it.

# Even without an event that is stored at once, people see new events ten times a second.
_LATEST = 0.1

# The range of the database column. An endpoint that reports more tokens must not make a run fail.
_MOST_COUNTED = 2**31 - 1

STORED = "SELECT kind, payload, at FROM memoryapp_runevent WHERE run_id = %s ORDER BY seq"


class RunClosed(Exception):
    """Somebody else closed the run while it was executed."""


class Recorder:
    """The only writer of a run's events, until somebody else closes the run."""

    def __init__(self, run_id: UUID, journal: Journal, announce: Announce, attempt: int = 0) -> None:
        self.run_id = run_id
        self.attempt = attempt
        self.journal = journal
        self.announce = announce
        self.events: list[Event] = []
        self._waiting: list[tuple[datetime, Event]] = []
        # Whether an entry was not stored, so that nothing may be stored behind it.
        self._has_gap = False
        self._writing: asyncio.Task[None] | None = None
        self._urgent = asyncio.Event()
        self._showing = Showing(run_id, journal.pool, announce)

    async def record(self, event: Event) -> None:
        """Stores the event soon; when this returns for the last event, all events are stored. Raises RunClosed when the
        run has ended meanwhile, and errors of the database, at the latest with the last event."""
        try:
            await self.stop_showing()
        finally:
            self.keep([event])
        if self._writing and self._writing.done():
            await self._written()
        if event.is_before_wait:
            self._urgent.set()
        self._writing = self._writing or asyncio.create_task(self._write())
        if isinstance(event, RunFinished):
            await self._written()

    def keep(self, events: Iterable[Event]) -> None:
        """Puts the events behind the others, to be stored with the next one that is recorded, or at the end."""
        self._waiting.extend((datetime.now(UTC), event) for event in events)

    async def _written(self) -> None:
        """Returns when everything is stored; raises what prevented it. Cancelling the caller stops no writing."""
        if self._writing:
            await asyncio.wait([self._writing])
            writing, self._writing = self._writing, None
            writing.result()

    async def _write(self) -> None:
        while self._waiting:
            latest = asyncio.get_running_loop().call_later(_LATEST, self._urgent.set)
            await self._urgent.wait()
            latest.cancel()
            self._urgent.clear()
            waiting, self._waiting = self._waiting, []
            self._has_gap = True
            await self._store(waiting)
            self._has_gap = False
            await self.announce(self.run_id)

    async def _store(self, waiting: Sequence[tuple[datetime, Event]]) -> None:
        first, events = len(self.events) + 1, [*self.events, *(event for _, event in waiting)]
        rows = [EventRow(event.kind, moment, to_json(event), raw_message(event)) for moment, event in waiting]
        ending = _ending(events)
        owner = await self.journal.write(JournalEntry(self.run_id, first, rows, ending, attempt=self.attempt))
        if owner is None:
            raise RunClosed(self.run_id)
        self.events = events
        if ending:
            metrics.run_finished(events, owner=owner)
            ended.run_ended(self.run_id)

    def show(self, progress: ModelProgress) -> None:
        """Shows progress to people who watch; the turn's event will contain it in full."""
        self._showing.take(progress)

    async def stop_showing(self) -> None:
        await self._showing.stop()

    async def close(self, ending: Callable[[Sequence[Event]], RunFinished]) -> None:
        """Ends the run after a fault, after its last stored event, as ``ending`` makes it from those that are stored.
        Reads the events again, because not all may have been."""
        with suppress(psycopg.Error, EventsLost):
            await self._written()
            if not self._has_gap:
                await self._write()
        self._waiting = []
        async with self.journal.pool.connection() as connection:
            rows = await (await connection.execute(STORED, [self.run_id])).fetchall()
        self.events = [from_payload(kind, payload) for kind, payload, _at in rows]
        lasted = (datetime.now(UTC) - rows[0][2]).total_seconds() if rows else 0.0
        totals = replace(summarise(self.events), seconds=round(max(lasted, 0.0), 6))
        await self.record(replace(ending(self.events), totals=totals))


def _ending(events: list[Event]) -> dict[str, Any]:
    """The columns of the run's row that the last event fills; empty for the events before it."""
    last = events[-1]
    if not isinstance(last, RunFinished):
        return {}
    return {"finished_at": datetime.now(UTC), **finished_columns(events, last)}


def finished_columns(events: list[Event], finished: RunFinished) -> dict[str, Any]:
    """The columns of the run's row once it has ended, computed from its events alone."""
    totals = totals_of(events)
    outline = Outline.of(events)
    return {
        "state": Run.State.FINISHED.value,
        "prompt_version": outline.started.prompt_version if outline.started else "",
        "fallback": finished.fallback,
        "candidate_count": len(outline.found.shown) if outline.found else 0,
        "selected_count": len(finished.selected),
        "selected_people_count": len(finished.people),
        "selected_artifact_count": len(finished.artifacts),
        "turns": totals.turns,
        "tool_calls": totals.tool_calls,
        "input_tokens": min(totals.input_tokens, _MOST_COUNTED),
        "output_tokens": min(totals.output_tokens, _MOST_COUNTED),
        "cost_usd": totals.cost_usd,
        "seconds": totals.seconds,
    }


def totals_of(events: Sequence[Event]) -> Totals:
    """The cost of the run so far. Its last event knows the wall time, unless the run was cut short."""
    counted = summarise(events)
    last = events[-1] if events else None
    if isinstance(last, RunFinished) and last.totals != Totals():
        return replace(counted, seconds=last.totals.seconds)
    return counted
