"""The text of a model in a turn that goes on: shown soon, deleted soon, and never an event."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from asgiref.sync import sync_to_async

from memoryapp.engine.chat.protocol import ChatRequest, PartialReply, Reply
from memoryapp.engine.events import ModelProgress, RunFinished, RunStarted
from memoryapp.models import ChatUser, Run, RunEvent, RunProgress
from memoryapp.platform.database import pool
from memoryapp.runs import claims, endings, lifecycle
from memoryapp.runs.clients import open_clients
from memoryapp.runs.journal import Journal, Recorder, RunClosed
from memoryapp.runs.notices import MOST_CHARS, Showing
from tests.support.clock import PATIENCE
from tests.support.executing import events_of, memory_of_three, start

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("thread_closed")]


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


@pytest.fixture
async def run(db: None) -> Run:
    owner = await ChatUser.objects.acreate(name="anna")
    return await Run.objects.acreate(owner=owner, query="q", strategy="flash", state=Run.State.RUNNING)


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
