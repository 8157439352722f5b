"""After timeouts, resets and losses of the database, the next runs work at once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from datetime import timedelta

import psycopg
import pytest
from asgiref.sync import sync_to_async
from django.db import connections

from memoryapp.engine.chat.client import HttpChat
from memoryapp.intake.invariants import violations
from memoryapp.models import ChatUser, Run
from memoryapp.platform.database import conninfo
from memoryapp.platform.llm.clients import http_client
from memoryapp.runs import endings, lifecycle
from memoryapp.runs.clients import Clients, open_clients
from tests.engine.chat.test_cancellable_requests import until
from tests.operations.test_database_kills import kill_a_backend
from tests.support.clock import PATIENCE
from tests.support.executing import QUERY, memory_of_three, start
from tests.support.provider import Provider, provider

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("thread_closed")]

WAVES, AT_ONCE, LONE = 2, 30, 20
HASTY, PATIENT = {"seconds": 1, "turn_seconds": 1}, {"seconds": PATIENCE, "turn_seconds": PATIENCE}


@dataclass(frozen=True, slots=True)
class Scene:
    """A memory, a provider, and clients with connections of their own to it."""

    memory: ChatUser
    provider: Provider
    clients: Clients

    @property
    def idle(self) -> int:
        """Returns how many connections to the provider are kept open; -1 while others are in use."""
        pool = self.clients.chat._client._transport._pool  # type: ignore[attr-defined]
        left = [each for each in pool.connections if not each.is_closed()]
        return len(left) if not pool._requests and all(each.is_idle() for each in left) else -1

    async def overload(self, parameters: dict[str, float]) -> None:
        """Starts waves of runs, each of which ends in some way."""
        for _ in range(WAVES):
            asked = [await start(self.memory, QUERY, parameters=parameters) for _ in range(AT_ONCE)]
            ended = await asyncio.gather(*(self._one(run) for run in asked), return_exceptions=True)
            assert {type(error) for error in ended if error} <= {psycopg.OperationalError}

    async def _one(self, run: Run) -> None:
        with suppress(psycopg.Error):
            await lifecycle.execute(run.pk, self.clients)

    async def assert_recovered(self) -> None:
        """Checks that single runs work one after another, and that no connection stays open."""
        self.provider.mood = "well"
        lone = [await start(self.memory, QUERY, parameters=PATIENT) for _ in range(LONE)]
        for run in lone:
            await lifecycle.execute(run.pk, self.clients)
            await run.arefresh_from_db()
            assert (run.fallback, run.selected_count > 0, run.input_tokens) == ("", True, 27_000)
        await sync_to_async(endings.close_abandoned)(timedelta(0))
        for run_id in await sync_to_async(lifecycle.unclaimed)(timedelta(0)):
            # As the worker does with runs that nobody could claim.
            await lifecycle.execute(run_id, self.clients)
        assert not await Run.objects.exclude(state=Run.State.FINISHED).aexists()
        assert await sync_to_async(lambda: list(violations()))() == []
        await until(lambda: len(self.provider.open) == self.idle)
        await self._every_connection_works()

    async def _every_connection_works(self) -> None:
        pool = self.clients.pool
        asked = "SELECT count(*) FROM pg_stat_activity WHERE pid = ANY(%s) AND state = 'idle'"
        async with AsyncExitStack() as stack, asyncio.timeout(PATIENCE):
            lent = [await stack.enter_async_context(pool.connection()) for _ in range(pool.max_size)]
            pids = [each.info.backend_pid for each in lent]
            async with await psycopg.AsyncConnection.connect(conninfo()) as other:
                assert await (await other.execute(asked, [pids])).fetchone() == (pool.max_size,)
        assert pool.get_stats()["pool_size"] == pool.max_size


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    memory = await memory_of_three()
    async with provider() as made, open_clients() as opened, http_client() as http:
        chat = HttpChat(http, made.url, "", "peer")
        yield Scene(memory, made, replace(opened, chat=chat, enricher=chat))


@pytest.mark.parametrize("mood", ["late", "drips", "resets"])
async def test_after_faults_of_the_provider_runs_work_at_once(scene: Scene, mood: str) -> None:
    scene.provider.mood = mood
    await scene.overload(HASTY)
    await scene.assert_recovered()


async def test_a_provider_slower_than_its_load_leaves_nothing_behind(scene: Scene) -> None:
    """Some runs are answered in time, and some are not."""
    scene.provider.mood = "late"
    await scene.overload({"seconds": 4, "turn_seconds": 1.6})
    await scene.assert_recovered()


@pytest.fixture
def reconnecting(transactional_db: None) -> Iterator[None]:
    """Ensures that the fixture that empties the tables finds no broken connection."""
    yield
    connections.close_all()


@pytest.mark.usefixtures("reconnecting")
async def test_after_the_database_was_restarted_runs_work_at_once(scene: Scene) -> None:
    runs = asyncio.create_task(scene.overload(PATIENT))
    await until(lambda: bool(scene.provider.open))
    await kill_a_backend(random.Random(3))
    with suppress(Exception):
        await runs
    await sync_to_async(connections.close_all)()
    await scene.assert_recovered()
