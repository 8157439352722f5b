"""The process that executes runs: before its first run, ready or not, and gone."""

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import timedelta

import httpx
import pytest
from asgiref.sync import sync_to_async

from memoryapp.engine.chat.attempt import send
from memoryapp.engine.emit import Emit
from memoryapp.engine.events import CandidatesFound, RunFinished
from memoryapp.models import ChatUser, Run, RunEvent
from memoryapp.runs import endings, lifecycle
from memoryapp.runs import runner as readiness
from memoryapp.runs.clients import Clients
from memoryapp.runs.recall.stages import RunMemory
from memoryapp.runs.runner import Runner
from tests.support.answers import document_of
from tests.support.clock import PATIENCE
from tests.support.executing import QUERY, Silent, events_of, memory_of_three, start

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("thread_closed")]


async def test_what_a_process_loaded_stops_no_run_while_cycles_are_searched_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    frozen, freeze = asyncio.Event(), gc.freeze

    def freeze_and_report() -> None:
        freeze()
        frozen.set()

    monkeypatch.setattr(gc, "freeze", freeze_and_report)
    gc.unfreeze()  # loaded by the process in an earlier test
    runner = Runner()
    runner.bind()
    try:
        async with asyncio.timeout(PATIENCE):
            await frozen.wait()
        assert gc.get_freeze_count() > 100_000
    finally:
        gc.unfreeze()
        await runner.close()


# A process reports whether it can record runs and reach its provider, over the connections that runs use.


@pytest.fixture
async def runner() -> AsyncIterator[Runner]:
    made = Runner()
    made.bind()
    await made.clients()
    yield made
    await made.close()


async def recording(runner: Runner) -> str:
    return await asyncio.to_thread(readiness.recording, runner)


async def test_a_process_that_executes_no_runs_yet_is_ready() -> None:
    assert (readiness.recording(Runner()), readiness.provider(Runner())) == ("ok", "ok")


async def test_a_process_whose_own_connections_are_gone_says_so_and_is_ready_again_with_them(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readiness, "SECONDS", 0.2)
    pool = (await runner.clients()).pool
    assert await recording(runner) == "ok"
    async with AsyncExitStack() as stack:
        for _ in range(pool.max_size):
            await stack.enter_async_context(pool.connection())
        assert await recording(runner) != "ok"
    assert await recording(runner) == "ok"
    await pool.close()
    assert await recording(runner) == "nothing can be written (PoolClosed)"


async def test_a_database_that_accepts_no_writes_is_reported(runner: Runner) -> None:
    pool = (await runner.clients()).pool
    async with AsyncExitStack() as stack:
        for connection in [await stack.enter_async_context(pool.connection()) for _ in range(pool.max_size)]:
            await connection.execute("SET default_transaction_read_only = on")
    assert await recording(runner) == "nothing can be written (ReadOnlySqlTransaction)"


async def test_a_provider_out_of_reach_is_named_until_it_answers(runner: Runner) -> None:
    http = (await runner.clients()).http
    assert http
    for _ in range(readiness.FAILURES):
        assert readiness.provider(runner) == "ok"
        with pytest.raises(httpx.ConnectError):
            await send(http, http.build_request("GET", "http://127.0.0.1:9/"))
    assert readiness.provider(runner) == "no answer to the last 5 calls"
    server = await asyncio.start_server(_answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    await (await send(http, http.build_request("GET", f"http://127.0.0.1:{port}/"))).aclose()
    assert readiness.provider(runner) == "ok"
    server.close()


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    writer.close()


# A run whose process is gone: begun again where no model was asked, otherwise the plain order stands in.


@pytest.fixture
async def memory() -> ChatUser:
    return await memory_of_three()


async def lost(run: Run, clients: Clients, kind: str) -> asyncio.Task[None]:
    """Executes the run until it has stored an event of the kind; its lease then lapses as if the process had died."""
    task = asyncio.create_task(lifecycle.execute(run.pk, replace(clients, chat=Silent())))
    async with asyncio.timeout(PATIENCE):
        while not await RunEvent.objects.filter(run=run, kind=kind).aexists():
            pass
    return task


async def ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.slow
async def test_after_the_model_was_asked_the_nearest_topics_stand_in(memory: ChatUser, clients: Clients) -> None:
    run = await start(memory, parameters={"seconds": PATIENCE, "turn_seconds": PATIENCE, "max_topics": 2})
    task = await lost(run, clients, "turn_started")
    assert await sync_to_async(endings.close_abandoned)(timedelta(0)) == 1
    await ended(task)
    events = await events_of(run)
    last = events[-1]
    assert isinstance(last, RunFinished)
    found = next(event for event in events if isinstance(event, CandidatesFound))
    assert (last.fallback, last.notes[0].values) == ("abandoned", {"instead": "nearest"})
    assert [each.vector_rank for each in last.selected] == [1, 2]
    assert {each.id for each in last.selected} <= {each.id for each in found.candidates}
    document = await sync_to_async(lambda: document_of(Run.objects.get(pk=run.pk)))()
    assert "vLLM" in document["context"]


@pytest.mark.slow
async def test_a_run_cancelled_in_its_process_has_its_stand_in_too(memory: ChatUser, clients: Clients) -> None:
    run = await start(memory, parameters={"seconds": PATIENCE, "turn_seconds": PATIENCE})
    await ended(await lost(run, clients, "turn_started"))
    last = (await events_of(run))[-1]
    assert (last.fallback, len(last.selected)) == ("abandoned", 3)


@pytest.mark.slow
async def test_before_the_model_was_asked_another_process_begins_it_again(
    memory: ChatUser, clients: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await start(memory)
    reached = asyncio.Event()

    async def hang(self: RunMemory, emit: Emit) -> None:
        reached.set()
        await asyncio.Event().wait()

    with monkeypatch.context() as patched:
        patched.setattr(RunMemory, "enrich", hang)
        task = asyncio.create_task(lifecycle.execute(run.pk, clients))
        await asyncio.wait_for(reached.wait(), PATIENCE)
    assert await sync_to_async(endings.close_abandoned)(timedelta(0)) == 1
    await lifecycle.execute(run.pk, clients)
    # The lost process wakes up, and can change nothing any more.
    await ended(task)
    events = await events_of(run)
    assert [event.kind for event in events].count("run_finished") == 1
    assert (events[-1].fallback, bool(events[-1].selected)) == ("", True)


@pytest.mark.slow
async def test_a_run_that_always_loses_its_process_ends(memory: ChatUser, clients: Clients) -> None:
    run = await start(memory, QUERY)
    for _ in range(endings.MOST_ATTEMPTS + 1):
        await Run.objects.filter(pk=run.pk, state=Run.State.PENDING).aupdate(state=Run.State.RUNNING)
        assert await sync_to_async(endings.close_abandoned)(timedelta(0)) == 1
    await sync_to_async(run.refresh_from_db)()
    assert (run.state, run.fallback) == (Run.State.FINISHED, "abandoned")
    assert await sync_to_async(endings.close_abandoned)(timedelta(0)) == 0
