"""Executes runs as tasks of the web process's event loop, with clients that all runs share.

A page starts a run with ``launch``, which returns at once. The API waits with ``complete``; the run goes on even when
the client disconnects. Without an event loop, or when the process dies before a run began, nobody claims the run's row,
and the worker executes the run within seconds."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future
from contextlib import AsyncExitStack, contextmanager
from typing import Any
from uuid import UUID

import psycopg
from django.conf import settings
from django.db import DatabaseError

from memoryapp.engine.cells import within
from memoryapp.engine.chat.attempt import unanswered
from memoryapp.engine.sight import looking
from memoryapp.runs import lifecycle
from memoryapp.runs.clients import Clients, exempt_loaded, open_clients
from memoryapp.runs.notices import Subscriptions, announce

AT_ONCE = 500

logger = logging.getLogger(__name__)


class Runner:
    """One for each process. Call ``bind`` inside the event loop that is to execute the runs."""

    def __init__(self) -> None:
        # The loop that executes runs; None before ``bind``.
        self.loop: asyncio.AbstractEventLoop | None = None
        self._opening: asyncio.Task[Clients] | None = None
        self._stack = AsyncExitStack()
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._listening: defaultdict[UUID, set[asyncio.Event]] = defaultdict(set)
        self._executing: set[UUID] = set()
        self.elsewhere = Subscriptions()

    def bind(self) -> None:
        """Uses the running loop, and loads the models before anybody waits for them. Later calls cost nothing."""
        if self.loop is None:
            self.loop = asyncio.get_running_loop()
            self._schedule(self._warm())

    async def _warm(self) -> None:
        await self.clients()
        exempt_loaded()

    def launch(self, run_id: UUID) -> bool:
        """Starts the run soon, from any thread; False when there is no loop to execute it."""
        return self._submit(run_id) is not None

    async def complete(self, run_id: UUID) -> None:
        """Starts the run, and returns when this process has finished executing it. The run has then ended, unless
        another process claimed it. Cancelling the caller does not cancel the run."""
        over = asyncio.Event()
        loop = asyncio.get_running_loop()
        running = self._submit(run_id)
        if running:
            running.add_done_callback(lambda _: loop.call_soon_threadsafe(over.set))
            await over.wait()

    def executes(self, run_id: UUID) -> bool:
        """Whether this process executes the run, so that its notices need no channel layer."""
        return run_id in self._executing

    @property
    def is_busy(self) -> bool:
        """Whether this process executes any run."""
        return bool(self._executing)

    @contextmanager
    def listening(self, run_id: UUID) -> Iterator[asyncio.Event]:
        """An event that is set whenever a run of this process may have new events. For this loop only."""
        more = asyncio.Event()
        self._listening[run_id].add(more)
        try:
            yield more
        finally:
            self._listening[run_id].discard(more)
            if not self._listening[run_id]:
                del self._listening[run_id]

    async def clients(self) -> Clients:
        """The clients that all runs of this process share."""
        if self._opening is None or (self._opening.done() and self._opening.exception()):
            opened = open_clients(searches_kept=settings.SEARCH_CACHE_TTL)
            with looking(), within(None):
                self._opening = asyncio.ensure_future(self._stack.enter_async_context(opened))
        return await asyncio.shield(self._opening)

    @property
    def unanswered(self) -> int:
        """How many requests to providers in a row ended without a response."""
        is_open = self._opening and self._opening.done() and not self._opening.exception()
        http = self._opening.result().http if self._opening and is_open else None
        return unanswered(http) if http else 0

    async def close(self) -> None:
        """Closes the clients; for a loop that ends before its process does."""
        self.elsewhere.close()
        await self._stack.aclose()

    def _submit(self, run_id: UUID) -> Future[None] | None:
        if self.loop is None or not self.loop.is_running():
            return None
        self._executing.add(run_id)
        running = self._schedule(self._execute(run_id))
        running.add_done_callback(lambda _: self._executing.discard(run_id))
        return running

    def _schedule(self, work: Coroutine[Any, Any, None]) -> Future[None]:
        assert self.loop
        # What many runs share is not of the sight of the request that happens to open it.
        with looking():
            begun = asyncio.run_coroutine_threadsafe(work, self.loop)
        begun.add_done_callback(_log_fault)
        return begun

    async def _execute(self, run_id: UUID) -> None:
        async with self._slots:
            await lifecycle.execute(run_id, await self.clients(), self._announce)

    async def _announce(self, run_id: UUID) -> None:
        for more in self._listening.get(run_id, ()):
            more.set()
        await announce(run_id)


def _log_fault(task: Future[None]) -> None:
    if not task.cancelled() and task.exception():
        logger.error("a run ended with a fault", exc_info=task.exception())


runner = Runner()


# Checks whether this process can record runs and reach its models.
#
# Recording is tested with the connections that runs use, because other connections to the same database may work
# while these do not. A provider that cannot be reached is reported, but the process stays in service: otherwise all
# processes would be taken out of service at once.

SECONDS = 2.0
# Fewer failures in a row may be chance.
FAILURES = 5
# Changes no row, and fails when the database accepts no writes.
_WRITE = "UPDATE memoryapp_run SET heartbeat_at = heartbeat_at WHERE false"


def recording(runner: Runner) -> str:
    """``ok``, or the reason why no run can be recorded. Call it from another thread than that of the runs."""
    if runner.loop is None:
        return "ok"
    written = asyncio.run_coroutine_threadsafe(_write(runner), runner.loop)
    try:
        written.result(SECONDS * 2)
    except TimeoutError:
        written.cancel()
        return "the event loop is busy or the database does not answer"
    except (psycopg.Error, DatabaseError) as error:
        return f"nothing can be written ({type(error).__name__})"
    return "ok"


async def _write(runner: Runner) -> None:
    with within(0):
        async with asyncio.timeout(SECONDS), (await runner.clients()).pool.connection(SECONDS) as connection:
            await connection.execute(_WRITE)


def provider(runner: Runner) -> str:
    """``ok``, or how many calls in a row got no answer from the providers."""
    failed = runner.unanswered
    return f"no answer to the last {failed} calls" if failed >= FAILURES else "ok"
