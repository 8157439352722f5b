"""The time limit of a run includes everything: the enricher, the vector, the search and the choice, each of which
leaves time for the next; after a late run the next one is as fast as ever."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, ClassVar

import psycopg
import pytest
from prometheus_client import REGISTRY
from psycopg_pool import AsyncConnectionPool

from memoryapp.engine.chat.protocol import ChatRequest, Reply
from memoryapp.engine.embeddings import Vectors
from memoryapp.engine.events import CandidatesFound, ModelReplied, QueryEnriched, RunFinished, RunStarted, ToolCall
from memoryapp.engine.notes import english
from memoryapp.engine.prompt_registry import built_in
from memoryapp.engine.prompts.rerank import TOOL_NAME
from memoryapp.engine.strategies import DEFAULT, STRATEGIES
from memoryapp.models import ChatUser, Topic
from memoryapp.platform import database
from memoryapp.platform.llm.clients import offline_embedder
from memoryapp.runs.clients import Clients, open_clients
from memoryapp.runs.lifecycle import execute
from memoryapp.runs.parameters import defaults, validate
from memoryapp.runs.recall.stages import recall
from tests.engine.scripted import ScriptedChat, asks, chooses, says, slow
from tests.runs.test_recall_stages import asked, one
from tests.support.clock import PATIENCE, passes
from tests.support.executing import QUERY, Faulty, background_of, events_of, memory_of_three, start

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("thread_closed")]


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
