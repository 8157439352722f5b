"""Runs as tasks of the web process's event loop, over clients that live as long as it does.

A page asks with ``launch`` and is answered at once. Without a loop, or when the process dies before a run
began, the run stays waiting in its row, and the worker executes it within seconds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from concurrent.futures import Future
from contextlib import AsyncExitStack
from typing import Any
from uuid import UUID

from memoryapp import runs
from memoryapp.clients import Clients, open_clients
from memoryapp.notices import say_more

AT_ONCE = 500

logger = logging.getLogger(__name__)


class Runner:
    """One a process. ``bind`` is called inside the event loop that is to do the work."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opening: asyncio.Task[Clients] | None = None
        self._stack = AsyncExitStack()
        self._places = asyncio.Semaphore(AT_ONCE)

    def bind(self) -> None:
        """Use the running loop, and load the models before somebody waits for them. Cheap but the first time."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._begin(self._warm())

    async def _warm(self) -> None:
        await self._clients()

    def launch(self, run_id: UUID) -> bool:
        """Begin the run soon, from any thread; False where there is no loop to do it."""
        if self._loop is None or not self._loop.is_running():
            return False
        self._begin(self._execute(run_id))
        return True

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        assert self._loop
        asyncio.run_coroutine_threadsafe(work, self._loop).add_done_callback(_log_fault)

    async def _execute(self, run_id: UUID) -> None:
        async with self._places:
            await runs.execute(run_id, await self._clients(), say_more)

    async def _clients(self) -> Clients:
        if self._opening is None or (self._opening.done() and self._opening.exception()):
            self._opening = asyncio.ensure_future(self._stack.enter_async_context(open_clients()))
        return await asyncio.shield(self._opening)


def _log_fault(task: Future[None]) -> None:
    if not task.cancelled() and task.exception():
        logger.error("a run ended with a fault", exc_info=task.exception())


runner = Runner()
