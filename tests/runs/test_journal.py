"""Events of runs are stored completely and in order, soon, and apart from the words of a turn that goes on."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import UUID

import psycopg
import psycopg_pool
import pytest
from asgiref.sync import sync_to_async
from psycopg_pool import AsyncConnectionPool, PoolClosed

from memoryapp.engine.chat.protocol import ChatRequest, PartialReply, Reply
from memoryapp.engine.events import (
    Event,
    ModelProgress,
    ModelReplied,
    QueryEnriched,
    RunFinished,
    RunStarted,
    Selected,
    TurnStarted,
)
from memoryapp.models import ChatUser, Run, RunEvent, RunProgress
from memoryapp.platform.database import conninfo, pool
from memoryapp.runs import claims, endings, lifecycle
from memoryapp.runs.clients import open_clients
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
from memoryapp.runs.notices import MOST_CHARS, Showing, ignore
from tests.support.clock import PATIENCE
from tests.support.executing import Silent, events_of, memory_of_three, start

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


# Events are stored together until a run waits for a model, soon in any case, and in their order.


EARLY_STARTED = RunStarted("flash", "q", {}, "", "", "")
ENRICHED = QueryEnriched("q", "q", "", 0.0)
TURN = TurnStarted(1, "forced", "none", ())
REPLIED = ModelReplied(1, "said", "", (), 1, 1, 0.0, 0.1, "m")


@pytest.fixture
async def run(db: None) -> Run:
    owner = await ChatUser.objects.acreate(name="anna")
    return await Run.objects.acreate(owner=owner, query="q", strategy="flash", state=Run.State.RUNNING)


async def kinds(run: UUID) -> list[str]:
    return [kind async for kind in RunEvent.objects.filter(run=run).order_by("seq").values_list("kind", flat=True)]


async def test_what_comes_before_a_model_is_waited_for_is_one_transaction(run: Run) -> None:
    notices = Notices()
    async with pool() as connections:
        recorder = Recorder(run.pk, Journal(connections), notices)
        for event in (EARLY_STARTED, ENRICHED, TURN):
            await recorder.record(event)
        await asyncio.wait_for(notices.heard.wait(), PATIENCE)
        assert (notices.count, await kinds(run.pk)) == (1, ["run_started", "query_enriched", "turn_started"])
        await recorder.record(REPLIED)
        await recorder.record(RunFinished((), (), "", ""))
        assert (notices.count, (await kinds(run.pk))[3:]) == (2, ["model_replied", "run_finished"])
    seen = [at async for at in RunEvent.objects.filter(run=run).order_by("seq").values_list("at", flat=True)]
    assert seen == sorted(seen)


async def test_what_nothing_follows_is_there_all_the_same(run: Run) -> None:
    notices = Notices()
    async with pool() as connections:
        recorder = Recorder(run.pk, Journal(connections), notices)
        await recorder.record(EARLY_STARTED)
        await asyncio.wait_for(notices.heard.wait(), PATIENCE)
        assert await kinds(run.pk) == ["run_started"]


async def test_the_row_counts_every_kind_that_was_chosen(run: Run) -> None:
    chosen = Selected("Person:1", 1, "he did it", 0.5, 1)
    async with pool() as connections:
        recorder = Recorder(run.pk, Journal(connections), Notices())
        await recorder.record(EARLY_STARTED)
        await recorder.record(RunFinished((), (), "", "", people=(chosen,), artifacts=(chosen, chosen)))
    await run.arefresh_from_db()
    assert (run.selected_count, run.selected_people_count, run.selected_artifact_count) == (0, 1, 2)
    assert run.outcome == "chosen"


async def test_an_endpoint_that_counts_absurd_tokens_ends_no_run(run: Run) -> None:
    async with pool() as connections:
        recorder = Recorder(run.pk, Journal(connections), Notices())
        await recorder.record(replace(REPLIED, input_tokens=3_000_000_000, output_tokens=10**14))
        await recorder.record(RunFinished((), (), "", ""))
    await run.arefresh_from_db()
    assert (run.state, run.input_tokens, run.output_tokens) == (Run.State.FINISHED, 2**31 - 1, 2**31 - 1)


async def stopped_in_its_first_turn(**parameters: float) -> list[Event]:
    """The events of a run whose process ends while it waits for the model."""
    run, silent = await start(await memory_of_three(), parameters=parameters), Silent()
    async with open_clients() as clients:
        task = asyncio.create_task(lifecycle.execute(run.pk, replace(clients, chat=silent)))
        await silent.asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    return await events_of(run)


TO_THE_FIRST_TURN = [
    "run_started", "query_enriched", "candidates_found", "turn_started", "model_replied", "run_finished",
]  # fmt: skip


async def test_events_before_a_stop_are_kept_and_the_end_comes_last() -> None:
    events = await stopped_in_its_first_turn(seconds=PATIENCE, turn_seconds=PATIENCE)
    assert [event.kind for event in events] == TO_THE_FIRST_TURN


async def test_at_a_stop_events_that_wait_for_a_slow_writer_are_kept_and_the_nearest_topics_stand_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def never_done(recorder: Recorder) -> None:
        if not recorder.events:
            await asyncio.Event().wait()

    monkeypatch.setattr(Recorder, "stop_showing", never_done)
    events = await stopped_in_its_first_turn()
    assert [event.kind for event in events] == TO_THE_FIRST_TURN
    end = events[-1]
    assert isinstance(end, RunFinished)
    assert (end.fallback, bool(end.selected)) == ("abandoned", True)


async def test_a_run_whose_earlier_events_are_lost_ends_behind_the_last_whole_one(run: Run) -> None:
    notices = Notices()
    async with pool() as connections:
        recorder = Recorder(run.pk, Journal(connections), notices)
        for event in (EARLY_STARTED, ENRICHED, TURN):
            await recorder.record(event)
        await asyncio.wait_for(notices.heard.wait(), PATIENCE)
        await RunEvent.objects.filter(run=run, seq__gt=1).adelete()
        with pytest.raises(EventsLost) as lost:
            await recorder.record(RunFinished((), (), "", ""))
        await recorder.close(partial(endings.after_fault, lost.value))
    assert await kinds(run.pk) == ["run_started", "run_finished"]
    await run.arefresh_from_db()
    assert (run.state, run.fallback) == (Run.State.FINISHED, "crashed")


def test_a_run_that_lost_its_database_did_not_end_by_a_fault_of_the_program() -> None:
    assert endings.after_fault(psycopg_pool.PoolTimeout("no connection")).fallback == "abandoned"
    assert endings.after_fault(psycopg.errors.AdminShutdown("restart")).fallback == "abandoned"
    assert endings.after_fault(psycopg.errors.UndefinedTable("no such table")).fallback == "crashed"


# The text of a model in a turn that goes on: shown soon, deleted soon, and never an event.


class Notices:
    """Collects notices; ``heard`` is set with each."""

    def __init__(self) -> None:
        self.count = 0
        self.heard = asyncio.Event()

    async def __call__(self, run_id: UUID) -> None:
        self.count += 1
        self.heard.set()


class Speaking:
    """A chat model that sends half of its answer and waits until it may continue."""

    model = "speaking"

    def __init__(self) -> None:
        self.go_on = asyncio.Event()

    async def converse(self, request: ChatRequest) -> AsyncIterator[PartialReply | Reply]:
        yield PartialReply('{"topics": ', "The first \x00 looks close.")
        await self.go_on.wait()
        yield Reply('{"topics": []}')


async def test_a_turn_is_shown_while_it_goes_on_and_leaves_nothing_behind() -> None:
    run, speaking, notices = (
        await start(await memory_of_three(), parameters={"tool_mode": "auto"}),
        Speaking(),
        Notices(),
    )
    async with open_clients() as clients:
        task = asyncio.create_task(lifecycle.execute(run.pk, replace(clients, chat=speaking), notices))
        while not (shown := await RunProgress.objects.filter(run=run).afirst()):
            notices.heard.clear()
            await asyncio.wait_for(notices.heard.wait(), PATIENCE)
        assert (shown.turn, shown.text, shown.owner_id) == (1, '{"topics": ', run.owner_id)
        assert shown.reasoning == "The first \ufffd looks close."
        speaking.go_on.set()
        await task
    assert not await RunProgress.objects.aexists()
    assert [event.kind for event in await events_of(run)][-2:] == ["model_replied", "run_finished"]


async def test_words_that_come_at_once_are_gathered_into_few_writes(run: Run) -> None:
    notices = Notices()
    async with pool() as connections:
        showing = Showing(run.pk, connections, notices)
        for count in range(500):
            showing.take(ModelProgress(1, "word " * count, ""))
        await asyncio.wait_for(notices.heard.wait(), PATIENCE)
        await showing.stop()
    assert notices.count == 1
    assert (await RunProgress.objects.aget(run=run)).text == "word " * 499


async def test_the_last_words_before_a_pause_are_shown_too(run: Run) -> None:
    notices = Notices()
    async with pool() as connections:
        showing = Showing(run.pk, connections, notices)
        for text in ("one", "one two"):
            notices.heard.clear()
            showing.take(ModelProgress(1, text, ""))
            await asyncio.wait_for(notices.heard.wait(), PATIENCE)
            assert (await RunProgress.objects.aget(run=run)).text == text
        await showing.stop()


async def test_a_turn_that_is_over_at_once_writes_nothing(run: Run) -> None:
    notices = Notices()
    async with pool() as connections:
        showing = Showing(run.pk, connections, notices)
        showing.take(ModelProgress(1, "quick", ""))
        await showing.stop()
    assert notices.count == 0
    assert not await RunProgress.objects.aexists()


async def test_of_a_long_answer_the_end_is_kept(run: Run) -> None:
    notices = Notices()
    async with pool() as connections:
        showing = Showing(run.pk, connections, notices)
        showing.take(ModelProgress(1, "x" * MOST_CHARS + "end", ""))
        await asyncio.wait_for(notices.heard.wait(), PATIENCE)
        await showing.stop()
    shown = (await RunProgress.objects.aget(run=run)).text
    assert (len(shown), shown[-3:]) == (MOST_CHARS, "end")


async def test_a_run_that_was_closed_gets_no_words_and_no_events(run: Run) -> None:
    await Run.objects.filter(pk=run.pk).aupdate(state=Run.State.FINISHED)
    notices = Notices()
    async with pool() as connections:
        recorder = Recorder(run.pk, Journal(connections), notices)
        recorder.show(ModelProgress(1, "too late", ""))
        await asyncio.wait_for(notices.heard.wait(), PATIENCE)
        await recorder.record(RunStarted("flash", "q", {}, "", "", ""))
        with pytest.raises(RunClosed):
            await recorder.record(RunFinished((), (), "", ""))
    assert not await RunProgress.objects.aexists()
    assert not await RunEvent.objects.aexists()


async def test_the_sweep_takes_the_words_of_a_dead_process_with_the_run(run: Run, settings: Any) -> None:
    notices = Notices()
    async with pool() as connections:
        recorder = Recorder(run.pk, Journal(connections), notices)
        await recorder.record(RunStarted("flash", "q", {}, "", "", ""))
        recorder.show(ModelProgress(1, "half a sen", ""))
        # The notice of the event may come late, and before the words are written no model has been asked.
        while not await RunProgress.objects.filter(run=run).aexists():
            await asyncio.wait_for(notices.heard.wait(), PATIENCE)
            notices.heard.clear()
        assert await sync_to_async(endings.close_abandoned)(lease=claims.LEASE * 0) == 1
    assert not await RunProgress.objects.aexists()
    assert isinstance((await events_of(run))[-1], RunFinished)
