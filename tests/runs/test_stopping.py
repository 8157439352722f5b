"""Runs that end early: stopped by somebody, or by their time limit, with nothing left open."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any, ClassVar

import psycopg
import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone
from prometheus_client import REGISTRY
from psycopg_pool import AsyncConnectionPool

from memoryapp.engine.chat.protocol import ChatRequest, PartialReply, Reply
from memoryapp.engine.embeddings import Vectors
from memoryapp.engine.events import (
    CandidatesFound,
    ModelProgress,
    ModelReplied,
    QueryEnriched,
    RunFinished,
    RunStarted,
    ToolCall,
    TurnStarted,
)
from memoryapp.engine.notes import english
from memoryapp.engine.prompt_registry import built_in
from memoryapp.engine.prompts.rerank import TOOL_NAME
from memoryapp.engine.strategies import DEFAULT, STRATEGIES
from memoryapp.models import ChatUser, Operator, Role, Run, RunProgress, Topic
from memoryapp.platform import database
from memoryapp.platform.llm.clients import offline_embedder
from memoryapp.runs import claims, endings, lifecycle
from memoryapp.runs.clients import Clients, open_clients
from memoryapp.runs.lifecycle import execute
from memoryapp.runs.parameters import defaults, validate
from memoryapp.runs.recall.stages import recall
from tests.conftest import operator, signed_in
from tests.engine.scripted import ScriptedChat, after, asks, chooses, says, slow
from tests.runs.test_recall_stages import asked, one
from tests.support.clock import PATIENCE, passes
from tests.support.executing import QUERY, Faulty, Silent, background_of, events_of, executed, memory_of_three, start

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("thread_closed")]

stop = sync_to_async(endings.stop)


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
        async with asyncio.timeout(PATIENCE):
            pool = clients.pool
            while pool.get_stats()["pool_available"] < pool.get_stats()["pool_size"]:  # noqa: ASYNC110 - it announces nothing
                await asyncio.sleep(0.01)
    await assert_stopped(run, "ada")
    assert (await events_of(after))[-1].fallback == ""


async def test_another_process_that_executes_the_run_finds_it_in_the_row(
    memory: ChatUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "RENEWED_EVERY", 0.02)
    monkeypatch.setattr(endings, "stop_here", lambda *_: None)
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
    await executed(run)
    await assert_stopped(run, "ada")


async def test_the_sweep_ends_a_stopped_run_whose_process_is_dead(memory: ChatUser) -> None:
    run = await long_run(memory)
    await Run.objects.filter(pk=run.pk).aupdate(
        state=Run.State.RUNNING, heartbeat_at=timezone.now() - timedelta(minutes=1)
    )
    assert await stop(run.pk, "ada")
    assert await sync_to_async(endings.close_abandoned)() == 1
    await assert_stopped(run, "ada")


async def test_a_fault_of_its_own_is_not_taken_for_a_stop() -> None:
    async def late() -> None:
        raise TimeoutError

    bounded = endings.Stop()
    with pytest.raises(TimeoutError):
        await bounded.complete(late())
    bounded.ask("ada")
    bounded.ask("boris")
    with pytest.raises(endings.Stopped, match="ada"):
        await bounded.complete(asyncio.sleep(60))


class Talking:
    """A chat model that says half an answer and no more; ``asked`` is set when it has been heard."""

    model = "talking"

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def converse(self, request: ChatRequest) -> AsyncIterator[PartialReply | Reply]:
        yield PartialReply('{"topics": [', "The cache was what filled the card")
        self.asked.set()
        await asyncio.Event().wait()


async def assert_kept(run: Run, admin: Operator) -> None:
    """Nothing of the turn that was cut off is lost: neither its words nor its time."""
    reply, finished = (await events_of(run))[-2:]
    assert (reply.kind, reply.turn, reply.model) == ("model_replied", 1, "talking")
    assert (reply.text, reply.reasoning) == ('{"topics": [', "The cache was what filled the card")
    assert "cut off" in reply.error
    await run.arefresh_from_db()
    assert (run.turns, finished.totals.turns) == (1, 1)
    assert run.seconds == pytest.approx(finished.totals.seconds)
    assert 0 < reply.seconds <= finished.totals.seconds
    page = await sync_to_async(lambda: signed_in(admin).get(f"/runs/{run.pk}/").content.decode())()
    assert "The cache was what filled the card" in page
    assert "so its answer was cut off here" in page
    assert not re.search(r"\bcheck\s+·", page)


async def test_what_the_model_had_said_stays_when_a_person_stops_the_run(memory: ChatUser, admin: Operator) -> None:
    run = await long_run(memory)
    async with open_clients() as clients:
        talking = Talking()
        task = asyncio.create_task(lifecycle.execute(run.pk, replace(clients, chat=talking)))
        await talking.asked.wait()
        assert await stop(run.pk, "ada")
        await task
    await assert_stopped(run, "ada")
    await assert_kept(run, admin)


async def test_what_the_model_had_said_stays_when_the_process_is_lost(memory: ChatUser, admin: Operator) -> None:
    run = await long_run(memory)
    async with open_clients() as clients:
        talking = Talking()
        task = asyncio.create_task(lifecycle.execute(run.pk, replace(clients, chat=talking)))
        async with asyncio.timeout(PATIENCE):
            while not await RunProgress.objects.filter(run=run).aexists():  # noqa: ASYNC110 - it announces nothing
                await asyncio.sleep(0.01)
        # What the process would still write is refused, as if it had been killed.
        await Run.objects.filter(pk=run.pk).aupdate(attempt=1, heartbeat_at=timezone.now() - timedelta(minutes=1))
        assert await sync_to_async(endings.close_abandoned)() == 1
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    await assert_kept(run, admin)


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


class Watched(ScriptedChat):
    """A scripted model that says when it was asked for the last time, and waits after it if it ``hangs``."""

    def __init__(self, *steps: Any, hangs: bool = False) -> None:
        super().__init__(*steps)
        self.last_asked, self.closed = asyncio.Event(), asyncio.Event()
        self._hangs = hangs

    async def converse(self, request: ChatRequest) -> AsyncIterator[Any]:
        try:
            async for step in super().converse(request):
                if not self._steps:
                    self.last_asked.set()
                    if self._hangs:
                        await asyncio.Event().wait()
                yield step
        finally:
            self.closed.set()


async def run_of(owner: ChatUser, clients: Clients) -> AsyncGenerator[Any, None]:
    return recall(asked(owner, query=QUERY, background=await background_of(owner.pk)), clients)


async def assert_the_next_run_works(owner: ChatUser, clients: Clients) -> None:
    events = [event async for event in await run_of(owner, clients)]
    assert (one(events, RunFinished), events[-1].fallback) == (events[-1], "")
    assert clients.pool.get_stats()["pool_available"] == clients.pool.get_stats()["pool_size"]


async def test_a_slow_reader_gets_every_event_and_does_not_hold_the_model_up(memory: ChatUser) -> None:
    topic = await first_topic()
    words = [PartialReply(text, "") for text in ("It", "It was", "It was the cache")]
    chat = Watched(asks(topic), after(says('{"topics": []}'), *words))
    async with open_clients() as clients:
        events = []
        async for event in await run_of(memory, replace(clients, chat=chat, enricher=None)):
            if not events:
                await chat.last_asked.wait()
            events.append(event)
    assert [event.kind for event in events if not isinstance(event, ModelProgress)] == [
        "run_started", "query_enriched", "candidates_found", "turn_started", "model_replied", "topics_read",
        "turn_started", "model_replied", "run_finished",
    ]  # fmt: skip
    # Each text contains the ones before it, so the last one is enough.
    assert [event.text for event in events if isinstance(event, ModelProgress)] == ["It was the cache"]
    assert events[-1].fallback == ""


async def test_a_reader_that_leaves_ends_the_run_and_the_next_one_works(memory: ChatUser) -> None:
    topic = await first_topic()
    chat = Watched(asks(topic), says("{}"), hangs=True)
    async with open_clients() as clients:
        async with aclosing(await run_of(memory, replace(clients, chat=chat, enricher=None))) as events:
            async for event in events:
                if isinstance(event, TurnStarted) and event.turn == 2:
                    await chat.last_asked.wait()
                    chat.closed.clear()
                    break
        assert chat.closed.is_set()
        await assert_the_next_run_works(memory, clients)


async def test_cancelling_the_reader_ends_the_run_and_the_next_one_works(memory: ChatUser) -> None:
    chat = Watched(says("{}"), hangs=True)

    async def read(clients: Clients) -> Sequence[Any]:
        return [event async for event in await run_of(memory, replace(clients, chat=chat, enricher=None))]

    async with open_clients() as clients:
        reader = asyncio.create_task(read(clients))
        await chat.last_asked.wait()
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader
        assert chat.closed.is_set()
        await assert_the_next_run_works(memory, clients)


async def test_what_goes_wrong_in_a_run_is_raised_after_its_events_and_the_next_one_works(memory: ChatUser) -> None:
    class Broken:
        model = "broken"

        async def converse(self, request: ChatRequest) -> AsyncIterator[Reply]:
            raise RuntimeError("a fault")
            yield Reply(text="")

    kinds: list[str] = []

    async def read(clients: Clients) -> None:
        async for event in await run_of(memory, replace(clients, chat=Broken(), enricher=None)):
            kinds.append(event.kind)

    async with open_clients() as clients:
        with pytest.raises(RuntimeError, match="a fault"):
            await read(clients)
        assert kinds == ["run_started", "query_enriched", "candidates_found", "turn_started"]
        await assert_the_next_run_works(memory, clients)


# The time limit of a run includes everything: the enricher, the vector, the search and the choice, each of which
# leaves time for the next; after a late run the next one is as fast as ever.


class Stuck:
    """An embedding model that never answers."""

    profile = offline_embedder().profile

    async def embed(self, texts: Sequence[str]) -> Vectors:
        await passes(600)
        raise AssertionError


@asynccontextmanager
async def locked(table: str) -> AsyncIterator[None]:
    """Locks the table, so that nobody can read it."""
    async with await psycopg.AsyncConnection.connect(database.conninfo()) as connection:
        await connection.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
        yield


async def events_with(clients: Clients, owner: ChatUser, **parameters: Any) -> list[Any]:
    known = await background_of(owner.pk)
    request = replace(
        asked(owner, query=QUERY, background=known), parameters=replace(defaults(), **validate(parameters, DEFAULT))
    )
    return [event async for event in recall(request, clients)]


async def first_topic() -> int:
    topic = await Topic.objects.order_by("pk").afirst()
    assert topic
    return topic.pk


async def test_an_enricher_that_never_answers_leaves_time_to_choose() -> None:
    memory, topic = await memory_of_three(), await first_topic()
    chat = ScriptedChat(asks(topic), chooses(topic))
    late = ScriptedChat(slow(says(QUERY)))
    async with open_clients() as clients:
        events = await events_with(replace(clients, chat=chat, enricher=late), memory, seconds=90)
    assert one(events, QueryEnriched).note.startswith("failed")
    assert one(events, RunFinished).fallback == ""
    assert chat.requests[0].seconds < 60


async def test_the_enricher_is_given_a_third_of_the_time() -> None:
    memory, topic = await memory_of_three(), await first_topic()
    enricher = ScriptedChat(says(QUERY))
    async with open_clients() as clients:
        chat = ScriptedChat(asks(topic), chooses(topic))
        await events_with(replace(clients, chat=chat, enricher=enricher), memory, seconds=9, turn_seconds=9)
    # Its client gives up slightly before the conversation does; the run began slightly earlier.
    assert 2.5 < enricher.requests[0].seconds <= 3 * 0.97


async def test_an_embedding_model_that_never_answers_leaves_time_to_choose_by_words() -> None:
    memory, topic = await memory_of_three(), await first_topic()
    chat = ScriptedChat(asks(topic), chooses(topic))
    async with open_clients() as clients:
        events = await events_with(replace(clients, chat=chat, embedder=Stuck()), memory, seconds=90)
    assert "gave no vector within 45 s" in english(one(events, CandidatesFound).notes)
    assert one(events, RunFinished).fallback == ""
    assert chat.requests[0].seconds < 45


async def test_a_search_that_cannot_read_ends_the_run_in_time_and_the_next_run_is_well() -> None:
    memory, topic = await memory_of_three(), await first_topic()
    async with open_clients() as clients:
        async with locked("memoryapp_passagevector"):
            events = await events_with(clients, memory, seconds=0.5)
        late = one(events, RunFinished)
        assert (late.fallback, late.selected) == ("timeout", ())
        assert late.totals.seconds < 5
        for _ in range(20):
            chat = ScriptedChat(asks(topic), chooses(topic))
            run = await start(memory, QUERY, parameters={"seconds": 300})
            await execute(run.pk, replace(clients, chat=chat))
            assert one(await events_of(run), RunFinished).fallback == ""


async def test_a_reranker_that_is_switched_off_asks_no_model_at_all(settings: Any) -> None:
    settings.RERANKER_ENABLED = False
    memory = await memory_of_three()
    async with open_clients() as clients:
        events = await events_with(replace(clients, chat=Faulty(), enricher=Faulty()), memory)
    assert one(events, QueryEnriched) == QueryEnriched(QUERY, QUERY, note="disabled", seconds=0.0)
    assert (one(events, RunStarted).model, one(events, RunFinished).fallback) == ("", "disabled")


async def test_the_reranker_is_measured_alone() -> None:
    memory, topic = await memory_of_three(), await first_topic()
    name = "mnemoscope_reranker_duration_seconds_sum"
    before = REGISTRY.get_sample_value(name) or 0.0
    run = await start(memory, QUERY, parameters={"seconds": 300})
    async with open_clients() as clients:
        chat = ScriptedChat(asks(topic), chooses(topic))
        await execute(run.pk, replace(clients, chat=chat, enricher=ScriptedChat(replace(says(QUERY), seconds=0.3))))
    events = await events_of(run)
    finished = one(events, RunFinished)
    measured = (REGISTRY.get_sample_value(name) or 0.0) - before
    assert measured == pytest.approx(finished.rerank_seconds)
    assert sum(e.seconds for e in events if isinstance(e, ModelReplied)) <= measured < finished.totals.seconds - 0.3


class Peer:
    """A chat model that answers every prompt of every strategy, except those that hang."""

    model = "peer"
    replies: ClassVar[Mapping[str, str]] = {
        "enrich": QUERY,
        "plan": '{"queries": ["vLLM dies", "gpu memory utilization", "H100 crashes"]}',
        "expand": '{"passage": "Lower gpu_memory_utilization.", "paraphrases": ["memory of the H100"]}',
        "answer": "Lower gpu_memory_utilization [1].",
        "rerank": '{"topics": []}',
        "verify": '{"statements": [{"statement": 1, "sources": [1]}]}',
    }

    def __init__(self, hanging: Collection[str] = ()) -> None:
        self._hanging = hanging
        self.asked: list[str] = []

    async def converse(self, request: ChatRequest) -> AsyncIterator[Reply]:
        system = str(request.messages[0]["content"])
        (name,) = [name for name in self.replies if system.startswith(built_in()[name, "en"].system[:40])]
        self.asked.append(name)
        if name in self._hanging:
            await passes(600)
        is_reading = name == "rerank" and bool(request.force_tool)
        call = ToolCall(f"call-{len(self.asked)}", TOOL_NAME, json.dumps({"ids": [await first_topic()]}))
        yield Reply("" if is_reading else self.replies[name], (call,) if is_reading else ())


async def all_returned(pool: AsyncConnectionPool) -> None:
    """Waits until no connection is borrowed; a new one joins the pool a moment after it was opened."""
    async with asyncio.timeout(PATIENCE):
        while pool.get_stats()["pool_available"] < pool.get_stats()["pool_size"]:  # noqa: ASYNC110 - it announces nothing
            await asyncio.sleep(0.01)


CALLS = {name: ("embed", *(prompt.name for prompt in strategy.prompts)) for name, strategy in STRATEGIES.items()}
HANGING = [
    pytest.param(name, frozenset(hanging), id=f"{name}-{'+'.join(hanging)}")
    for name, calls in CALLS.items()
    for hanging in dict.fromkeys((*((call,) for call in calls), calls))
]


@pytest.mark.parametrize(("strategy", "hanging"), HANGING)
async def test_a_run_ends_within_its_seconds_whatever_call_hangs_and_the_next_is_well(
    strategy: str, hanging: frozenset[str]
) -> None:
    memory, seconds = await memory_of_three(), 60.0
    given = {"seconds": seconds, "turn_seconds": seconds}
    if strategy == "react":
        given |= {"tool_seconds": 30.0, "planner": "always", "enough_coverage": 1.0}
    async with open_clients() as opened:
        peer = Peer(hanging)
        late = replace(opened, chat=peer, enricher=peer, **({"embedder": Stuck()} if "embed" in hanging else {}))
        run = await start(memory, QUERY, strategy=strategy, parameters=given)
        await execute(run.pk, late)
        finished = one(await events_of(run), RunFinished)
        # A tenth for what the program itself does on a busy machine.
        assert finished.totals.seconds < 1.1 * seconds
        assert hanging & {"embed"} or set(peer.asked) >= hanging & {"enrich", "plan", "rerank"}
        well = Peer()
        after = await start(memory, QUERY, strategy=strategy, parameters={**given, "seconds": 300.0})
        await execute(after.pk, replace(opened, chat=well, enricher=well))
        assert one(await events_of(after), RunFinished).fallback == ""
        await all_returned(opened.pool)
