"""Notices: messages to followers that a run has new events.

A notice only wakes a follower. The rows are the truth, and a follower without a notice looks again within a second. So
a notice may be lost, doubled or late, and nobody waits long when it cannot be sent. Only the web process sends notices:
the pool of the embedded channel layer belongs to the first event loop that used it, and a worker has a new event loop
for every task.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import psycopg
from channels.layers import get_channel_layer

SECONDS = 0.5
# What an unreachable layer raises; asyncio raises RuntimeError for a pool of another loop that is closed.
FAULTS = (psycopg.Error, OSError, RuntimeError, TimeoutError)

Announce = Callable[[UUID], Awaitable[None]]

logger = logging.getLogger(__name__)


def group_of(run_id: UUID) -> str:
    """The group of the channel layer that receives this run's notices."""
    return f"run.{run_id}"


async def announce(run_id: UUID) -> None:
    """Wakes the followers of this run."""
    try:
        async with asyncio.timeout(SECONDS):
            notice = {"type": "run.more", "run": str(run_id)}
            await get_channel_layer().group_send(group_of(run_id), notice)
    except FAULTS as error:
        logger.warning("no notice for run %s: %s", run_id, error)


async def ignore(run_id: UUID) -> None:
    """Sends no notice; for processes whose runs nobody follows directly."""


class Subscriptions:
    """The notices of runs that other processes execute, for the followers in one event loop.

    All notices come through one channel, because the embedded layer keeps some memory for each channel that was ever
    read.
    """

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
