"""Connections and the database: clean after a cancel, alive after losses, restarts and killed backends."""

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
from asgiref.sync import async_to_sync, sync_to_async
from channels_postgres import core, db
from django.db import Error, connection, connections
from pgvector import HalfVector
from psycopg.pq import PipelineStatus
from psycopg_pool import AsyncConnectionPool

from memoryapp.engine.chat.client import HttpChat
from memoryapp.intake.invariants import violations
from memoryapp.memory import content
from memoryapp.models import ChatUser, Run, RunEvent, Topic
from memoryapp.platform import channel_layer, database
from memoryapp.platform.channel_layer import PersistentChannelLayer
from memoryapp.platform.database import conninfo
from memoryapp.platform.llm.clients import http_client, offline_embedder
from memoryapp.runs import endings, lifecycle
from memoryapp.runs.claims import claim
from memoryapp.runs.clients import Clients, open_clients
from memoryapp.runs.journal import EventRow, EventsLost, Journal, JournalEntry
from memoryapp.search import retrieval
from memoryapp.search.profiles import profile_row
from memoryapp.search.similarity import Question
from tests.engine.chat.test_cancellable_requests import until
from tests.support.cancelling import cancelled_at
from tests.support.clock import PATIENCE
from tests.support.executing import QUERY, memory_of_three, start
from tests.support.hesitating import Hesitant
from tests.support.provider import Provider, provider

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


# After timeouts, resets and losses of the database, the next runs work at once.


WAVES, AT_ONCE, LONE = 2, 30, 20
HASTY, PATIENT = {"seconds": 1, "turn_seconds": 1}, {"seconds": PATIENCE, "turn_seconds": PATIENCE}


@dataclass(frozen=True, slots=True)
class RecoveryScene:
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
async def scene() -> AsyncIterator[RecoveryScene]:
    memory = await memory_of_three()
    async with provider() as made, open_clients() as opened, http_client() as http:
        chat = HttpChat(http, made.url, "", "peer")
        yield RecoveryScene(memory, made, replace(opened, chat=chat, enricher=chat))


@pytest.mark.parametrize("mood", ["late", "drips", "resets"])
async def test_after_faults_of_the_provider_runs_work_at_once(scene: RecoveryScene, mood: str) -> None:
    scene.provider.mood = mood
    await scene.overload(HASTY)
    await scene.assert_recovered()


async def test_a_provider_slower_than_its_load_leaves_nothing_behind(scene: RecoveryScene) -> None:
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
async def test_after_the_database_was_restarted_runs_work_at_once(scene: RecoveryScene) -> None:
    runs = asyncio.create_task(scene.overload(PATIENT))
    await until(lambda: bool(scene.provider.open))
    await kill_a_backend(random.Random(3))
    with suppress(Exception):
        await runs
    await sync_to_async(connections.close_all)()
    await scene.assert_recovered()


# The embedded channel layer: notices of other processes arrive again after a restart of the database.


LISTENERS = "SELECT pid FROM pg_stat_activity WHERE query LIKE 'LISTEN%%' AND datname = current_database()"


@pytest.fixture
async def layer(transactional_db: None) -> AsyncIterator[PersistentChannelLayer]:
    made = PersistentChannelLayer(**deepcopy(connection.settings_dict))
    yield made
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        if "listen_to_all_channels" in repr(task):
            task.cancel()
    if db.connection_pool is not None:
        await db.connection_pool.close()
        db.connection_pool = None
    core.ASYNCIO_EVENT_CHANNEL_MAPPING.clear()


async def listener(other: psycopg.AsyncConnection[Any], but: int = 0) -> int:
    """Returns the server process through which a layer listens, once there is one other than ``but``."""
    async with asyncio.timeout(PATIENCE):
        while True:
            rows = await (await other.execute(LISTENERS)).fetchall()
            if others := [pid for (pid,) in rows if pid != but]:
                return int(others[0])


async def test_notices_come_after_the_connection_they_came_through_was_lost(
    layer: PersistentChannelLayer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel_layer, "PAUSE", 0.01)
    channel = await layer.new_channel()
    async with await psycopg.AsyncConnection.connect(conninfo(), autocommit=True) as other:
        waiting = asyncio.create_task(layer.receive(channel))
        first = await listener(other)
        await other.execute("SELECT pg_terminate_backend(%s)", [first])
        await listener(other, but=first)
        await layer.send(channel, {"type": "run.more"})
        assert await asyncio.wait_for(waiting, PATIENCE) == {"type": "run.more"}


async def test_those_who_wait_before_there_is_a_listener_share_one(layer: PersistentChannelLayer) -> None:
    channels = [await layer.new_channel() for _ in range(5)]
    async with await psycopg.AsyncConnection.connect(conninfo(), autocommit=True) as other:
        waiting = [asyncio.create_task(layer.receive(channel)) for channel in channels]
        await listener(other)
        for channel in channels:
            await layer.send(channel, {"type": "run.more"})
        await asyncio.wait_for(asyncio.gather(*waiting), PATIENCE)
        assert len(await (await other.execute(LISTENERS)).fetchall()) == 1


