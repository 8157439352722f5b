"""Whole runs against llmock, which breaks its answers on request and judges the client's reaction."""

from __future__ import annotations

import json
from typing import Any

import pytest

from memoryapp.engine.events import ModelReplied, Retried, SteppedDown, TopicsRead
from tests.peers.conftest import QUERY, Ask, Memory
from tests.peers.serving import Server

WITH_TOOLS = {"tools": True}


@pytest.fixture
def server(llmock: Server) -> Server:
    return llmock


def script(server: Server, memory: Memory, *faults: dict[str, Any], tries: int = 1) -> None:
    """The enricher keeps the query; the reranker asks for two topics, ``tries`` times, and chooses the first."""
    first, second, _ = memory.topics
    call = {"name": "get_topics_content", "arguments": {"ids": [first, second]}}
    choice = {"topics": [{"id": f"Topic:{first}", "reason": "It is the crash.", "excerpt": ""}]}
    replies = [
        {"text": QUERY, "match": {"tools": False}, "times": None},
        {"tool_calls": [call], "times": tries, "match": WITH_TOOLS},
        {"text": json.dumps(choice), "match": WITH_TOOLS, "times": None},
    ]
    server.post("/_llmock/scenario", behaviors=[*faults, *({"type": "reply", **reply} for reply in replies)])


def findings(server: Server) -> list[Any]:
    verdict = server.get("/_llmock/verdict")
    return list(verdict["findings"])


@pytest.mark.smoke
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_a_run_asks_reads_and_chooses(server: Server, memory: Memory, ask: Ask, stream: bool) -> None:
    script(server, memory)
    run = await ask(server.url + "/v1", stream=stream)
    first, second, _ = (f"Topic:{id}" for id in memory.topics)
    assert (run.finished.fallback, run.chosen) == ("", [first])
    assert [topic.id for event in run.of(TopicsRead) for topic in event.read] == [first, second]
    assert [bool(reply.input_tokens and reply.output_tokens) for reply in run.of(ModelReplied)] == [True, True]
    assert run.of(SteppedDown) == run.of(Retried) == []
    assert findings(server) == []


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_a_rate_limit_is_waited_out(server: Server, memory: Memory, ask: Ask, stream: bool) -> None:
    script(server, memory, {"type": "fail", "status": 429, "retry_after": 1, "match": WITH_TOOLS})
    run = await ask(server.url + "/v1", stream=stream)
    assert [event.wait for event in run.of(Retried)] == [1.0]
    assert run.finished.fallback == ""
    assert findings(server) == []


@pytest.mark.parametrize("kind", ["truncate", "disconnect", "malformed"])
async def test_a_stream_that_breaks_is_asked_for_again(server: Server, memory: Memory, ask: Ask, kind: str) -> None:
    fault = {"type": "stream_fault", "kind": kind, "after_chunks": 2, "match": {"stream": True, **WITH_TOOLS}}
    script(server, memory, fault, tries=2)
    run = await ask(server.url + "/v1")
    assert [event.attempt for event in run.of(Retried)] == [1]
    assert (run.finished.fallback, run.chosen) == ("", [f"Topic:{memory.topics[0]}"])
    assert findings(server) == []


async def test_a_stream_that_stalls_ends_as_the_turns_time_does(server: Server, memory: Memory, ask: Ask) -> None:
    stall = {"type": "stream_fault", "kind": "stall", "stall_seconds": 30, "match": {"stream": True, **WITH_TOOLS}}
    script(server, memory, stall)
    run = await ask(server.url + "/v1", turn_seconds=0.5)
    assert run.finished.fallback == "turn_timeout"
    assert findings(server) == []


@pytest.mark.parametrize("status", [400, 401, 402, 403])
async def test_a_refusal_is_not_argued_with(server: Server, memory: Memory, ask: Ask, status: int) -> None:
    script(server, memory, {"type": "fail", "status": status, "times": None})
    run = await ask(server.url + "/v1")
    assert run.finished.fallback == "llm_error"
    assert run.of(Retried) == []
    assert str(status) in run.of(ModelReplied)[0].error
    assert findings(server) == []


async def test_an_outage_is_borne_as_long_as_the_turn_lasts(server: Server, memory: Memory, ask: Ask) -> None:
    script(server, memory, {"type": "fail", "status": 503, "times": None, "match": WITH_TOOLS})
    run = await ask(server.url + "/v1", turn_seconds=4.0)
    assert run.finished.fallback == "llm_error"
    assert {event.wait for event in run.of(Retried)} == {1.0}
    # Another second would exceed the turn, of which a client gets 97 %.
    assert run.finished.totals.seconds > 4.0 * 0.97 - 1.0
    assert findings(server) == []


@pytest.mark.parametrize("kind", ["malformed_arguments", "unknown_tool"])
async def test_a_tool_call_that_makes_no_sense_is_answered_and_the_run_goes_on(
    server: Server, memory: Memory, ask: Ask, kind: str
) -> None:
    script(server, memory, {"type": "tool_fault", "kind": kind}, tries=2)
    run = await ask(server.url + "/v1")
    assert run.of(TopicsRead)[0].notes
    assert (run.finished.fallback, run.chosen) == ("", [f"Topic:{memory.topics[0]}"])
    assert findings(server) == []


async def test_what_the_server_makes_up_from_our_schemas_is_understood(
    server: Server, memory: Memory, ask: Ask
) -> None:
    run = await ask(server.url + "/v1")
    # It makes up ids that are no candidates, so no topic was read before the answer.
    assert run.finished.fallback == "protocol_violation"
    assert [bool(read.unknown) for read in run.of(TopicsRead)] == [True] * 3
    assert findings(server) == []
