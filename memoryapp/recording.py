"""Writing a run's events down, one transaction an event, each committed before the next is asked for."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import psycopg
from psycopg.types.json import Jsonb
from psycopg_pool import AsyncConnectionPool

from memoryapp.engine.events import (
    CandidatesFound,
    Event,
    RunFinished,
    RunStarted,
    Totals,
    from_payload,
    summarise,
    to_payload,
)
from memoryapp.models import Run
from memoryapp.notices import Announce

ALIVE = "UPDATE memoryapp_run SET heartbeat_at = now() WHERE id = %s AND state = 'running'"
INSERT = """
INSERT INTO memoryapp_runevent (owner_id, run_id, seq, kind, at, payload)
VALUES (%s, %s, %s, %s, clock_timestamp(), %s)
"""
STORED = "SELECT kind, payload FROM memoryapp_runevent WHERE run_id = %s ORDER BY seq"


class RunClosed(Exception):
    """The run was closed by somebody else while it was executing."""


class Recorder:
    """The one writer of a run's events, as long as the run is not closed by somebody else."""

    def __init__(self, run_id: UUID, owner_id: int, pool: AsyncConnectionPool, announce: Announce) -> None:
        self.run_id = run_id
        self.owner_id = owner_id
        self.pool = pool
        self.announce = announce
        self.events: list[Event] = []

    async def record(self, event: Event) -> None:
        """Store the event and say that there is more. Raises RunClosed when the run has ended meanwhile."""
        events = [*self.events, event]
        async with self.pool.connection() as connection, connection.transaction():
            # A lost last event would be swept as abandoned, so waiting for the disk buys nothing here.
            await connection.execute("SET LOCAL synchronous_commit = off")
            if (await connection.execute(ALIVE, [self.run_id])).rowcount != 1:
                raise RunClosed(self.run_id)
            values = [self.owner_id, self.run_id, len(events), event.kind, Jsonb(to_payload(event))]
            await connection.execute(INSERT, values)
            if isinstance(event, RunFinished):
                await self._finish(connection, events, event)
        self.events = events
        await self.announce(self.run_id)

    async def close(self, event: RunFinished) -> None:
        """End the run after a fault. What is stored is read again, for a commit may have been in doubt."""
        async with self.pool.connection() as connection:
            rows = await (await connection.execute(STORED, [self.run_id])).fetchall()
        self.events = [from_payload(kind, payload) for kind, payload in rows]
        await self.record(event)

    async def _finish(
        self, connection: psycopg.AsyncConnection[Any], events: list[Event], finished: RunFinished
    ) -> None:
        columns = {**finished_columns(events, finished), "finished_at": datetime.now(UTC)}
        assignments = ", ".join(f"{name} = %({name})s" for name in columns)
        await connection.execute(
            f"UPDATE memoryapp_run SET {assignments} WHERE id = %(id)s",
            {**columns, "id": self.run_id},
        )


def finished_columns(events: list[Event], finished: RunFinished) -> dict[str, Any]:
    """What the run's row says once it has ended, taken from its events alone."""
    counted = summarise(events)
    totals = finished.totals if finished.totals != Totals() else counted
    found = next((e.candidates for e in events if isinstance(e, CandidatesFound)), ())
    version = next((e.prompt_version for e in events if isinstance(e, RunStarted)), "")
    return {
        "state": Run.State.FINISHED.value,
        "prompt_version": version,
        "fallback": finished.fallback,
        "candidate_count": sum(candidate.shown for candidate in found),
        "selected_count": len(finished.selected),
        "turns": counted.turns,
        "tool_calls": counted.tool_calls,
        "input_tokens": counted.input_tokens,
        "output_tokens": counted.output_tokens,
        "cost_usd": counted.cost_usd,
        "seconds": totals.seconds,
    }
