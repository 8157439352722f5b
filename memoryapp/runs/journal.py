"""The journal stores the events of runs: an entry completely or not at all, and none after a gap.

Each entry is one statement, hence one transaction and one round trip. The statement locks the run, compares the number
of its last event, and inserts the events that follow it. So an entry may be sent again after a connection broke and
nobody knows whether it was stored. When earlier events are missing, because the database lost them, it inserts nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg
from psycopg_pool import AsyncConnectionPool

from memoryapp.outgoing.webhooks.announcing import RUN_ENDED, news_of_run

# Each attempt waits for a connection as long as the pool allows.
TRIES = 3

# The locks wait for a process that closes the run or erases its owner; the run is then found closed.
_RECORD = """
WITH run AS (
    SELECT run.id, run.owner_id, run.evaluation_id
    FROM memoryapp_run AS run JOIN memoryapp_chatuser AS owner ON owner.id = run.owner_id
    WHERE run.id = %(run)s AND run.state = %(expected_state)s AND run.attempt = %(attempt)s
    FOR NO KEY UPDATE OF run FOR KEY SHARE OF owner
), last AS (
    SELECT coalesce(max(seq), 0) AS seq FROM memoryapp_runevent WHERE run_id = %(run)s
), stored AS (
    INSERT INTO memoryapp_runevent (owner_id, run_id, seq, kind, at, payload)
    SELECT run.owner_id, run.id, %(first)s::int - 1 + event.place, event.kind, event.at, event.payload::jsonb
    FROM run JOIN last ON last.seq = %(first)s::int - 1 CROSS JOIN
         unnest(%(kinds)b::text[], %(moments)b::timestamptz[], %(payloads)b::text[])
         WITH ORDINALITY AS event (kind, at, payload, place)
    RETURNING id, run_id, owner_id, seq
), beside AS (
    INSERT INTO memoryapp_rawreply (event_id, owner_id, message)
    SELECT stored.id, stored.owner_id, raw.message
    FROM stored JOIN unnest(%(messages)b::text[]) WITH ORDINALITY AS raw (message, place)
         ON stored.seq = %(first)s::int - 1 + raw.place
    WHERE raw.message <> ''
)"""
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
    """Events of one run, numbered from ``first``.

    ``ending`` holds the columns of the run's row that its end fills; it is empty while the run goes on. Nothing is
    stored for a run whose state is not ``expected_state``, or that another process began again (``attempt``).
    """

    run_id: UUID
    first: int
    events: Sequence[EventRow]
    ending: Mapping[str, Any]
    expected_state: str = "running"
    attempt: int = 0

    @property
    def statement(self) -> str:
        """The SQL that stores the entry. It returns a row with the run's owner and the number of the last event before
        this entry."""
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
        """Returns the id of the run's owner when the entry is on disk; None when the run does not go on.

        Raises EventsLost when earlier events of the run are missing, and what the database raises.
        """
        for _ in range(TRIES - 1):
            try:
                return await self._store(entry)
            except (psycopg.OperationalError, psycopg.errors.UniqueViolation) as error:
                logger.warning("events of a run are sent again: %s", type(error).__name__)
        return await self._store(entry)

    async def _store(self, entry: JournalEntry) -> int | None:
        async with self.pool.connection() as connection:
            row = await (await connection.execute(entry.statement, entry.values)).fetchone()
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
