"""Leases: the process that executes a run regularly renews the run's lease, a time in its row. A sweep closes runs
whose lease has lapsed.

One statement renews the leases of all runs of an event loop. With a statement for each run, hundreds of slow runs would
keep the database busy with little else. The rows it returns also name the person who asked for the end of a run.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from uuid import UUID

import psycopg
from psycopg_pool import AsyncConnectionPool

from memoryapp.operations import database
from memoryapp.operations.database import array

# How long a lease lasts without being renewed, and how often it is renewed.
LEASE = timedelta(seconds=15)
RENEWED_EVERY = 3.0
# Rows are locked in one order, so that two processes never wait for each other.
RENEW = """
WITH mine AS (
    SELECT id FROM memoryapp_run WHERE id = ANY(%s::uuid[]) AND state = 'running'
    ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE memoryapp_run SET heartbeat_at = now() FROM mine WHERE memoryapp_run.id = mine.id
RETURNING memoryapp_run.id, stopped_by
"""

logger = logging.getLogger(__name__)


class Leases:
    """The leases of the runs of one event loop."""

    def __init__(self, pool: AsyncConnectionPool) -> None:
        self._pool = pool
        self._runs: dict[UUID, Callable[[str], None]] = {}
        self._renewing: asyncio.Task[None] | None = None

    @contextmanager
    def renewal(self, run_id: UUID, stop: Callable[[str], None]) -> Iterator[None]:
        """Renews the run's lease, which its claim began, while the body lasts.

        ``stop`` is called with the name of the person who asked for the end of the run, or with an empty name.
        """
        self._runs[run_id] = stop
        if self._renewing is None or self._renewing.done():
            self._renewing = asyncio.create_task(self._renew())
        try:
            yield
        finally:
            del self._runs[run_id]

    async def _renew(self) -> None:
        """Runs until there is no run left to renew; the next run starts it again."""
        while self._runs:
            await asyncio.sleep(RENEWED_EVERY)
            if self._runs:
                await self._renew_all()

    async def _renew_all(self) -> None:
        try:
            async with self._pool.connection() as connection:
                rows = await (await connection.execute(RENEW, [array(self._runs)])).fetchall()
        except psycopg.Error as error:
            logger.warning("the leases of %s runs are not renewed: %s", len(self._runs), error)
            return
        for run_id, stopped_by in rows:
            if run_id in self._runs:
                self._runs[run_id](stopped_by)

    async def close(self) -> None:
        """Stops renewing, because the event loop ends."""
        if self._renewing:
            self._renewing.cancel()
            await asyncio.wait((self._renewing,))


@asynccontextmanager
async def open_leases() -> AsyncIterator[Leases]:
    """Leases that end with the body.

    They have a connection of their own: queued behind hundreds of runs, a renewal would come too late for all of them.
    """
    async with database.pool(is_single=True) as pool:
        leases = Leases(pool)
        try:
            yield leases
        finally:
            await leases.close()
