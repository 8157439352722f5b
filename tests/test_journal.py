"""What many runs have to say at once: stored together, and none of them at another one's mercy."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from psycopg_pool import AsyncConnectionPool, PoolClosed

from memoryapp.database import conninfo, pool
from memoryapp.engine.events import RunFinished, RunStarted
from memoryapp.journal import ENDING, MOST, Entry, Journal, Line
from memoryapp.models import ChatUser, Run, RunEvent
from memoryapp.recording import finished_columns

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("thread_closed")]

STARTED, FINISHED = RunStarted("flash", "q", {}, "rerank-en-0", "", ""), RunFinished((), (), "", "")


@pytest.fixture
async def connections(db: None) -> AsyncIterator[AsyncConnectionPool]:
    async with pool() as opened:
        yield opened


async def made(count: int, state: str = Run.State.RUNNING) -> list[Run]:
    owners = [await ChatUser.objects.acreate(name=name) for name in ("anna", "boris")]
    return [
        await Run.objects.acreate(owner=owners[number % 2], query="q", strategy="flash", state=state)
        for number in range(count)
    ]


def entry(run: Run, first: int = 1, payload: str = "{}", ending: dict[str, Any] | None = None) -> Entry:
    moment = datetime.now(UTC)
    lines = [Line("run_started", moment, payload), Line("turn_started", moment, "{}")]
    return Entry(run.pk, first, lines, ending or {})


async def transactions() -> list[int]:
    """How many events each transaction stored that stored any."""
    async with await psycopg.AsyncConnection.connect(conninfo(), autocommit=True) as connection:
        rows = await connection.execute("SELECT count(*) FROM memoryapp_runevent GROUP BY xmin::text")
        return [count for (count,) in await rows.fetchall()]


@asynccontextmanager
async def holding(statement: str, values: Sequence[Any] = ()) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    """Somebody else's transaction, with the locks the statement takes."""
    async with await psycopg.AsyncConnection.connect(conninfo()) as connection:
        await connection.execute(statement, values)
        yield connection
        await connection.rollback()


async def somebody_waits_for_a_lock() -> None:
    asked = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    async with await psycopg.AsyncConnection.connect(conninfo(), autocommit=True) as connection, asyncio.timeout(20):
        waiting = 0
        while not waiting:
            (waiting,) = await (await connection.execute(asked)).fetchone() or (0,)


async def test_what_runs_say_at_once_is_one_transaction_and_tells_each_its_owner(
    connections: AsyncConnectionPool,
) -> None:
    runs, journal = await made(6), Journal(connections)
    owners = await asyncio.gather(*(journal.write(entry(run)) for run in runs))
    assert list(owners) == [run.owner_id for run in runs]
    assert await transactions() == [12]
    stored = [event async for event in RunEvent.objects.values_list("run_id", "seq", "owner_id", "kind")]
    assert set(stored) == {
        (run.pk, seq, run.owner_id, kind) for run in runs for seq, kind in ((1, "run_started"), (2, "turn_started"))
    }
    assert len(stored) == 12


async def test_a_crowd_goes_in_parts(connections: AsyncConnectionPool) -> None:
    runs, journal = await made(2 * MOST + 3), Journal(connections)
    await asyncio.gather(*(journal.write(entry(run)) for run in runs))
    assert sorted(await transactions()) == [6, 2 * MOST, 2 * MOST]


async def test_the_end_of_one_run_takes_along_what_others_say(connections: AsyncConnectionPool) -> None:
    (ends, goes), journal = await made(2), Journal(connections)
    ending = {**finished_columns([STARTED, FINISHED], FINISHED), "finished_at": datetime.now(UTC)}
    assert set(ending) == set(ENDING)
    changed = {**ending, "turns": 3, "cost_usd": 0.25, "fallback": "no_vectors", "selected_people_count": 2}
    await asyncio.gather(journal.write(entry(goes)), journal.write(entry(ends, ending=changed)))
    assert await transactions() == [4]
    stored = await Run.objects.filter(pk=ends.pk).values(*ENDING).aget()
    assert stored == changed
    await goes.arefresh_from_db()
    assert goes.state == Run.State.RUNNING


