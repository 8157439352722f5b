"""One writer for all runs of a process: what they have to say while a statement is under way goes into the next one.

Of fifty runs at once several share a statement, a transaction and a round trip, and the more there is to do, the more
do; the end of a run waits for nobody. Runs do not depend on one another for that: who does not come through with the
others, because its row is locked or its event cannot be stored, goes again alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextvars import Context
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any
from uuid import UUID

import psycopg
from psycopg_pool import AsyncConnectionPool

from memoryapp.database import array
from memoryapp.engine.jsonvalues import written

# A statement holds some 80 kB a run.
MOST = 50
# Nobody sees events that are this late, and further runs have something to say by then.
LINGER = 0.02
# What a run's row says once it has ended, and as what it travels.
ENDING = {
    "state": "text",
    "finished_at": "timestamptz",
    "prompt_version": "text",
    "fallback": "text",
    "candidate_count": "int",
    "selected_count": "int",
    "selected_people_count": "int",
    "selected_artifact_count": "int",
    "turns": "int",
    "tool_calls": "int",
    "input_tokens": "int",
    "output_tokens": "int",
    "cost_usd": "float8",
    "seconds": "float8",
}

# The locks wait for whoever is closing the run or erasing its owner, and find it closed then. With others nobody waits:
# what is locked is passed over, the owner's row too, for events point at it, and what the model was last seen saying.
GOING = """
going AS (
    SELECT run.id, run.owner_id FROM memoryapp_run AS run JOIN memoryapp_chatuser AS owner ON owner.id = run.owner_id
    WHERE run.id = ANY(%(going)s::uuid[]) AND run.state = 'running' FOR KEY SHARE {wait}
)"""
OVER = """
held AS (
    SELECT run.id FROM memoryapp_run AS run JOIN memoryapp_chatuser AS owner ON owner.id = run.owner_id
    WHERE run.id = ANY(%(over)s::uuid[]) AND run.state = 'running' {unless}
    FOR NO KEY UPDATE OF run {wait} FOR KEY SHARE OF owner {wait}
), over AS (
    UPDATE memoryapp_run AS run SET {columns}
    FROM held, json_to_recordset(%(endings)s) AS ending (run uuid, {types})
    WHERE run.id = held.id AND ending.run = held.id RETURNING run.id, run.owner_id
), spoken AS (DELETE FROM memoryapp_runprogress USING over WHERE run_id = over.id)"""
SPOKEN = """
free AS MATERIALIZED (
    SELECT run_id FROM memoryapp_runprogress WHERE run_id = ANY(%(over)s::uuid[]) FOR UPDATE SKIP LOCKED
),"""
SPOKEN_BY_OTHERS = """
    AND (run.id IN (SELECT run_id FROM free)
         OR NOT EXISTS (SELECT FROM memoryapp_runprogress AS said WHERE said.run_id = run.id))"""
RECORD = """
WITH {parts}, told AS ({told}), stored AS (
    INSERT INTO memoryapp_runevent (owner_id, run_id, seq, kind, at, payload)
    SELECT told.owner_id, told.id, said.seq, said.kind, said.at, said.payload::jsonb
    FROM told JOIN unnest(%(runs)s::uuid[], %(seqs)s::int[], %(kinds)b::text[], %(moments)b::timestamptz[],
                          %(payloads)b::text[]) AS said (run, seq, kind, at, payload) ON said.run = told.id
)
SELECT id, owner_id FROM told
"""
# Nobody else writes an event of that number at that moment.
STORED = "SELECT owner_id FROM memoryapp_runevent WHERE run_id = %s AND seq = %s AND at = %s"

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Line:
    """An event as its row holds it; ``payload`` is JSON text."""

    kind: str
    at: datetime
    payload: str


@dataclass(frozen=True, slots=True)
class Entry:
    """What a run has to say; its ``lines`` are numbered from ``first``.

    ``ending`` is what the run's row says now that it has ended, every name of ``ENDING``; empty while it goes on.
    """

    run_id: UUID
    first: int
    lines: Sequence[Line]
    ending: Mapping[str, Any]


Waiting = tuple[Entry, asyncio.Future[int | None]]


class Journal:
    """For one event loop. Of an entry all is stored or nothing."""

    def __init__(self, pool: AsyncConnectionPool) -> None:
        self.pool = pool
        self._waiting: list[Waiting] = []
        self._writing: asyncio.Task[None] | None = None
        self._due = asyncio.Event()

    async def write(self, entry: Entry) -> int | None:
        """Return when the entry is stored: the number of the run's owner; None where the run does not go on.

        Raises what the database raises. Whoever is cancelled is so when it is certain what was stored.
        """
        owner = await self._with_others(entry)
        return await self._alone(entry) if owner is None else owner

    async def _with_others(self, entry: Entry) -> int | None:
        done: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        self._waiting.append((entry, done))
        if entry.ending or len(self._waiting) >= MOST:
            self._due.set()
        if self._writing is None or self._writing.done():
            # What it logs is about no run.
            self._writing = asyncio.create_task(self._write(), context=Context())
            self._writing.add_done_callback(self._leave)
        try:
            return await asyncio.shield(done)
        except asyncio.CancelledError:
            await asyncio.wait([done])
            raise

    async def _alone(self, entry: Entry) -> int | None:
        """Store it, unless that has happened: of a connection that broke nobody knows."""
        last = entry.first + len(entry.lines) - 1
        async with self.pool.connection() as connection:
            asked = await connection.execute(STORED, [entry.run_id, last, entry.lines[-1].at])
            stored = await asked.fetchone()
        return stored[0] if stored else (await self._store([entry], with_others=False)).get(entry.run_id)

    async def _write(self) -> None:
        while self._waiting:
            await self._gather()
            batch, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
            await self._settle(batch)

    def _leave(self, writing: asyncio.Task[None]) -> None:
        """Nobody waits for a writer that was stopped, be it before its first step."""
        if writing.cancelled() or writing.exception():
            waiting, self._waiting = self._waiting, []
            _tell(waiting, {})

    async def _gather(self) -> None:
        """Wait for company, unless there is enough or somebody waits for the end of a run."""
        if len(self._waiting) < MOST and not any(entry.ending for entry, _ in self._waiting):
            late = asyncio.get_running_loop().call_later(LINGER, self._due.set)
            await self._due.wait()
            late.cancel()
        self._due.clear()

    async def _settle(self, batch: Sequence[Waiting]) -> None:
        """Tell each entry of its owner; None to those that are to go alone."""
        owners: Mapping[UUID, int] = {}
        try:
            owners = await self._store([entry for entry, _ in batch], with_others=True)
        except psycopg.Error as error:
            logger.warning("events of %d runs were not stored together: %s", len(batch), type(error).__name__)
        finally:
            _tell(batch, owners)

    async def _store(self, entries: Sequence[Entry], *, with_others: bool) -> Mapping[UUID, int]:
        """The owners of the runs whose entries are stored now."""
        going = [entry.run_id for entry in entries if not entry.ending]
        over = [entry for entry in entries if entry.ending]
        values = {
            **_columns(entries),
            "going": array(going),
            "over": array(entry.run_id for entry in over),
            "endings": written([{"run": entry.run_id, **entry.ending} for entry in over]),
        }
        statement = _statement(bool(going), bool(over), with_others)
        async with self.pool.connection() as connection:
            stored = await connection.cursor(binary=True).execute(statement, values)
            return dict(await stored.fetchall())


def _columns(entries: Sequence[Entry]) -> dict[str, Any]:
    lines = [(entry.run_id, seq, line) for entry in entries for seq, line in enumerate(entry.lines, entry.first)]
    return {
        "runs": array(run for run, _, _ in lines),
        "seqs": array(seq for _, seq, _ in lines),
        "kinds": [line.kind for _, _, line in lines],
        "moments": [line.at for _, _, line in lines],
        "payloads": [line.payload for _, _, line in lines],
    }


@cache
def _statement(going: bool, over: bool, with_others: bool) -> str:
    wait, unless = ("SKIP LOCKED", SPOKEN_BY_OTHERS) if with_others else ("", "")
    columns = ", ".join(f"{name} = ending.{name}" for name in ENDING)
    types = ", ".join(f"{name} {kind}" for name, kind in ENDING.items())
    parts = {"going": GOING.format(wait=wait)} if going else {}
    if over:
        ended = OVER.format(wait=wait, unless=unless, columns=columns, types=types)
        parts["over"] = SPOKEN + ended if with_others else ended
    told = " UNION ALL ".join(f"SELECT id, owner_id FROM {name}" for name in parts)
    return RECORD.format(parts=",".join(parts.values()), told=told)


def _tell(waiting: Sequence[Waiting], owners: Mapping[UUID, int]) -> None:
    for entry, done in waiting:
        if not done.done():
            done.set_result(owners.get(entry.run_id))
