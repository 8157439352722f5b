"""The assistant messages of a run are stored unchanged: what is in the rows can be sent again, byte for byte."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async

from memoryapp.engine.chat.client import ChatOptions, HttpChat
from memoryapp.engine.chat.media import MediaContent, read_part, with_media
from memoryapp.engine.chat.protocol import ChatRequest
from memoryapp.engine.events import Event, ModelReplied, RunFinished, TopicsRead, TurnStarted
from memoryapp.engine.prompts.rerank import ANSWER_SCHEMA, TOOL, TOOL_NAME
from memoryapp.intake import invariants
from memoryapp.memory import content as media
from memoryapp.models import ChatUser, RawReply, Run, RunEvent
from memoryapp.runs import lifecycle
from memoryapp.runs.clients import open_clients
from tests.engine.endpoint import END, USAGE, delta, streams
from tests.engine.scripted import ScriptedChat, asks, chooses, collect
from tests.support.executing import events_of, memory_of_three, start

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("thread_closed")]

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
async def memory(tmp_path: Path, settings: Any) -> ChatUser:
    settings.MEDIA_ROOT = tmp_path
    return await memory_of_three()


@pytest.mark.parametrize("options", [ChatOptions(), ChatOptions(stream=True, reasoning_effort="")], ids=str)
async def test_a_stored_run_sent_again_is_the_same_byte_for_byte(memory: ChatUser, options: ChatOptions) -> None:
    first, second, third = [topic.pk async for topic in memory.topic_set.order_by("pk")]
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
    item = await sync_to_async(media.store)(memory, attached)
    run = await start(memory, media=[item], parameters={"max_tool_calls": 3})
    endpoint = Endpoint(*(completion(content, options.stream, **message) for content, message in turns))
    async with open_clients() as clients:
        await lifecycle.execute(run.pk, replace(clients, chat=endpoint.chat(options), enricher=None))
    events, replies = await events_of(run), await raw_replies(run)
    assert [topic.id for topic in events[-1].selected] == [f"Topic:{first}"]
    requests = stored_requests(events, replies, attached)
    assert len(requests) == len(endpoint.bodies) == 5
    for request, sent in zip(requests, endpoint.bodies, strict=True):
        again = Endpoint(completion("", options.stream, tool_calls=[call(0, TOOL_NAME, "{}")]))
        await collect(again.chat(options).converse(request))
        assert again.bodies == [sent]


async def test_what_came_beside_the_text_is_kept_with_the_run_and_apart_from_its_events(memory: ChatUser) -> None:
    (first, *_) = [topic.pk async for topic in memory.topic_set.order_by("pk")]
    run = await start(memory)
    script = asks(first), replace(chooses(first))
    async with open_clients() as clients:
        await lifecycle.execute(run.pk, replace(clients, chat=ScriptedChat(*script), enricher=None))
    assert [json.loads(text) for text in (await raw_replies(run)).values()] == [s.outcome.message for s in script]
    payloads = [row.payload async for row in RunEvent.objects.filter(run=run, kind="model_replied")]
    assert not any("message" in payload for payload in payloads)
    assert await sync_to_async(lambda: list(invariants.violations(memory)))() == []


async def test_a_reply_beside_another_event_is_a_violation(memory: ChatUser) -> None:
    run = await start(memory)
    async with open_clients() as clients:
        await lifecycle.execute(run.pk, replace(clients, chat=ScriptedChat(asks(1), chooses(1)), enricher=None))
    last = await RunEvent.objects.aget(run=run, kind=RunFinished.kind)
    await RawReply.objects.acreate(event=last, owner_id=run.owner_id, message="{}")
    found = await sync_to_async(lambda: list(invariants.violations(memory)))()
    assert [(each.invariant, each.subject) for each in found] == [("raw_reply_beside_a_reply", f"RawReply:{last.pk}")]
    await RawReply.objects.filter(event=last).adelete()
    assert isinstance((await events_of(run))[-1], RunFinished)


async def test_a_chat_that_tells_no_raw_message_leaves_none(memory: ChatUser) -> None:
    run = await start(memory)
    bare = [replace(step, outcome=replace(step.outcome, message={})) for step in (asks(1), chooses(1))]
    async with open_clients() as clients:
        await lifecycle.execute(run.pk, replace(clients, chat=ScriptedChat(*bare), enricher=None))
    assert ModelReplied.kind in [event.kind for event in await events_of(run)]
    assert await raw_replies(run) == {}
