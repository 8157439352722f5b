"""Notices: messages to followers that a run has new events.

A notice only wakes a follower. The rows are the truth, and a follower without a notice looks again within a second. So
a notice may be lost, doubled or late, and nobody waits long when it cannot be sent. Only the web process sends notices:
the pool of the embedded channel layer belongs to the first event loop that used it, and a worker has a new event loop
for every task."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import psycopg
from channels.layers import get_channel_layer
from psycopg_pool import AsyncConnectionPool

from memoryapp.engine.beside import table_beside
from memoryapp.engine.events import ModelProgress
from memoryapp.engine.json_values import storable

SECONDS = 0.5
# What an unreachable layer raises; asyncio raises RuntimeError for a pool of another loop that is closed.
FAULTS = (psycopg.Error, OSError, RuntimeError, TimeoutError)

Announce = Callable[[UUID], Awaitable[None]]

logger = logging.getLogger(__name__)


def group_of(run_id: UUID) -> str:
    return f"run.{run_id}"


async def announce(run_id: UUID) -> None:
    """Wakes the followers of this run."""
    try:
        async with asyncio.timeout(SECONDS):
            notice = {"type": "run.more", "run": str(run_id)}
            await get_channel_layer().group_send(group_of(run_id), notice)
    except FAULTS as error:
        logger.warning("no notice for run %s: %s", run_id, error)


async def is_set_within(event: asyncio.Event, seconds: float) -> bool:
    """Waits until the event is set, at most so long; returns whether it is."""
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False


async def ignore(run_id: UUID) -> None:
    """Sends no notice; for processes whose runs nobody follows directly."""


class Subscriptions:
    """The notices of runs that other processes execute, for the followers in one event loop. All notices come through
    one channel, because the embedded layer keeps some memory for each channel that was ever read."""

    def __init__(self) -> None:
        self._channel = ""
        self._reading: asyncio.Task[None] | None = None
        self._followers: defaultdict[UUID, set[asyncio.Event]] = defaultdict(set)
        self._joined: dict[UUID, str] = {}

    @asynccontextmanager
    async def following(self, run_id: UUID, more: asyncio.Event) -> AsyncIterator[None]:
        """Sets ``more`` at each notice of the run; never while the channel layer is unreachable."""
        self._followers[run_id].add(more)
        try:
            if run_id not in self._joined:
                await self._join(run_id)
            yield
        finally:
            self._followers[run_id].discard(more)
            if not self._followers[run_id]:
                del self._followers[run_id]
                await self._leave(run_id)

    def close(self) -> None:
        if self._reading:
            self._reading.cancel()

    async def _join(self, run_id: UUID) -> None:
        layer = get_channel_layer()
        try:
            async with asyncio.timeout(SECONDS):
                if self._reading is None or self._reading.done():
                    self._channel = await layer.new_channel()
                    self._reading = asyncio.create_task(self._read(layer, self._channel))
                self._joined[run_id] = self._channel
                await layer.group_add(group_of(run_id), self._channel)
        except FAULTS as error:
            logger.warning("the channel layer is out of reach: %s", error)

    async def _leave(self, run_id: UUID) -> None:
        channel = self._joined.pop(run_id, "")
        try:
            async with asyncio.timeout(SECONDS):
                if channel:
                    await get_channel_layer().group_discard(group_of(run_id), channel)
        except FAULTS as error:
            logger.warning("the channel layer is out of reach: %s", error)

    async def _read(self, layer: Any, channel: str) -> None:
        """Ends when the layer fails. The next follower starts it again; the present ones look again by themselves."""
        try:
            while True:
                notice = await layer.receive(channel)
                for more in self._followers.get(UUID(notice["run"]), ()):
                    more.set()
        except FAULTS as error:
            logger.warning("the channel layer is out of reach: %s", error)


# Progress: the text that a model has sent so far in the current turn, for people who watch. It is one row for each
# run, overwritten each time, and never an event.
#
# Words arrive faster than anybody can read them. So they are collected: the first are written a tenth of a second
# after the reply began, further ones at most ten times a second, and a turn that ends before that writes nothing. The
# turn's event contains everything, so nothing waits for these rows: while runs queue for connections, the words are
# kept for later.

BETWEEN = 0.1
# The end of a long reply is what changes.
MOST_CHARS = 20_000
_SQL = table_beside(__file__)
WRITE: str = _SQL["write"]


class Showing:
    """The only writer of a run's progress. Call ``stop`` before the turn's event is stored; ``take`` restarts it."""

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
        while self._latest and not await is_set_within(self._over, BETWEEN):
            progress = self._latest
            if progress and not self._pool.get_stats().get("requests_waiting"):
                self._latest = None
                await self._write(progress)
        self._task = None

    async def _write(self, progress: ModelProgress) -> None:
        words = {"text": storable(progress.text[-MOST_CHARS:]), "reasoning": storable(progress.reasoning[-MOST_CHARS:])}
        try:
            async with self._pool.connection() as connection:
                await connection.execute(WRITE, {"run": self._run_id, "turn": progress.turn, **words})
        except psycopg.Error as error:
            logger.warning("what the model says in run %s is not shown: %s", self._run_id, error)
        else:
            await self._announce(self._run_id)
