"""Events are stored together until a run waits for a model, soon in any case, and in their order."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from uuid import UUID

import psycopg
import psycopg_pool
import pytest

from memoryapp.engine.events import Event, ModelReplied, QueryEnriched, RunFinished, RunStarted, Selected, TurnStarted
from memoryapp.models import ChatUser, Run, RunEvent
from memoryapp.platform.database import pool
from memoryapp.runs import endings, lifecycle
from memoryapp.runs.clients import open_clients
from memoryapp.runs.journal import EventsLost, Journal, Recorder
from tests.runs.test_progress import Notices
from tests.support.clock import PATIENCE
from tests.support.executing import Silent, events_of, memory_of_three, start

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("thread_closed")]

STARTED = RunStarted("flash", "q", {}, "", "", "")
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
        for event in (STARTED, ENRICHED, TURN):
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
        await recorder.record(STARTED)
        await asyncio.wait_for(notices.heard.wait(), PATIENCE)
        assert await kinds(run.pk) == ["run_started"]


async def test_the_row_counts_every_kind_that_was_chosen(run: Run) -> None:
    chosen = Selected("Person:1", 1, "he did it", 0.5, 1)
    async with pool() as connections:
        recorder = Recorder(run.pk, Journal(connections), Notices())
        await recorder.record(STARTED)
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
        for event in (STARTED, ENRICHED, TURN):
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
