"""A run that somebody stops: one last event with their name, whichever process executes the run, and nothing is left
open."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone

from memoryapp.engine.notes import english
from memoryapp.models import ChatUser, Operator, Role, Run, RunProgress
from memoryapp.runs import closing, leases, lifecycle, stopping
from memoryapp.runs.clients import open_clients
from tests.conftest import operator, signed_in
from tests.support.clock import PATIENCE
from tests.support.executing import Silent, events_of, memory_of_three, start

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("thread_closed")]

stop = sync_to_async(stopping.stop)


@pytest.fixture
async def memory() -> ChatUser:
    return await memory_of_three()


async def long_run(memory: ChatUser) -> Run:
    return await start(memory, parameters={"seconds": PATIENCE, "turn_seconds": PATIENCE})


async def assert_stopped(run: Run, by: str) -> None:
    events = await events_of(run)
    await run.arefresh_from_db()
    assert [event.kind for event in events].count("run_finished") == 1
    assert (events[-1].fallback, events[-1].stopped_by, run.fallback) == ("stopped", by, "stopped")
    assert by in english(events[-1].notes)
    assert run.state == Run.State.FINISHED
    assert not await RunProgress.objects.filter(run=run).aexists()


async def test_a_run_is_stopped_and_the_next_one_works(memory: ChatUser) -> None:
    run, after = await long_run(memory), await start(memory)
    async with open_clients() as clients:
        silent = Silent()
        task = asyncio.create_task(lifecycle.execute(run.pk, replace(clients, chat=silent)))
        await silent.asked.wait()
        assert await stop(run.pk, "ada")
        await task
        assert not await stop(run.pk, "boris")
        await lifecycle.execute(after.pk, clients)
        assert clients.pool.get_stats()["pool_available"] == clients.pool.get_stats()["pool_size"]
    await assert_stopped(run, "ada")
    assert (await events_of(after))[-1].fallback == ""


async def test_another_process_that_executes_the_run_finds_it_in_the_row(
    memory: ChatUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "RENEWED_EVERY", 0.02)
    monkeypatch.setattr(stopping, "stop_here", lambda *_: None)
    run = await long_run(memory)
    async with open_clients() as clients:
        silent = Silent()
        task = asyncio.create_task(lifecycle.execute(run.pk, replace(clients, chat=silent)))
        await silent.asked.wait()
        assert await stop(run.pk, "ada")
        await asyncio.wait_for(task, PATIENCE)
    await assert_stopped(run, "ada")


async def test_a_run_nobody_has_begun_ends_at_once_and_is_never_executed(memory: ChatUser) -> None:
    run = await long_run(memory)
    assert await stop(run.pk, "ada")
    await assert_stopped(run, "ada")
    async with open_clients() as clients:
        await lifecycle.execute(run.pk, clients)
    await assert_stopped(run, "ada")


async def test_the_sweep_ends_a_stopped_run_whose_process_is_dead(memory: ChatUser) -> None:
    run = await long_run(memory)
    await Run.objects.filter(pk=run.pk).aupdate(
        state=Run.State.RUNNING, heartbeat_at=timezone.now() - timedelta(minutes=1)
    )
    assert await stop(run.pk, "ada")
    assert await sync_to_async(closing.close_abandoned)() == 1
    await assert_stopped(run, "ada")


async def test_a_fault_of_its_own_is_not_taken_for_a_stop() -> None:
    async def late() -> None:
        raise TimeoutError

    bounded = stopping.Stop()
    with pytest.raises(TimeoutError):
        await bounded.complete(late())
    bounded.ask("ada")
    bounded.ask("boris")
    with pytest.raises(stopping.Stopped, match="ada"):
        await bounded.complete(asyncio.sleep(60))


async def test_who_may_ask_may_stop_and_the_page_says_who_did(memory: ChatUser, admin: Operator) -> None:
    run = await long_run(memory)
    viewer = await sync_to_async(operator)("vera", Role.VIEWER, memory)

    def answers(who: Operator, **headers: str) -> Any:
        return signed_in(who).post(f"/runs/{run.pk}/stop/", headers=headers)

    assert (await sync_to_async(answers)(viewer)).status_code == 403
    asked = await sync_to_async(lambda: signed_in(admin).get(f"/runs/{run.pk}/stop/").content.decode())()
    assert "It ends at once" in asked
    await run.arefresh_from_db()
    assert run.stopped_by == ""
    answer = await sync_to_async(answers)(admin, hx_request="true")
    assert answer.status_code == 204
    assert (await sync_to_async(answers)(admin)).url == f"/runs/{run.pk}/"
    page = await sync_to_async(lambda: signed_in(admin).get(f"/runs/{run.pk}/").content.decode())()
    assert "ada stopped this run before the model had chosen." in page
