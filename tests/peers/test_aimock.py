"""Whole runs against aimock, which answers in the shape of OpenRouter: cost, provider, reasoning, failover."""

from __future__ import annotations

from typing import Any

import pytest

from memoryapp.engine.events import ModelReplied, Retried, SteppedDown, TopicsRead
from tests.peers.conftest import QUERY, Ask, Memory
from tests.peers.serving import Server

API = "/api/v1"
USAGE = {"prompt_tokens": 900, "completion_tokens": 40, "total_tokens": 940, "cost": 0.0003}
DETAILS = {"prompt_tokens_details": {"cached_tokens": 512}, "completion_tokens_details": {"reasoning_tokens": 7}}


@pytest.fixture
def server(aimock: Server) -> Server:
    return aimock


def play(server: Server, *fixtures: dict[str, Any]) -> None:
    server.post("/__aimock/fixtures", fixtures=list(fixtures))


def script(memory: Memory) -> list[dict[str, Any]]:
    """The model asks for two topics and chooses the first; the enricher keeps the query."""
    first, second, _ = memory.topics
    call = {"name": "get_topics_content", "arguments": {"ids": [first, second]}, "id": "call_1"}
    choice = {"topics": [{"id": f"Topic:{first}", "reason": "It is the crash.", "excerpt": ""}]}
    billed = {"usage": {**USAGE, **DETAILS}, "provider": "Acme"}
    return [
        turn(False, {"toolCalls": [call], "reasoning": "Two of these look close.", **billed}),
        turn(True, {"content": choice, "reasoning": "The first answers it.", **billed}, openRouterProcessing=True),
        {"match": {}, "response": {"content": QUERY, "usage": USAGE}},
    ]


def turn(after_reading: bool, response: dict[str, Any], **how: Any) -> dict[str, Any]:
    """Returns a fixture for a turn with tools; ``nth`` limits it to that request of the kind, counted from 0."""
    match = {"toolName": "get_topics_content", "hasToolResult": after_reading}
    if "nth" in how:
        match["sequenceIndex"] = how.pop("nth")
    return {"match": match, "response": response, **how}


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_a_run_tells_what_each_turn_cost_thought_and_who_served_it(
    server: Server, memory: Memory, ask: Ask, stream: bool
) -> None:
    play(server, *script(memory))
    run = await ask(server.url + API, stream=stream)
    first, second, _ = (f"Topic:{id}" for id in memory.topics)
    assert (run.finished.fallback, run.chosen) == ("", [first])
    assert [topic.id for event in run.of(TopicsRead) for topic in event.read] == [first, second]
    asked, chose = run.of(ModelReplied)
    assert (asked.reasoning, chose.reasoning) == ("Two of these look close.", "The first answers it.")
    assert [(reply.cost_usd, reply.input_tokens) for reply in (asked, chose)] == [(0.0003, 900)] * 2
    assert [(reply.provider, reply.cached_tokens, reply.reasoning_tokens) for reply in (asked, chose)] == [
        ("Acme", 512, 7)
    ] * 2
    assert run.finished.totals.cost_usd == pytest.approx(0.0009)
    assert run.of(SteppedDown) == run.of(Retried) == []


async def test_the_thoughts_of_a_turn_are_sent_back_with_its_call(server: Server, memory: Memory, ask: Ask) -> None:
    play(server, *script(memory))
    await ask(server.url + API)
    *_, last = server.get("/__aimock/journal")
    sent = [message for message in last["body"]["messages"] if message["role"] == "assistant"]
    assert [message["reasoning_content"] for message in sent] == ["Two of these look close."]
    assert [call["id"] for call in sent[0]["tool_calls"]] == ["call_1"]


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_a_rate_limit_is_waited_out(server: Server, memory: Memory, ask: Ask, stream: bool) -> None:
    limit = {"error": {"message": "Rate limit exceeded", "code": "429"}, "status": 429, "retryAfter": 1}
    play(server, turn(False, limit, nth=0), *script(memory))
    run = await ask(server.url + API, stream=stream)
    assert [event.wait for event in run.of(Retried)] == [1.0]
    assert run.finished.fallback == ""


async def test_a_stream_that_is_cut_is_asked_for_again(server: Server, memory: Memory, ask: Ask) -> None:
    asking, choosing, enriching = script(memory)
    cut = {**turn(True, choosing["response"], nth=0), "chunkSize": 5, "truncateAfterChunks": 3}
    play(server, asking, cut, choosing, enriching)
    run = await ask(server.url + API)
    assert [event.attempt for event in run.of(Retried)] == [1]
    assert (run.finished.fallback, run.chosen) == ("", [f"Topic:{memory.topics[0]}"])


@pytest.mark.parametrize("trouble", ["malformedRate", "disconnectRate", "dropRate"])
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_an_answer_that_comes_broken_is_asked_for_again(
    server: Server, memory: Memory, ask: Ask, trouble: str, stream: bool
) -> None:
    asking, choosing, enriching = script(memory)
    broken = {**turn(False, asking["response"], nth=0), "chaos": {trouble: 1.0}}
    play(server, broken, asking, choosing, enriching)
    run = await ask(server.url + API, stream=stream)
    assert [event.attempt for event in run.of(Retried)] == [1]
    assert (run.finished.fallback, run.chosen) == ("", [f"Topic:{memory.topics[0]}"])


async def test_another_model_answers_when_the_first_is_overloaded(
    server: Server, memory: Memory, ask: Ask, settings: Any
) -> None:
    settings.LLM_FALLBACK_MODELS = ["acme/second"]
    overloaded = {"error": {"message": "overloaded", "code": "503"}, "status": 503}
    play(server, {"match": {"model": "acme/first"}, "response": overloaded}, *script(memory))
    run = await ask(server.url + API, model="acme/first")
    assert run.finished.fallback == ""
    assert {reply.model for reply in run.of(ModelReplied)} == {"acme/second"}
    assert run.of(Retried) == []