async def test_who_was_closed_is_told_and_holds_nobody_up(connections: AsyncConnectionPool) -> None:
    (closed, goes), journal = await made(2), Journal(connections)
    await Run.objects.filter(pk=closed.pk).aupdate(state=Run.State.FINISHED)
    told = await asyncio.gather(journal.write(entry(closed)), journal.write(entry(goes)))
    assert list(told) == [None, goes.owner_id]
    assert [event.run_id async for event in RunEvent.objects.all()] == [goes.pk] * 2


@pytest.mark.parametrize("wrong", [{"payload": "{"}, {"first": 1}, {"payload": "\x00"}], ids=["json", "seq", "nul"])
async def test_what_the_database_refuses_is_its_runs_alone(
    connections: AsyncConnectionPool, wrong: dict[str, Any]
) -> None:
    (bad, good), journal = await made(2), Journal(connections)
    await journal.write(entry(bad))
    refused, owner = await asyncio.gather(
        journal.write(entry(bad, **{"first": 3, **wrong})), journal.write(entry(good)), return_exceptions=True
    )
    assert isinstance(refused, psycopg.DataError | psycopg.IntegrityError)
    assert owner == good.owner_id
    assert await RunEvent.objects.filter(run=bad).acount() == await RunEvent.objects.filter(run=good).acount() == 2


async def test_whose_row_is_locked_waits_alone(connections: AsyncConnectionPool) -> None:
    (locked, free), journal = await made(2), Journal(connections)
    async with holding("SELECT 1 FROM memoryapp_run WHERE id = %s FOR UPDATE", [locked.pk]):
        waits = asyncio.create_task(journal.write(entry(locked)))
        for first in (1, 3):
            goes = asyncio.create_task(journal.write(entry(free, first)))
            await asyncio.wait([goes], timeout=20)
            assert goes.done()
            assert goes.result() == free.owner_id
        await somebody_waits_for_a_lock()
        assert not waits.done()
    assert await waits == locked.owner_id


async def test_who_is_cancelled_goes_on_when_it_is_certain_what_is_stored(connections: AsyncConnectionPool) -> None:
    (run, other), journal = await made(2), Journal(connections)
    async with holding("LOCK TABLE memoryapp_runevent IN EXCLUSIVE MODE"):
        stopped, goes = (asyncio.create_task(journal.write(entry(each))) for each in (run, other))
        await somebody_waits_for_a_lock()
        stopped.cancel()
        await somebody_waits_for_a_lock()
        assert not stopped.done()
    assert await goes == other.owner_id
    with pytest.raises(asyncio.CancelledError):
        await stopped
    assert await RunEvent.objects.filter(run=run).acount() == 2


async def test_a_connection_that_is_cut_costs_no_events(connections: AsyncConnectionPool) -> None:
    runs, journal = await made(2), Journal(connections)
    cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    async with holding("LOCK TABLE memoryapp_runevent IN EXCLUSIVE MODE") as other:
        writing = [asyncio.create_task(journal.write(entry(run))) for run in runs]
        await somebody_waits_for_a_lock()
        await other.execute(f"{cut} AND datname = current_database()")
    assert list(await asyncio.gather(*writing)) == [run.owner_id for run in runs]
    assert sorted(await transactions()) == [2, 2]


async def test_without_a_database_everybody_is_told(connections: AsyncConnectionPool) -> None:
    runs, journal = await made(3), Journal(connections)
    await connections.close()
    told = await asyncio.gather(*(journal.write(entry(run)) for run in runs), return_exceptions=True)
    assert [type(error) for error in told] == [PoolClosed] * 3
