"""A run whose process is gone: begun again where no model was asked, otherwise the plain order stands in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import pytest
from asgiref.sync import sync_to_async

from memoryapp.engine.emit import Emit
from memoryapp.engine.events import CandidatesFound, RunFinished
from memoryapp.models import ChatUser, Run, RunEvent
from memoryapp.runs import endings, lifecycle
from memoryapp.runs.clients import Clients, open_clients
from memoryapp.runs.recall.run_memory import RunMemory
from tests.support.answers import document_of
from tests.support.clock import PATIENCE
from tests.support.executing import QUERY, Silent, events_of, memory_of_three, start

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("thread_closed")]


@pytest.fixture
async def memory() -> ChatUser:
    return await memory_of_three()


@pytest.fixture
async def clients() -> AsyncIterator[Clients]:
    async with open_clients() as opened:
        yield opened


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


async def test_a_run_cancelled_in_its_process_has_its_stand_in_too(memory: ChatUser, clients: Clients) -> None:
    run = await start(memory, parameters={"seconds": PATIENCE, "turn_seconds": PATIENCE})
    await ended(await lost(run, clients, "turn_started"))
    last = (await events_of(run))[-1]
    assert (last.fallback, len(last.selected)) == ("abandoned", 3)


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


async def test_a_run_that_always_loses_its_process_ends(memory: ChatUser, clients: Clients) -> None:
    run = await start(memory, QUERY)
    for _ in range(endings.MOST_ATTEMPTS + 1):
        await Run.objects.filter(pk=run.pk, state=Run.State.PENDING).aupdate(state=Run.State.RUNNING)
        assert await sync_to_async(endings.close_abandoned)(timedelta(0)) == 1
    await sync_to_async(run.refresh_from_db)()
    assert (run.state, run.fallback) == (Run.State.FINISHED, "abandoned")
    assert await sync_to_async(endings.close_abandoned)(timedelta(0)) == 0
