"""A run's events as they are recorded, whichever process records them.

The rows are read after the last number that was sent. A run of this process wakes its followers, one of another by the
channel layer; without a notice they look again by themselves. So nothing is lost when a connection is cut: ask again
with the last number.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from psycopg.rows import class_row
from psycopg_pool import AsyncConnectionPool

from memoryapp.engine.events import RunFinished, to_wire
from memoryapp.runner import Runner

LOOK_AGAIN = 1.0
HEARTBEAT = 10.0
AT_A_TIME = 100
AFTER = """
SELECT seq, kind, at, payload::text AS stored FROM memoryapp_runevent
WHERE run_id = %s AND seq > %s ORDER BY seq LIMIT %s
"""
STILL = """
SELECT 1 FROM memoryapp_run AS run
WHERE run.id = %s AND NOT EXISTS (SELECT 1 FROM memoryapp_apitoken WHERE id = %s AND revoked_at IS NOT NULL) AND (
    run.state <> 'finished'
    OR EXISTS (SELECT 1 FROM memoryapp_runevent AS event WHERE event.run_id = run.id AND event.seq > %s)
)
"""


@dataclass(frozen=True, slots=True)
class Line:
    """An event as it goes out; ``stored`` is its JSON text as the row holds it."""

    seq: int
    kind: str
    at: datetime
    stored: str

    @property
    def payload(self) -> str:
        """JSON text in one line."""
        return to_wire(self.kind, self.stored)


async def lines(pool: AsyncConnectionPool, run_id: UUID, after: int = 0) -> AsyncGenerator[Line, None]:
    """The events recorded by now with a number above ``after``, a hundred in memory at a time."""
    while True:
        async with pool.connection() as connection:
            cursor = connection.cursor(row_factory=class_row(Line))
            found = await (await cursor.execute(AFTER, [run_id, after, AT_A_TIME])).fetchall()
        for line in found:
            yield line
        if len(found) < AT_A_TIME:
            return
        after = found[-1].seq


async def follow(
    runner: Runner, run_id: UUID, after: int = 0, *, token: int | None = None
) -> AsyncGenerator[Line | None, None]:
    """Each event with a number above ``after`` until the last one; None when nothing was to be said for a while.

    It also ends once the token with that id was revoked.
    """
    pool = (await runner.clients()).pool
    quiet = 0.0
    async with _notices(runner, run_id) as more:
        while True:
            more.clear()
            async with aclosing(lines(pool, run_id, after)) as recorded:
                async for line in recorded:
                    yield line
                    after, quiet = line.seq, 0.0
                    if line.kind == RunFinished.kind:
                        return
            if not await _woken(more):
                quiet += LOOK_AGAIN
                if await _is_over(pool, run_id, token, after):
                    return
            if quiet >= HEARTBEAT:
                quiet = 0.0
                yield None


@asynccontextmanager
async def _notices(runner: Runner, run_id: UUID) -> AsyncIterator[asyncio.Event]:
    """An event that is set whenever the run has more to show."""
    with runner.listening(run_id) as more:
        if runner.executes(run_id):
            yield more
            return
        async with runner.elsewhere.following(run_id, more):
            yield more


async def _woken(more: asyncio.Event) -> bool:
    try:
        async with asyncio.timeout(LOOK_AGAIN):
            return await more.wait()
    except TimeoutError:
        return False


async def _is_over(pool: AsyncConnectionPool, run_id: UUID, token: int | None, after: int) -> bool:
    """Whether there is nothing to wait for: the run was erased, the token revoked, or the last event has been sent."""
    async with pool.connection() as connection:
        return await (await connection.execute(STILL, [run_id, token, after])).fetchone() is None
