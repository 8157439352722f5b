"""Events of runs are stored completely and in order, whatever fails meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from psycopg_pool import AsyncConnectionPool, PoolClosed

from memoryapp.engine.events import RunFinished, RunStarted
from memoryapp.models import ChatUser, Run, RunEvent, RunProgress
from memoryapp.platform.database import conninfo, pool
from memoryapp.runs.journal import (
    TRIES,
    EventRow,
    EventsLost,
    Journal,
    JournalEntry,
    Recorder,
    RunClosed,
    finished_columns,
)
from memoryapp.runs.notices import ignore
from tests.support.clock import PATIENCE

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


def entry(run: Run, first: int = 1, payload: str = "{}", ending: dict[str, Any] | None = None) -> JournalEntry:
    moment = datetime.now(UTC)
    lines = [EventRow("run_started", moment, payload), EventRow("turn_started", moment, "{}")]
    return JournalEntry(run.pk, first, lines, ending or {})


def ended() -> dict[str, Any]:
    return {**finished_columns([STARTED, FINISHED], FINISHED), "finished_at": datetime.now(UTC)}


@asynccontextmanager
async def holding(statement: str, values: Sequence[Any] = ()) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    """Opens another transaction, with the locks that the statement takes."""
    async with await psycopg.AsyncConnection.connect(conninfo()) as connection:
        await connection.execute(statement, values)
        yield connection
        await connection.rollback()


async def somebody_waits_for_a_lock() -> None:
    asked = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    async with (
        await psycopg.AsyncConnection.connect(conninfo(), autocommit=True) as connection,
        asyncio.timeout(PATIENCE),
    ):
        waiting = 0
        while not waiting:
            (waiting,) = await (await connection.execute(asked)).fetchone() or (0,)


async def stored(run: Run) -> list[tuple[int, int, str]]:
    """Returns number, owner and kind of each event."""
    rows = RunEvent.objects.filter(run=run).order_by("seq").values_list("seq", "owner_id", "kind")
    return [row async for row in rows]


async def test_an_entry_is_stored_whole_and_tells_its_owner(connections: AsyncConnectionPool) -> None:
    runs, journal = await made(6), Journal(connections)
    owners = await asyncio.gather(*(journal.write(entry(run)) for run in runs))
    assert list(owners) == [run.owner_id for run in runs]
    for run in runs:
        assert await stored(run) == [(1, run.owner_id, "run_started"), (2, run.owner_id, "turn_started")]


async def test_the_last_entry_ends_the_run_and_removes_what_its_model_was_saying(
    connections: AsyncConnectionPool,
) -> None:
    (ends, goes), journal = await made(2), Journal(connections)
    for run in (ends, goes):
        await RunProgress.objects.acreate(run=run, owner_id=run.owner_id, turn=1, at=datetime.now(UTC))
    changed = {**ended(), "turns": 3, "cost_usd": 0.25, "fallback": "no_vectors", "selected_people_count": 2}
    await asyncio.gather(journal.write(entry(goes)), journal.write(entry(ends, ending=changed)))
    assert await Run.objects.filter(pk=ends.pk).values(*changed).aget() == changed
    await goes.arefresh_from_db()
    assert goes.state == Run.State.RUNNING
    assert [progress.run_id async for progress in RunProgress.objects.all()] == [goes.pk]


async def test_an_entry_of_a_closed_run_returns_no_owner(connections: AsyncConnectionPool) -> None:
    (closed, goes), journal = await made(2), Journal(connections)
    await Run.objects.filter(pk=closed.pk).aupdate(state=Run.State.FINISHED)
    owners = await asyncio.gather(journal.write(entry(closed)), journal.write(entry(goes)))
    assert list(owners) == [None, goes.owner_id]
    assert [event.run_id async for event in RunEvent.objects.all()] == [goes.pk] * 2


@pytest.mark.parametrize("ending", [False, True])
async def test_nothing_is_stored_behind_a_gap(connections: AsyncConnectionPool, ending: bool) -> None:
    (run,), journal = await made(1), Journal(connections)
    await journal.write(entry(run))
    await RunEvent.objects.filter(run=run, seq=2).adelete()
    with pytest.raises(EventsLost, match="is 1, not 2"):
        await journal.write(entry(run, first=3, ending=ended() if ending else {}))
    assert [seq for seq, *_ in await stored(run)] == [1]
    await run.arefresh_from_db()
    assert run.state == Run.State.RUNNING


@pytest.mark.parametrize("ending", [False, True])
async def test_what_is_sent_again_is_stored_once(connections: AsyncConnectionPool, ending: bool) -> None:
    (run,), journal = await made(1), Journal(connections)
    sent = entry(run, ending=ended() if ending else {})
    assert [await journal.write(sent) for _ in range(2)] == [run.owner_id] * 2
    assert [seq for seq, *_ in await stored(run)] == [1, 2]


@pytest.mark.parametrize("wrong", [{"payload": "{"}, {"payload": "\x00"}], ids=["json", "nul"])
async def test_what_the_database_refuses_is_its_runs_alone(
    connections: AsyncConnectionPool, wrong: dict[str, Any]
) -> None:
    (bad, good), journal = await made(2), Journal(connections)
    await journal.write(entry(bad))
    refused, owner = await asyncio.gather(
        journal.write(entry(bad, **{"first": 3, **wrong})), journal.write(entry(good)), return_exceptions=True
    )
    assert isinstance(refused, psycopg.DataError)
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
            await asyncio.wait([goes], timeout=PATIENCE)
            assert goes.done()
            assert goes.result() == free.owner_id
        await somebody_waits_for_a_lock()
        assert not waits.done()
    assert await waits == locked.owner_id
    assert not await RunProgress.objects.aexists()


class Lossy(Journal):
    """Loses the first answers from the database, although the events are stored."""

    lost = 0

    async def _store(self, entry: JournalEntry) -> int | None:
        owner = await super()._store(entry)
        if self.lost < TRIES - 1:
            self.lost += 1
            raise psycopg.OperationalError("the connection is lost")
        return owner


async def test_what_was_stored_before_a_connection_broke_is_not_stored_again(connections: AsyncConnectionPool) -> None:
    (goes, ends), journal = await made(2), Lossy(connections)
    owners = [await journal.write(entry(goes)), await journal.write(entry(ends, ending=ended()))]
    assert owners == [goes.owner_id, ends.owner_id]
    assert [len(await stored(run)) for run in (goes, ends)] == [2, 2]


async def test_the_log_says_nothing_of_what_was_asked(
    connections: AsyncConnectionPool, caplog: pytest.LogCaptureFixture
) -> None:
    (run,), journal = await made(1), Lossy(connections)
    await Run.objects.filter(pk=run.pk).aupdate(query="a secret question")
    with pytest.raises(psycopg.IntegrityError, match="secret"):
        await journal.write(entry(run, ending={**ended(), "turns": -1}))
    await journal.write(entry(run))
    assert "OperationalError" in caplog.text
    assert "secret" not in caplog.text


async def test_who_is_cancelled_goes_on_when_it_is_certain_what_is_stored(connections: AsyncConnectionPool) -> None:
    (run,) = await made(1)
    recorder = Recorder(run.pk, Journal(connections), ignore)
    async with holding("LOCK TABLE memoryapp_runevent IN EXCLUSIVE MODE"):
        recording = asyncio.create_task(recorder.record(FINISHED))
        await somebody_waits_for_a_lock()
        recording.cancel()
        with pytest.raises(asyncio.CancelledError):
            await recording
        closing = asyncio.create_task(recorder.close(lambda _events: FINISHED))
        await somebody_waits_for_a_lock()
        assert not closing.done()
    with pytest.raises(RunClosed):
        await closing
    assert [kind for *_, kind in await stored(run)] == ["run_finished"]


async def test_a_connection_that_is_cut_costs_no_events(connections: AsyncConnectionPool) -> None:
    runs, journal = await made(2), Journal(connections)
    cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    async with holding("LOCK TABLE memoryapp_runevent IN EXCLUSIVE MODE") as other:
        writing = [asyncio.create_task(journal.write(entry(run))) for run in runs]
        await somebody_waits_for_a_lock()
        await other.execute(f"{cut} AND datname = current_database()")
    assert list(await asyncio.gather(*writing)) == [run.owner_id for run in runs]
    assert [len(await stored(run)) for run in runs] == [2, 2]


async def test_without_a_database_every_write_raises(connections: AsyncConnectionPool) -> None:
    runs, journal = await made(3), Journal(connections)
    await connections.close()
    errors = await asyncio.gather(*(journal.write(entry(run)) for run in runs), return_exceptions=True)
    assert [type(error) for error in errors] == [PoolClosed] * 3
