"""A run's life in the rows: recorded, claimed once, ended once, whoever dies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone

from memoryapp import answer, runs
from memoryapp.clients import Clients, offline_embedder, open_clients
from memoryapp.database import conninfo
from memoryapp.engine.embeddings import EmbeddingError, Vectors
from memoryapp.engine.events import CandidatesFound, ModelReplied, RunFinished, RunStarted, TurnStarted
from memoryapp.engine.llm import ChatRequest, LLMUnavailable, Reply
from memoryapp.ingestion import add_messages
from memoryapp.models import ChatUser, PassageVector, Run, RunEvent
from memoryapp.notices import say_nothing
from memoryapp.parameters import ParameterError
from memoryapp.recording import Recorder, RunClosed
from memoryapp.vectors import embed_pending
from tests.conftest import record, talk

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("thread_closed")]

TOPICS = [
    ("vLLM on H100 crashes at start", ["vLLM on our H100 dies with out of memory", "Lower gpu_memory_utilization"]),
    ("Birthday cake for Masha", ["Which cake for a birthday of ten?", "A honey cake keeps for two days"]),
    ("Knee after the run", ["My meniscus hurts after ten kilometres", "Rest, ice, and see a doctor"]),
]


class Silent:
    """A chat model that never answers; ``asked`` is set once it is spoken to."""

    model = "silent"

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def converse(self, request: ChatRequest) -> AsyncIterator[Reply]:
        self.asked.set()
        await asyncio.Event().wait()
        yield Reply("")


class Talkative:
    """A chat model whose words no database stores as they are."""

    model = "talkative"

    async def converse(self, request: ChatRequest) -> AsyncIterator[Reply]:
        yield Reply("nothing \x00 to \ud800 say", reasoning="\x00")


class Speechless:
    """An embedding model that is down."""

    profile = offline_embedder().profile

    async def embed(self, texts: Sequence[str]) -> Vectors:
        raise EmbeddingError("The embedding model is out of reach.")


class Broken:
    """A chat model whose line is down."""

    model = "broken"

    async def converse(self, request: ChatRequest) -> AsyncIterator[Reply]:
        raise LLMUnavailable("The endpoint is out of reach.")
        yield Reply("")


class Faulty:
    """A bug of ours."""

    model = "faulty"

    async def converse(self, request: ChatRequest) -> AsyncIterator[Reply]:
        raise ZeroDivisionError
        yield Reply("")


@pytest.fixture
async def memory() -> ChatUser:
    def make() -> ChatUser:
        anna = ChatUser.objects.create(name="anna")
        talk(anna, *TOPICS)
        return anna

    anna = await sync_to_async(make)()
    await embed_pending(offline_embedder())
    return anna


async def start(memory: ChatUser, query: str = "vLLM H100 out of memory", **given: Any) -> Run:
    return await sync_to_async(runs.start)(memory, query, **given)


async def events_of(run: Run) -> list[Any]:
    return [item.event for item in await sync_to_async(runs.stored)(run.pk)]


async def test_a_run_is_its_events_and_the_row_says_the_same(memory: ChatUser) -> None:
    run = await start(memory)
    async with open_clients() as clients:
        await runs.execute(run.pk, clients)
    await run.arefresh_from_db()
    events = await events_of(run)
    assert [type(event) for event in (events[0], events[-1])] == [RunStarted, RunFinished]
    assert sum(isinstance(event, RunFinished) for event in events) == 1
    assert run.state == Run.State.FINISHED
    assert (run.selected_count, run.turns, run.tool_calls) == (len(events[-1].selected), 2, 1)
    assert events[-1].selected[0].id == next(
        c.id for e in events if isinstance(e, CandidatesFound) for c in e.candidates if "vLLM" in c.summary
    )


async def test_the_answer_for_the_assistant_holds_the_real_messages(memory: ChatUser) -> None:
    run = await start(memory)
    async with open_clients() as clients:
        await runs.execute(run.pk, clients)
    told = await sync_to_async(lambda: answer.document(Run.objects.get(pk=run.pk)))()
    assert told["fallback"] is None
    assert "Lower gpu_memory_utilization" in told["context"]
    assert told["topics"][0]["rank"] == 1
    assert told["topics"][0]["reason"]


async def test_two_that_claim_one_run_do_not_mix(memory: ChatUser) -> None:
    run = await start(memory)
    async with open_clients() as clients:
        await asyncio.gather(*(runs.execute(run.pk, clients) for _ in range(4)))
    seqs = [seq async for seq in RunEvent.objects.filter(run=run).values_list("seq", flat=True)]
    assert seqs == list(range(1, len(seqs) + 1))
    assert len([event for event in await events_of(run) if isinstance(event, RunStarted)]) == 1


async def test_a_model_out_of_reach_leaves_the_nearest_by_vectors(memory: ChatUser) -> None:
    run = await start(memory)
    async with open_clients() as clients:
        await runs.execute(run.pk, replace(clients, chat=Broken()))
    finished = (await events_of(run))[-1]
    assert finished.fallback == "llm_error"
    assert [chosen.id for chosen in finished.selected] == list(finished.baseline[:5])


async def test_a_bug_ends_the_run_as_crashed_and_is_not_swallowed(memory: ChatUser) -> None:
    run = await start(memory)
    async with open_clients() as clients:
        with pytest.raises(ZeroDivisionError):
            await runs.execute(run.pk, replace(clients, chat=Faulty()))
    assert (await events_of(run))[-1].fallback == "crashed"


async def test_a_run_stopped_in_the_middle_is_closed_at_once(memory: ChatUser) -> None:
    run = await start(memory, parameters={"seconds": 60, "turn_seconds": 60})
    async with open_clients() as clients:
        silent = Silent()
        task = asyncio.create_task(runs.execute(run.pk, replace(clients, chat=silent)))
        await silent.asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert (await events_of(run))[-1].fallback == "abandoned"


async def test_a_run_whose_process_was_killed_is_swept_and_cannot_be_written_to_again(memory: ChatUser) -> None:
    run = await start(memory, parameters={"seconds": 60, "turn_seconds": 60})
    async with open_clients() as clients:
        silent = Silent()
        task = asyncio.create_task(runs.execute(run.pk, replace(clients, chat=silent)))
        await silent.asked.wait()
        long_ago = timezone.now() - timedelta(minutes=1)
        await Run.objects.filter(pk=run.pk).aupdate(heartbeat_at=long_ago)
        assert await sync_to_async(runs.close_abandoned)() == 1
        assert await sync_to_async(runs.close_abandoned)() == 0
        recorder = Recorder(run.pk, memory.pk, clients.pool, say_nothing)
        with pytest.raises(RunClosed):
            await recorder.record((await events_of(run))[0])
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    events = await events_of(run)
    assert [event.kind for event in events].count("run_finished") == 1
    assert events[-1].fallback == "abandoned"


async def test_a_run_nobody_began_waits_for_the_worker(memory: ChatUser) -> None:
    run = await start(memory)
    assert await sync_to_async(runs.waiting)() == []
    await Run.objects.filter(pk=run.pk).aupdate(created_at=timezone.now() - timedelta(minutes=1))
    assert await sync_to_async(runs.waiting)() == [run.pk]


async def test_another_persons_topics_are_never_candidates(memory: ChatUser) -> None:
    boris = await ChatUser.objects.acreate(name="boris")
    run = await start(boris)
    async with open_clients() as clients:
        await runs.execute(run.pk, clients)
    events = await events_of(run)
    assert next(event for event in events if isinstance(event, CandidatesFound)).candidates == ()
    assert events[-1].fallback == "no_candidates"


async def test_the_vector_strategy_asks_no_model(memory: ChatUser) -> None:
    run = await start(memory, strategy="vector")
    async with open_clients() as clients:
        await runs.execute(run.pk, replace(clients, chat=Faulty()))
    finished = (await events_of(run))[-1]
    assert [chosen.id for chosen in finished.selected] == list(finished.baseline[:5])
    assert finished.totals.turns == 0


@pytest.mark.parametrize(
    ("strategy", "parameters", "word"),
    [
        ("psychic", {}, "psychic"),
        ("flash", {"speed": 3}, "speed"),
        ("flash", {"max_topics": "many"}, "max_topics"),
        ("flash", {"max_topics": 0}, "between"),
        ("flash", {"tool_mode": "perhaps"}, "tool_mode"),
    ],
)
async def test_a_wrong_parameter_is_named_before_anything_runs(
    memory: ChatUser, strategy: str, parameters: dict[str, Any], word: str
) -> None:
    with pytest.raises(ParameterError, match=word):
        await start(memory, strategy=strategy, parameters=parameters)
    assert await Run.objects.acount() == 0


async def test_words_that_no_database_stores_do_not_cost_the_run(memory: ChatUser) -> None:
    run = await start(memory)
    async with open_clients() as clients:
        await runs.execute(run.pk, replace(clients, chat=Talkative()))
    events = await events_of(run)
    assert events[-1].fallback == "protocol_violation"
    replied = next(event for event in events if isinstance(event, ModelReplied))
    assert replied.text == "nothing \ufffd to ? say"


async def test_a_database_that_drops_its_connections_costs_no_run(memory: ChatUser) -> None:
    run = await start(memory)
    async with open_clients() as clients:
        await clients.embedder.embed(["warm"])
        await _drop_connections_of(clients)
        await runs.execute(run.pk, clients)
    assert (await events_of(run))[-1].fallback == ""
    assert [seq async for seq in RunEvent.objects.filter(run=run).values_list("seq", flat=True)] == list(
        range(1, len(await events_of(run)) + 1)
    )


async def _drop_connections_of(clients: Clients) -> None:
    async with clients.pool.connection() as connection:
        row = await (await connection.execute("SELECT pg_backend_pid()")).fetchone()
    assert row
    async with await psycopg.AsyncConnection.connect(conninfo(), autocommit=True) as other:
        await other.execute("SELECT pg_terminate_backend(%s)", [row[0]])


@pytest.mark.parametrize("strategy", ["flash", "vector"])
async def test_without_the_embedding_model_words_decide_and_the_run_says_so(memory: ChatUser, strategy: str) -> None:
    run = await start(memory, strategy=strategy)
    async with open_clients() as clients:
        await runs.execute(run.pk, replace(clients, chat=Broken(), embedder=Speechless()))
    events = await events_of(run)
    found = next(event for event in events if isinstance(event, CandidatesFound))
    assert "out of reach" in found.note
    assert {candidate.vector_rank for candidate in found.candidates} == {0}
    assert events[-1].fallback == {"flash": "llm_error", "vector": "no_vectors"}[strategy]
    assert events[-1].selected[0].id == found.candidates[0].id


async def test_passages_that_wait_for_their_vectors_are_counted(memory: ChatUser) -> None:
    await PassageVector.objects.all().adelete()
    run = await start(memory)
    async with open_clients() as clients:
        await runs.execute(run.pk, clients)
    found = next(event for event in await events_of(run) if isinstance(event, CandidatesFound))
    assert found.without_vector == found.passages > 0


async def test_the_model_is_told_of_the_latest_topics_and_the_last_of_the_talk(memory: ChatUser) -> None:
    await sync_to_async(add_messages)(memory, [record(900, "We are off to Kazbegi tomorrow")])
    run = await start(memory)
    async with open_clients() as clients:
        await runs.execute(run.pk, clients)
    told = next(event for event in await events_of(run) if isinstance(event, TurnStarted)).prompt
    assert "off to Kazbegi" in told[1].content
    assert "Knee after the run" in told[0].content
