"""Connections return to their pool clean or are closed, at whichever await their user is cancelled."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pgvector import HalfVector
from psycopg.pq import PipelineStatus
from psycopg_pool import AsyncConnectionPool

from memoryapp.memory import content
from memoryapp.models import Run, Topic
from memoryapp.platform import database
from memoryapp.platform.llm.clients import offline_embedder
from memoryapp.runs.claims import claim
from memoryapp.runs.journal import EventRow, Journal, JournalEntry
from memoryapp.search import retrieval
from memoryapp.search.profiles import profile_row
from memoryapp.search.similarity import Question
from tests.support.cancelling import cancelled_at
from tests.support.clock import PATIENCE
from tests.support.executing import QUERY, memory_of_three

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("thread_closed")]

# The work has fewer awaits than this.
PLACES = 200


@dataclass(frozen=True, slots=True)
class Scene:
    """A memory, and a run for each place at which it may be cancelled."""

    pool: AsyncConnectionPool
    topic: Topic
    asked: Question
    runs: list[Run]


Work = Callable[[Scene], Coroutine[Any, Any, Any]]


async def set_up(pool: AsyncConnectionPool) -> Scene:
    owner, embedder = await memory_of_three(), offline_embedder()
    vector, row = (await embedder.embed([QUERY]))[0], await profile_row(embedder.profile)
    asked = Question(owner.pk, QUERY, HalfVector(vector), row.pk, row.dimensions)
    runs = [Run(owner=owner, query=QUERY, strategy="flash") for _ in range(PLACES)]
    return Scene(
        pool, await Topic.objects.order_by("pk").alast() or Topic(), asked, await Run.objects.abulk_create(runs)
    )


async def everybody_can_write(pool: AsyncConnectionPool) -> None:
    """Checks that every connection of the pool can read, and that others see what it writes."""
    async with AsyncExitStack() as stack, asyncio.timeout(PATIENCE):
        lent = [await stack.enter_async_context(pool.connection()) for _ in range(pool.max_size)]
        for number, connection in enumerate(lent):
            assert connection.info.pipeline_status == PipelineStatus.OFF
            await connection.execute("INSERT INTO kept VALUES (%s)", [number])
        async with await psycopg.AsyncConnection.connect(database.conninfo()) as other:
            rows = await (await other.execute("SELECT number FROM kept ORDER BY number")).fetchall()
        assert [number for (number,) in rows] == list(range(pool.max_size))
        await lent[0].execute("TRUNCATE kept")


async def read_together(scene: Scene) -> None:
    async with scene.pool.connection() as connection:
        await database.round_trip(connection, ("SELECT pg_sleep(0.002), %(x)s", {"x": 1}), ("SELECT 2", {}))


async def read_topics(scene: Scene) -> None:
    async with scene.pool.connection() as connection:
        assert await content.read_topics(connection, scene.topic.owner_id, [scene.topic.pk])


async def search(scene: Scene) -> None:
    async with scene.pool.connection() as connection:
        assert (await retrieval.search(connection, scene.asked, threshold=0.3)).candidates


async def claim_and_record(scene: Scene) -> None:
    run = scene.runs.pop()
    assert await claim(run.pk, scene.pool)
    await Journal(scene.pool).write(JournalEntry(run.pk, 1, [EventRow("run_started", datetime.now(UTC), "{}")], {}))


@pytest.fixture
async def kept(db: None) -> AsyncIterator[None]:
    """Creates a table for the test's rows."""
    async with await psycopg.AsyncConnection.connect(database.conninfo(), autocommit=True) as connection:
        await connection.execute("CREATE TABLE kept (number int)")
        yield
        await connection.execute("DROP TABLE kept")


