"""Progress: the text that a model has sent so far in the current turn, for people who watch. It is one row for each
run, overwritten each time, and never an event.

Words arrive faster than anybody can read them. So they are collected: the first are written a tenth of a second after
the reply began, further ones at most ten times a second, and a turn that ends before that writes nothing. The turn's
event contains everything, so nothing waits for these rows: while runs queue for connections, the words are kept for
later.
"""

from __future__ import annotations

import asyncio
import logging
from uuid import UUID

import psycopg
from psycopg_pool import AsyncConnectionPool

from memoryapp.engine.events import ModelProgress
from memoryapp.engine.storable import storable
from memoryapp.runs.notices import Announce

BETWEEN = 0.1
# The end of a long reply is what changes.
MOST_CHARS = 20_000
# The lock prevents a row for a run that is being closed: nobody would delete it.
WRITE = """
WITH run AS (
    SELECT id, owner_id FROM memoryapp_run WHERE id = %(run)s AND state = 'running' FOR SHARE
)
INSERT INTO memoryapp_runprogress (run_id, owner_id, turn, text, reasoning, at)
SELECT id, owner_id, %(turn)s, %(text)s, %(reasoning)s, clock_timestamp() FROM run
ON CONFLICT (run_id) DO UPDATE
SET turn = excluded.turn, text = excluded.text, reasoning = excluded.reasoning, at = excluded.at
"""

logger = logging.getLogger(__name__)


class Showing:
    """The only writer of a run's progress. Call ``stop`` before the turn's event is recorded; ``take``
    starts it again."""

    def __init__(self, run_id: UUID, pool: AsyncConnectionPool, announce: Announce) -> None:
        self._run_id = run_id
        self._pool = pool
        self._announce = announce
        self._latest: ModelProgress | None = None
        self._over = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def take(self, progress: ModelProgress) -> None:
        """Shows this soon, unless newer progress arrives first."""
        self._latest = progress
        if self._task is None:
            self._over.clear()
            self._task = asyncio.create_task(self._show())

    async def stop(self) -> None:
        """Discards the progress taken so far; none of it is written after this returns."""
        self._latest = None
        if self._task is not None:
            self._over.set()
            await self._task

    async def _show(self) -> None:
        while self._latest and not await self._is_over_within(BETWEEN):
            progress = self._latest
            if progress and not self._pool.get_stats().get("requests_waiting"):
                self._latest = None
                await self._write(progress)
        self._task = None

    async def _is_over_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                return await self._over.wait()
        except TimeoutError:
            return False

    async def _write(self, progress: ModelProgress) -> None:
        words = {"text": storable(progress.text[-MOST_CHARS:]), "reasoning": storable(progress.reasoning[-MOST_CHARS:])}
        try:
            async with self._pool.connection() as connection:
                await connection.execute(WRITE, {"run": self._run_id, "turn": progress.turn, **words})
        except psycopg.Error as error:
            logger.warning("what the model says in run %s is not shown: %s", self._run_id, error)
        else:
            await self._announce(self._run_id)