# Backends of the database are killed while runs are recorded: all acknowledged events are stored, without gaps.


RUNS_AT_ONCE = 8


class Witness(Journal):
    """Remembers what was acknowledged: the run and the number of each event; ``heard`` is set at each."""

    def __init__(self, pool: AsyncConnectionPool) -> None:
        super().__init__(pool)
        self.acknowledged: set[tuple[UUID, int]] = set()
        self.heard = asyncio.Event()

    async def write(self, entry: JournalEntry) -> int | None:
        owner = await super().write(entry)
        if owner is not None:
            self.acknowledged |= {(entry.run_id, entry.first + place) for place in range(len(entry.events))}
            self.heard.set()
        return owner


@pytest.fixture
def memory(transactional_db: None) -> Iterator[ChatUser]:
    """A memory in a database that waits for its disk, as every database does except that of the tests."""
    name = connection.ops.quote_name(connection.settings_dict["NAME"])
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER DATABASE {name} SET synchronous_commit = on")
    yield async_to_sync(memory_of_three)()
    connections.close_all()
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER DATABASE {name} RESET synchronous_commit")


@pytest.mark.parametrize("kills", [30, pytest.param(500, marks=pytest.mark.thorough)])
def test_killed_backends_lose_nothing_that_was_acknowledged(memory: ChatUser, kills: int) -> None:
    waiting = [lifecycle.start(memory, QUERY).pk for _ in range(kills * RUNS_AT_ONCE)]
    connections.close_all()
    acknowledged = asyncio.run(_run_and_kill(iter(waiting), kills))
    assert len(acknowledged) >= kills
    endings.close_abandoned(timedelta(0))
    begun_again = set(Run.objects.filter(attempt__gt=0).values_list("pk", flat=True))
    kept = {(run, seq) for run, seq in acknowledged if run not in begun_again}
    assert kept <= set(RunEvent.objects.values_list("run_id", "seq"))
    assert not Run.objects.filter(state=Run.State.RUNNING).exists()
    # On a slow machine some runs stay unclaimed, for longer than on a site in use.
    Run.objects.filter(state=Run.State.PENDING).delete()
    assert list(violations()) == []


async def _run_and_kill(waiting: Iterator[UUID], kills: int) -> set[tuple[UUID, int]]:
    over = asyncio.Event()
    async with open_clients() as opened:
        await sync_to_async(connections.close_all)()
        journal = Witness(opened.pool)
        clients = replace(opened, chat=Hesitant(), enricher=None, journal=journal)
        working = [asyncio.create_task(_work(waiting, clients, over)) for _ in range(RUNS_AT_ONCE)]
        chance = random.Random(11)
        for _ in range(kills):
            journal.heard.clear()
            async with asyncio.timeout(PATIENCE):
                await journal.heard.wait()
            await asyncio.sleep(chance.random() * 0.2)  # this moment is what the test is about
            await kill_a_backend(chance)
        over.set()
        await asyncio.gather(*working)
    return journal.acknowledged


async def _work(waiting: Iterator[UUID], clients: Clients, over: asyncio.Event) -> None:
    while not over.is_set():
        for run in waiting:
            # A run that could not be claimed, read or closed is left to the sweep.
            with suppress(psycopg.Error, Error, EventsLost):
                await lifecycle.execute(run, clients)
            break
        else:
            return


async def kill_a_backend(chance: random.Random) -> None:
    """Kills a backend; the database then drops all connections and recovers, and this waits for that."""
    admin = await _connected()
    # Until the server has noticed it, it accepts connections, which it would drop too.
    with pytest.raises(psycopg.OperationalError):
        await _kill_until_dropped(admin, chance)
    await admin.close()
    await (await _connected()).close()


async def _kill_until_dropped(admin: psycopg.AsyncConnection, chance: random.Random) -> None:
    """Kills until the connection is dropped, because killing a backend that had just ended has no effect. Raises
    OperationalError."""
    async with asyncio.timeout(PATIENCE):
        while True:
            await _kill_another(admin, chance)
            await admin.execute("SELECT pg_sleep(1)")


async def _kill_another(admin: psycopg.AsyncConnection, chance: random.Random) -> None:
    asked = """SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend'
               AND datname = current_database() AND pid <> pg_backend_pid()"""
    others = [pid for (pid,) in await (await admin.execute(asked)).fetchall()]
    with suppress(IndexError, ProcessLookupError):
        os.kill(chance.choice(others), signal.SIGKILL)


async def _connected() -> psycopg.AsyncConnection:
    """Returns a connection as soon as the database accepts one again."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                made = await psycopg.AsyncConnection.connect(conninfo(), autocommit=True)
                await made.execute("SELECT 1")
            except psycopg.OperationalError:
                await asyncio.sleep(0.05)  # no event announces the end of a recovery
            else:
                return made
