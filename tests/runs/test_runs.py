"""A run's life in the rows: recorded, claimed once, ended once, whichever process dies; its replies stored
unchanged."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone

from memoryapp.engine.chat.client import ChatOptions, HttpChat
from memoryapp.engine.chat.media import MediaContent, MediaError, read_part, with_media
from memoryapp.engine.chat.protocol import ChatRequest, LLMUnavailable, Reply
from memoryapp.engine.events import (
    CandidatesFound,
    Event,
    MediaItem,
    ModelReplied,
    RunFinished,
    RunStarted,
    TopicsRead,
    TurnStarted,
)
from memoryapp.engine.notes import english
from memoryapp.engine.prompt_registry import built_in
from memoryapp.engine.prompts.rerank import ANSWER_SCHEMA, TOOL, TOOL_NAME
from memoryapp.intake import invariants
from memoryapp.intake.messages import add_messages
from memoryapp.memory import content as media
from memoryapp.models import ChatUser, PassageVector, Prompt, RawReply, Run, RunEvent
from memoryapp.platform.database import conninfo, pool, rests
from memoryapp.runs import claims, endings, lifecycle
from memoryapp.runs.claims import claim, request_of
from memoryapp.runs.clients import Clients, open_clients
from memoryapp.runs.journal import Recorder, RunClosed
from memoryapp.runs.notices import ignore
from memoryapp.runs.parameters import ParameterError
from memoryapp.upkeep.pipeline import recalls
from tests.conftest import record
from tests.engine.endpoint import END, USAGE, delta, streams
from tests.engine.scripted import ScriptedChat, asks, chooses, collect
from tests.support.answers import document_of
from tests.support.clock import PATIENCE
from tests.support.executing import Faulty, Silent, Speechless, events_of, executed, memory_of_three, start, unanswered

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("thread_closed")]


@pytest.fixture
async def memory() -> ChatUser:
    return await memory_of_three()


async def test_a_run_is_its_events_and_the_row_says_the_same(memory: ChatUser) -> None:
    run = await start(memory)
    await executed(run)
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
    await executed(run)
    document = await sync_to_async(lambda: document_of(Run.objects.get(pk=run.pk)))()
    assert document["fallback"] is None
    assert "Lower gpu_memory_utilization" in document["context"]
    assert document["topics"][0]["rank"] == 1
    assert document["topics"][0]["reason"]


async def test_two_that_claim_one_run_do_not_mix(memory: ChatUser) -> None:
    run = await start(memory)
    async with open_clients() as clients:
        await asyncio.gather(*(lifecycle.execute(run.pk, clients) for _ in range(4)))
    seqs = [seq async for seq in RunEvent.objects.filter(run=run).values_list("seq", flat=True)]
    assert seqs == list(range(1, len(seqs) + 1))
    assert len([event for event in await events_of(run) if isinstance(event, RunStarted)]) == 1


async def test_a_model_out_of_reach_leaves_the_nearest_by_vectors(memory: ChatUser) -> None:
    run = await start(memory)
    finished = (await executed(run, chat=Broken()))[-1]
    assert finished.fallback == "llm_error"
    assert [chosen.id for chosen in finished.selected] == list(finished.baseline[:5])


async def test_a_bug_ends_the_run_as_crashed_and_is_not_swallowed(memory: ChatUser) -> None:
    run = await start(memory)
    async with open_clients() as clients:
        with pytest.raises(ZeroDivisionError):
            await lifecycle.execute(run.pk, replace(clients, chat=Faulty()))
    assert (await events_of(run))[-1].fallback == "crashed"


async def test_runs_that_nobody_began_are_executed_side_by_side(
    memory: ChatUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = [await start(memory, parameters={"seconds": 30, "turn_seconds": 30}) for _ in range(2)]
    await Run.objects.aupdate(created_at=timezone.now() - timedelta(minutes=1))

    @asynccontextmanager
    async def opened() -> AsyncIterator[Clients]:
        async with open_clients() as made:
            yield replace(made, chat=Companionable())

    monkeypatch.setattr(recalls, "open_clients", opened)
    await sync_to_async(recalls.execute_waiting_runs)()
    for run in late:
        assert (await events_of(run))[-1].fallback == "protocol_violation"


async def test_a_run_stopped_in_the_middle_is_closed_at_once(memory: ChatUser) -> None:
    run = await start(memory, parameters={"seconds": PATIENCE, "turn_seconds": PATIENCE})
    async with open_clients() as clients:
        silent = Silent()
        task = asyncio.create_task(lifecycle.execute(run.pk, replace(clients, chat=silent)))
        await silent.asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert (await events_of(run))[-1].fallback == "abandoned"


async def test_a_run_whose_process_was_killed_is_swept_and_cannot_be_written_to_again(memory: ChatUser) -> None:
    run = await start(memory, parameters={"seconds": PATIENCE, "turn_seconds": PATIENCE})
    async with open_clients() as clients:
        silent = Silent()
        task = asyncio.create_task(lifecycle.execute(run.pk, replace(clients, chat=silent)))
        await silent.asked.wait()
        # A killed process neither renews its lease nor writes; this one lives, and the sweep skips a run that is being
        # written.
        await clients.leases.close()
        async with asyncio.timeout(PATIENCE):
            while not await RunEvent.objects.filter(run=run, kind="turn_started").aexists():
                pass
        long_ago = timezone.now() - timedelta(minutes=1)
        await Run.objects.filter(pk=run.pk).aupdate(heartbeat_at=long_ago)
        assert await sync_to_async(endings.close_abandoned)() == 1
        assert await sync_to_async(endings.close_abandoned)() == 0
        recorder = Recorder(run.pk, clients.journal, ignore)
        *before, last = await events_of(run)
        for event in before:
            await recorder.record(event)
        with pytest.raises(RunClosed):
            await recorder.record(last)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    events = await events_of(run)
    assert [event.kind for event in events].count("run_finished") == 1
    assert events[-1].fallback == "abandoned"


async def test_a_run_that_cannot_be_closed_keeps_no_other_open(
    memory: ChatUser, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    finished, long_ago = RunFinished((), (), "", ""), timezone.now() - timedelta(minutes=1)
    for _ in range(2):
        run = await start(memory, "a secret question")
        begun = {"state": Run.State.RUNNING, "heartbeat_at": long_ago, "attempt": endings.MOST_ATTEMPTS}
        await Run.objects.filter(pk=run.pk).aupdate(**begun)
    columns = iter(({"turns": -1}, endings.finished_columns([finished], finished)))
    with monkeypatch.context() as patched:
        patched.setattr(endings, "finished_columns", lambda *_: next(columns))
        assert await sync_to_async(endings.close_abandoned)() == 1
    assert "IntegrityError" in caplog.text
    assert "secret" not in caplog.text
    rests.end_all()
    assert await sync_to_async(endings.close_abandoned)() == 1
    assert not await Run.objects.filter(state=Run.State.RUNNING).aexists()


async def test_a_run_gives_signs_of_life_as_long_as_it_goes_on(
    memory: ChatUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "RENEWED_EVERY", 0.02)
    async with open_clients() as clients:
        seen: set[Any] = set()
        async with unanswered(memory, clients) as run, asyncio.timeout(PATIENCE):
            while len(seen) < 4:
                seen.add((await Run.objects.aget(pk=run.pk)).heartbeat_at)
        ended = (await Run.objects.aget(pk=run.pk)).heartbeat_at
        renewing = [other for other in asyncio.all_tasks() if "Leases._renew" in repr(other.get_coro())]
        await asyncio.wait_for(asyncio.gather(*renewing), PATIENCE)
        assert (await Run.objects.aget(pk=run.pk)).heartbeat_at == ended


async def test_runs_that_wait_for_a_connection_are_no_abandoned_ones(
    memory: ChatUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "RENEWED_EVERY", 0.02)
    async with (
        open_clients() as clients,
        unanswered(memory, clients) as run,
        AsyncExitStack() as others,
        asyncio.timeout(PATIENCE),
    ):
        for _ in range(clients.pool.max_size):
            await others.enter_async_context(clients.pool.connection())
        claimed = (await Run.objects.aget(pk=run.pk)).heartbeat_at
        while (await Run.objects.aget(pk=run.pk)).heartbeat_at == claimed:
            pass


async def test_one_statement_gives_signs_of_life_for_every_run_of_a_process(
    memory: ChatUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "RENEWED_EVERY", 0.02)
    begun = [await start(memory, parameters={"seconds": PATIENCE, "turn_seconds": PATIENCE}) for _ in range(5)]
    async with open_clients() as clients:
        silent = [Silent() for _ in begun]
        tasks = [
            asyncio.create_task(lifecycle.execute(run.pk, replace(clients, chat=chat)))
            for run, chat in zip(begun, silent, strict=True)
        ]
        for chat in silent:
            await chat.asked.wait()
        claimed = {run.heartbeat_at async for run in Run.objects.all()}
        async with asyncio.timeout(PATIENCE):
            while len(moments := {run.heartbeat_at async for run in Run.objects.all()}) > 1 or moments & claimed:
                pass
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    assert not await Run.objects.filter(state=Run.State.RUNNING).aexists()


async def test_a_run_nobody_began_waits_for_the_worker(memory: ChatUser) -> None:
    run = await start(memory)
    assert await sync_to_async(lifecycle.unclaimed)(timedelta(seconds=PATIENCE)) == []
    await Run.objects.filter(pk=run.pk).aupdate(created_at=timezone.now() - timedelta(minutes=1))
    assert await sync_to_async(lifecycle.unclaimed)() == [run.pk]


async def test_another_persons_topics_are_never_candidates(memory: ChatUser) -> None:
    boris = await ChatUser.objects.acreate(name="boris")
    run = await start(boris)
    events = await executed(run)
    assert next(event for event in events if isinstance(event, CandidatesFound)).candidates == ()
    assert events[-1].fallback == "no_candidates"


async def test_the_vector_strategy_asks_no_model(memory: ChatUser) -> None:
    run = await start(memory, strategy="vector")
    finished = (await executed(run, chat=Faulty()))[-1]
    assert [chosen.id for chosen in finished.selected] == list(finished.baseline[:5])
    assert finished.totals.turns == 0
    more = await start(memory, strategy="vector", parameters={"max_topics": 2})
    selected = (await executed(more, chat=Faulty()))[-1].selected
    assert len(selected) == 2
    assert [topic.score for topic in selected] == sorted((topic.score for topic in selected), reverse=True)


@pytest.mark.parametrize(
    ("strategy", "parameters", "word"),
    [
        ("psychic", {}, "psychic"),
        ("flash", {"speed": 3}, "There is no parameter “speed”. The strategy “flash” takes: .*max_topics"),
        ("flash", {"threshold": 0.3}, "The strategy “flash” has no parameter “threshold”. It takes: .*max_topics"),
        ("vector", {"read_chars": 5000}, "The strategy “vector” has no parameter “read_chars”. It takes: .*max_topics"),
        ("plain", {"planner": "off"}, "The strategy “plain” has no parameter “planner”"),
        ("flash", {"max_topics": "many"}, "max_topics"),
        ("flash", {"max_topics": 0}, "between"),
        ("flash", {"tool_mode": "perhaps"}, "tool_mode"),
        ("flash", {"since": "yesterday"}, "since"),
        ("flash", {"until": "2025-02-30"}, "until"),
        ("flash", {"author": "a" * 201}, "author"),
        ("flash", {"channel": 7}, "channel"),
        ("flash", {"since": "2025-05-02", "until": "2025-05-01"}, "later"),
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
    events = await executed(run, chat=Talkative())
    assert events[-1].fallback == "protocol_violation"
    replied = next(event for event in events if isinstance(event, ModelReplied))
    assert replied.text == "nothing \ufffd to \ufffd say"


async def test_a_database_that_drops_its_connections_costs_no_run(memory: ChatUser) -> None:
    run = await start(memory)
    async with open_clients() as clients:
        await clients.embedder.embed(["warm"])
        await _drop_connections_of(clients)
        await lifecycle.execute(run.pk, clients)
    assert (await events_of(run))[-1].fallback == ""
    assert [seq async for seq in RunEvent.objects.filter(run=run).values_list("seq", flat=True)] == list(
        range(1, len(await events_of(run)) + 1)
    )


async def _drop_connections_of(clients: Clients) -> None:
    async with clients.pool.connection() as connection:
        row = await (await connection.execute("SELECT pg_backend_pid()")).fetchone()
    assert row
    async with await psycopg.AsyncConnection.connect(conninfo(), autocommit=True) as other:
        await other.execute("SELECT pg_terminate_backend(%s, 10000)", [row[0]])


@pytest.mark.parametrize("strategy", ["flash", "vector"])
async def test_without_the_embedding_model_words_decide_and_the_run_says_so(memory: ChatUser, strategy: str) -> None:
    run = await start(memory, strategy=strategy)
    events = await executed(run, chat=Broken(), embedder=Speechless())
    found = next(event for event in events if isinstance(event, CandidatesFound))
    assert "out of reach" in english(found.notes)
    assert {candidate.vector_rank for candidate in found.candidates} == {0}
    assert events[-1].fallback == {"flash": "llm_error", "vector": "no_vectors"}[strategy]
    assert events[-1].selected[0].id == found.candidates[0].id


async def test_passages_that_wait_for_their_vectors_are_counted(memory: ChatUser) -> None:
    await PassageVector.objects.all().adelete()
    run = await start(memory)
    await executed(run)
    found = next(event for event in await events_of(run) if isinstance(event, CandidatesFound))
    assert found.without_vector == found.passages > 0


async def test_the_model_receives_the_latest_topics_and_the_latest_messages(memory: ChatUser) -> None:
    await sync_to_async(add_messages)(memory, [record(900, "We are off to Kazbegi tomorrow")])
    run = await start(memory)
    await executed(run)
    prompt = next(event for event in await events_of(run) if isinstance(event, TurnStarted)).prompt
    assert "off to Kazbegi" in prompt[1].content
    assert "Knee after the run" in prompt[0].content


async def test_the_conversation_that_was_sent_stands_in_place_of_the_active_session(memory: ChatUser) -> None:
    await sync_to_async(add_messages)(memory, [record(900, "We are off to Kazbegi tomorrow")])
    at = "2026-03-09T10:00:00Z"
    messages = [{"id": "x1", "role": "user", "author": "Anna", "ts": at, "text": "The server is down"}]
    run = await start(memory, messages=messages)
    await executed(run)
    prompt = next(event for event in await events_of(run) if isinstance(event, TurnStarted)).prompt[1].content
    assert "The server is down" in prompt
    assert "Kazbegi" not in prompt


async def test_a_message_that_was_sent_and_is_kept_has_its_number(memory: ChatUser) -> None:
    kept = await memory.message_set.order_by("pk").afirst()
    assert kept
    messages = [{"id": kept.external_id, "role": "user", "text": "again"}, {"role": "user", "text": "new"}]
    run = await start(memory, messages=messages)
    async with pool() as connections:
        claimed = await claim(run.pk, connections)
        assert claimed
        asked = await request_of(claimed, connections)
    assert [message.id for message in asked.messages or ()] == [kept.pk, -2]


async def test_a_run_tried_again_takes_its_parents_candidates_and_tells_the_other_prompt(memory: ChatUser) -> None:
    first = await memory.topic_set.order_by("pk").afirst()
    assert first
    parent = await start(memory)
    text = built_in()["rerank", "en"]
    prompt = await Prompt.objects.acreate(
        name="rerank", language="en", version=1, system=f"{text.system} Be brief.", user=text.user, made_by="ada"
    )
    async with open_clients() as clients:
        await lifecycle.execute(parent.pk, replace(clients, chat=ScriptedChat(asks(first.pk), chooses(first.pk))))
        again = await start(memory, parent=parent, prompt=prompt)
        chat = ScriptedChat(asks(first.pk), chooses(first.pk))
        await lifecycle.execute(again.pk, replace(clients, chat=chat, embedder=Speechless()))
    before, after = await events_of(parent), await events_of(again)
    found = [next(event for event in events if isinstance(event, CandidatesFound)) for events in (before, after)]
    assert found[0].candidates == found[1].candidates
    started, turn = after[0], next(event for event in after if isinstance(event, TurnStarted))
    assert (started.parent, started.prompt_version, turn.prompt_version) == (
        str(parent.pk),
        "rerank-en-1",
        "rerank-en-1",
    )
    assert "Be brief." in turn.prompt[0].content
    await again.arefresh_from_db()
    assert (again.prompt_version, again.fallback) == ("rerank-en-1", "")


async def test_media_that_are_lost_end_the_run_and_are_not_swallowed(memory: ChatUser) -> None:
    run = await start(memory, media=[MediaItem("0" * 64, "image", "image/png", "", 3)])
    async with open_clients() as clients:
        with pytest.raises(MediaError):
            await lifecycle.execute(run.pk, clients)
    (finished,) = await events_of(run)
    assert finished.fallback == "crashed"


# Chat models that make a run fail or wait.


class Talkative:
    """A chat model with text that no database stores unchanged."""

    model = "talkative"

    async def converse(self, request: ChatRequest) -> AsyncIterator[Reply]:
        yield Reply("nothing \x00 to \ud800 say", reasoning="\x00")


class Broken:
    """A chat model whose endpoint is unreachable."""

    model = "broken"

    async def converse(self, request: ChatRequest) -> AsyncIterator[Reply]:
        raise LLMUnavailable("The endpoint is out of reach.")
        yield Reply("")


class Companionable:
    """A chat model that answers only after two questions have arrived."""

    model = "companionable"

    def __init__(self) -> None:
        self.asked = 0
        self.both = asyncio.Event()

    async def converse(self, request: ChatRequest) -> AsyncIterator[Reply]:
        self.asked += 1
        if self.asked == 2:
            self.both.set()
        await self.both.wait()
        yield Reply('{"topics": []}')


# The assistant messages of a run are stored unchanged: what is in the rows can be sent again, byte for byte.


PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
# Names out of order, unusual numbers, thoughts in parts, and characters that a database or UTF-8 cannot store.
ODD: dict[str, Any] = {
    "zeta": {"b": 2.50, "a": 10**20, "weight": 1e-7},
    "reasoning_details": [{"type": "reasoning.encrypted", "data": "x/y+z==", "index": 0, "format": None}],
    "annotations": [],
    "reasoning": "Цена\u2028 a\u0000b",
}


def call(index: int, name: str, arguments: Any) -> dict[str, Any]:
    return {
        "index": index,
        "id": f"call-{index}",
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


def completion(content: Any, stream: bool, **message: Any) -> httpx.Response:
    whole = {"role": "assistant", "content": content, **message}
    if stream:
        return streams(delta(**whole), delta(finish="stop"), USAGE, END)
    choices = [{"finish_reason": "stop", "message": whole}]
    return httpx.Response(200, json={"id": "gen-1", "model": "acme/flash-001", "choices": choices})


class Endpoint:
    """Answers with the script, and keeps the bodies as received."""

    def __init__(self, *answers: httpx.Response) -> None:
        self._answers = list(answers)
        self.bodies: list[bytes] = []

    def __call__(self, sent: httpx.Request) -> httpx.Response:
        self.bodies.append(sent.content)
        return self._answers.pop(0)

    def chat(self, options: ChatOptions) -> HttpChat:
        client = httpx.AsyncClient(transport=httpx.MockTransport(self))
        return HttpChat(client, "https://models.example/v1/", "secret-key", "acme/flash", options)


def stored_requests(events: Sequence[Event], replies: Mapping[int, str], attached: MediaContent) -> list[ChatRequest]:
    """Returns every request of a run, made from stored rows alone."""
    requests, messages, calls = [], list[dict[str, Any]](), list[str]()
    answered: set[int] = set()
    for event in events:
        if isinstance(event, TurnStarted):
            ids = iter(calls)
            for each in event.prompt:
                called = {"tool_call_id": next(ids)} if each.role == "tool" else {}
                message = {"role": each.role, **called, "content": each.content}
                messages.append(with_media(message, [attached]) if each.media else message)
            calls = []
            may_call = event.tool_choice != "none"
            requests.append(
                ChatRequest(
                    messages=tuple(messages),
                    tools=(TOOL,) if may_call else (),
                    tools_off=(TOOL,) if answered and not may_call else (),
                    force_tool=TOOL_NAME if event.tool_choice == "forced" else "",
                    answer_schema=ANSWER_SCHEMA if event.response_format == "json_schema" else None,
                )
            )
        elif isinstance(event, TopicsRead):
            calls.append(event.call)
            if event.turn not in answered:
                answered.add(event.turn)
                messages.append(json.loads(replies[event.turn]))
    return requests


async def raw_replies(run: Run) -> dict[int, str]:
    """Returns the stored messages by their turn."""
    rows = RawReply.objects.filter(event__run=run).select_related("event").order_by("event__seq")
    return {row.event.payload["turn"]: row.message async for row in rows}


@pytest.fixture
async def memory_with_replies(tmp_path: Path, settings: Any) -> ChatUser:
    settings.MEDIA_ROOT = tmp_path
    return await memory_of_three()


@pytest.mark.parametrize("options", [ChatOptions(), ChatOptions(stream=True, reasoning_effort="")], ids=str)
async def test_a_stored_run_sent_again_is_the_same_byte_for_byte(
    memory_with_replies: ChatUser, options: ChatOptions
) -> None:
    first, second, third = [topic.pk async for topic in memory_with_replies.topic_set.order_by("pk")]
    parts = [{"type": "text", "text": "Let me look."}, {"type": "thinking", "thinking": "hm"}]
    lone = json.dumps({"ids": [third], "why": "\ud800"})
    turns: list[tuple[Any, dict[str, Any]]] = [
        (parts, {"tool_calls": [call(0, TOOL_NAME, {"ids": [first]}), call(1, "open/it", "{")], **ODD}),
        ("", {}),
        (None, {"tool_calls": [call(0, f"functions.{TOOL_NAME}:0", f'{{"ids": [{second}]}}')], "refusal": None}),
        ("looking", {"tool_calls": [call(0, TOOL_NAME, lone)], "reasoning_content": "deep"}),
        (f'{{"topics": [{first}]}}', ODD),
    ]
    attached = read_part(PICTURE)
    item = await sync_to_async(media.store)(memory_with_replies, attached)
    run = await start(memory_with_replies, media=[item], parameters={"max_tool_calls": 3})
    endpoint = Endpoint(*(completion(content, options.stream, **message) for content, message in turns))
    await executed(run, chat=endpoint.chat(options), enricher=None)
    events, replies = await events_of(run), await raw_replies(run)
    assert [topic.id for topic in events[-1].selected] == [f"Topic:{first}"]
    requests = stored_requests(events, replies, attached)
    assert len(requests) == len(endpoint.bodies) == 5
    for request, sent in zip(requests, endpoint.bodies, strict=True):
        again = Endpoint(completion("", options.stream, tool_calls=[call(0, TOOL_NAME, "{}")]))
        await collect(again.chat(options).converse(request))
        assert again.bodies == [sent]


async def test_what_came_beside_the_text_is_kept_with_the_run_and_apart_from_its_events(
    memory_with_replies: ChatUser,
) -> None:
    (first, *_) = [topic.pk async for topic in memory_with_replies.topic_set.order_by("pk")]
    run = await start(memory_with_replies)
    script = asks(first), replace(chooses(first))
    await executed(run, chat=ScriptedChat(*script), enricher=None)
    assert [json.loads(text) for text in (await raw_replies(run)).values()] == [s.outcome.message for s in script]
    payloads = [row.payload async for row in RunEvent.objects.filter(run=run, kind="model_replied")]
    assert not any("message" in payload for payload in payloads)
    assert await sync_to_async(lambda: list(invariants.violations(memory_with_replies)))() == []


async def test_a_reply_beside_another_event_is_a_violation(memory_with_replies: ChatUser) -> None:
    run = await start(memory_with_replies)
    await executed(run, chat=ScriptedChat(asks(1), chooses(1)), enricher=None)
    last = await RunEvent.objects.aget(run=run, kind=RunFinished.kind)
    await RawReply.objects.acreate(event=last, owner_id=run.owner_id, message="{}")
    found = await sync_to_async(lambda: list(invariants.violations(memory_with_replies)))()
    assert [(each.invariant, each.subject) for each in found] == [("raw_reply_beside_a_reply", f"RawReply:{last.pk}")]
    await RawReply.objects.filter(event=last).adelete()
    assert isinstance((await events_of(run))[-1], RunFinished)


async def test_a_chat_that_tells_no_raw_message_leaves_none(memory_with_replies: ChatUser) -> None:
    run = await start(memory_with_replies)
    bare = [replace(step, outcome=replace(step.outcome, message={})) for step in (asks(1), chooses(1))]
    await executed(run, chat=ScriptedChat(*bare), enricher=None)
    assert ModelReplied.kind in [event.kind for event in await events_of(run)]
    assert await raw_replies(run) == {}