@pytest.fixture(params=[False, True], ids=["idle", "busy"])
def loop_busy(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a busy loop psycopg also waits before it sends, so there are more places at which it is cancelled."""
    if request.param:
        monkeypatch.setattr("psycopg.waiting.MAX_BUSY_TIME", 0.0)


@pytest.mark.parametrize("late", [False, True], ids=["waiting", "just served"])
@pytest.mark.parametrize("twice", [False, True], ids=["once", "twice"])
@pytest.mark.parametrize("work", [read_together, read_topics, search, claim_and_record])
@pytest.mark.usefixtures("kept", "loop_busy")
async def test_wherever_somebody_is_cancelled_all_connections_work_on(work: Work, twice: bool, late: bool) -> None:
    async with database.pool() as pool:
        scene = await set_up(pool)
        for place in range(PLACES):
            reached = await cancelled_at(work(scene), place, late=late, twice=twice)
            await everybody_can_write(pool)
            if not reached:
                break
    assert 0 < place < PLACES - 1


@pytest.mark.usefixtures("kept")
async def test_where_many_queue_for_connections_and_are_cancelled_none_is_lost() -> None:
    chance = random.Random(5)
    async with database.pool() as pool:
        scene = await set_up(pool)
        for _ in range(20):
            crowd = [asyncio.create_task(chance.choice([read_together, read_topics, search])(scene)) for _ in range(20)]
            for task in crowd:
                asyncio.get_running_loop().call_later(chance.random() * 0.05, task.cancel)
            await asyncio.wait(crowd)
            await everybody_can_write(pool)


async def test_a_server_that_stays_away_is_tried_again_as_often_as_at_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a pool would notice a returning server only after as much time as it was unreachable."""
    monkeypatch.setattr("psycopg_pool.base.AttemptWithBackoff.INITIAL_DELAY", 0.01)
    monkeypatch.setattr(database, "RECONNECTING", 0.05)
    often, tries = asyncio.Event(), []

    async def refuse(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tries.append(writer)
        writer.close()
        if len(tries) == 40:
            often.set()

    monkeypatch.setattr(database, "conninfo", lambda: f"host={tmp_path} port=5432 dbname=away")
    async with await asyncio.start_unix_server(refuse, tmp_path / ".s.PGSQL.5432"), database.pool():
        await asyncio.wait_for(often.wait(), PATIENCE)


@pytest.mark.parametrize("late", [False, True], ids=["waiting", "just served"])
async def test_after_a_pipeline_was_cut_off_its_statements_work_for_whoever_comes_next(late: bool) -> None:
    """A statement that is prepared behind a cancelled one was not prepared."""
    async with AsyncConnectionPool(database.conninfo(), min_size=1, max_size=1, kwargs={"autocommit": True}) as pool:
        for place in range(PLACES):
            asked = ("SELECT pg_sleep(0.1)::text", {}), (f"SELECT {place}, %(x)s", {"x": 1})
            await prepared(pool, *asked)
            reached = await cancelled_at(prepared(pool, *asked), place, late=late)
            assert await prepared(pool, *asked) == [[("",)], [(place, 1)]]
            if not reached:
                break
    assert 0 < place < PLACES - 1


async def prepared(pool: AsyncConnectionPool, *asked: database.SqlStatement) -> list[list[Any]]:
    """Returns the rows of statements that are prepared at their second use."""
    async with pool.connection() as connection:
        connection.prepare_threshold = 1
        return await database.round_trip(connection, *asked)


async def test_a_timeout_is_a_timeout_whatever_the_end_of_a_pipeline_raises() -> None:
    async with AsyncConnectionPool(database.conninfo(), min_size=1, max_size=1, kwargs={"autocommit": True}) as pool:
        with pytest.raises(TimeoutError):
            async with pool.connection() as connection, asyncio.timeout(0.1), database.pipeline(connection):
                # Psycopg does not know of this query, so it leaves the pipeline while the server is busy.
                connection.pgconn.send_query_params(b"SELECT pg_sleep(5)", None)
        assert connection.closed
        async with pool.connection() as connection:
            assert await (await connection.execute("SELECT 1")).fetchone() == (1,)


async def test_a_connection_that_goes_back_closed_is_no_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async with database.pool(is_single=True) as pool:
        async with pool.connection() as connection:
            await connection.close()
        async with pool.connection() as connection:
            await connection.execute("SELECT 1")
    assert caplog.messages == []
