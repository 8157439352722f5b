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
from memoryapp.models import ChatUser, Run, RunEvent, RunProgress
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


def ended() -> dict[str, Any]:
    return {**finished_columns([STARTED, FINISHED], FINISHED), "finished_at": datetime.now(UTC)}


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
    assert set(ended()) == set(ENDING)
    changed = {**ended(), "turns": 3, "cost_usd": 0.25, "fallback": "no_vectors", "selected_people_count": 2}
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


LOCKED = {
    "run": "SELECT 1 FROM memoryapp_run WHERE id = %s FOR UPDATE",
    "owner": "SELECT FROM memoryapp_chatuser WHERE id = (SELECT owner_id FROM memoryapp_run WHERE id = %s) FOR UPDATE",
    "words": "DELETE FROM memoryapp_runprogress WHERE run_id = %s",
}


@pytest.mark.parametrize("what", LOCKED)
async def test_where_something_is_locked_its_run_waits_alone(connections: AsyncConnectionPool, what: str) -> None:
    (locked, free), journal = await made(2), Journal(connections)
    await RunProgress.objects.acreate(run=locked, owner_id=locked.owner_id, turn=1, at=datetime.now(UTC))
    async with holding(LOCKED[what], [locked.pk]):
        waits = asyncio.create_task(journal.write(entry(locked, ending=ended())))
        for first in (1, 3):
            goes = asyncio.create_task(journal.write(entry(free, first)))
            await asyncio.wait([goes], timeout=20)
            assert goes.done()
            assert goes.result() == free.owner_id
        await somebody_waits_for_a_lock()
        assert not waits.done()
    assert await waits == locked.owner_id
    assert not await RunProgress.objects.aexists()


async def test_what_the_end_of_a_run_removes_is_what_its_model_was_saying(connections: AsyncConnectionPool) -> None:
    (ends, other), journal = await made(2), Journal(connections)
    for run in (ends, other):
        await RunProgress.objects.acreate(run=run, owner_id=run.owner_id, turn=1, at=datetime.now(UTC))
    await asyncio.gather(journal.write(entry(ends, ending=ended())), journal.write(entry(other)))
    assert await transactions() == [4]
    assert [said.run_id async for said in RunProgress.objects.all()] == [other.pk]


async def test_the_end_of_a_run_hurries_and_takes_along_who_lingers(
    connections: AsyncConnectionPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memoryapp.journal.LINGER", 60)
    (first, second, ends, last), journal = await made(4), Journal(connections)
    async with asyncio.timeout(20):
        lingering = [asyncio.create_task(journal.write(entry(run))) for run in (first, second)]
        assert await RunEvent.objects.acount() == 0
        assert await journal.write(entry(ends, ending=ended())) == ends.owner_id
        await asyncio.gather(*lingering)
        assert await transactions() == [6]
        await journal.write(entry(last, ending=ended()))


async def test_a_full_batch_waits_for_nobody(connections: AsyncConnectionPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memoryapp.journal.LINGER", 60)
    runs, journal = await made(MOST), Journal(connections)
    async with asyncio.timeout(20):
        lingering = [asyncio.create_task(journal.write(entry(run))) for run in runs[1:]]
        assert await RunEvent.objects.acount() == 0
        await asyncio.gather(journal.write(entry(runs[0])), *lingering)


async def test_a_writer_that_is_stopped_before_it_began_leaves_nobody_waiting(
    connections: AsyncConnectionPool,
) -> None:
    (run, later), journal = await made(2), Journal(connections)
    writing = asyncio.create_task(journal.write(entry(run)))
    async with asyncio.timeout(20):
        await asyncio.sleep(0)
        (writer,) = [task for task in asyncio.all_tasks() if "Journal._write" in repr(task.get_coro())]
        writer.cancel()
        assert await writing == run.owner_id
        assert await journal.write(entry(later)) == later.owner_id


class Lossy(Journal):
    """Its first answer from the database is lost, though what it said is stored."""

    is_lost = False

    async def _store(self, entries: Sequence[Entry], *, with_others: bool) -> Any:
        owners = await super()._store(entries, with_others=with_others)
        if not self.is_lost:
            self.is_lost = True
            raise psycopg.OperationalError("the connection is lost")
        return owners


async def test_what_was_stored_before_a_connection_broke_is_not_stored_again(connections: AsyncConnectionPool) -> None:
    (goes, ends), journal = await made(2), Lossy(connections)
    told = await asyncio.gather(journal.write(entry(goes)), journal.write(entry(ends, ending=ended())))
    assert list(told) == [goes.owner_id, ends.owner_id]
    assert await transactions() == [4]


async def test_the_log_says_nothing_of_what_was_asked(
    connections: AsyncConnectionPool, caplog: pytest.LogCaptureFixture
) -> None:
    (run,), journal = await made(1), Journal(connections)
    await Run.objects.filter(pk=run.pk).aupdate(query="a secret question")
    with pytest.raises(psycopg.IntegrityError, match="secret"):
        await journal.write(entry(run, ending={**ended(), "turns": -1}))
    assert "CheckViolation" in caplog.text
    assert "secret" not in caplog.text


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
