"""Answers in bodies that are not what they are called: JSON in place of a stream, glued ends, envelopes, limits."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from memoryapp.engine.chat.protocol import LLMUnavailable, Reply
from memoryapp.engine.events import Retried, SteppedDown
from memoryapp.engine.prompts.rerank import TOOL_NAME
from tests.engine.endpoint import END, FORCED, FREE, PLAIN, Endpoint, calls_tool, delta, failure, reply, says, streams
from tests.engine.scripted import collect

TEXT = '{"topics": [{"id": "Topic:42"}]}'
CHOICE = {"index": 0, "message": {"role": "assistant", "content": TEXT}, "finish_reason": "stop"}
WHOLE: dict[str, Any] = {"choices": [CHOICE], "usage": {"prompt_tokens": 100, "completion_tokens": 20}}
ONE_LINE = json.dumps(WHOLE).encode()


def codes(got: Reply) -> list[str]:
    return [note.code for note in got.notes]


@pytest.mark.parametrize(
    "body",
    [
        ONE_LINE,
        json.dumps(WHOLE, indent=2).encode(),
        ONE_LINE + b"data: [DONE]\n\n",
        ONE_LINE + b"\n\ndata: [DONE]\n\n",
    ],
    ids=["a line", "indented", "with an end", "with an end below"],
)
@pytest.mark.parametrize("stream", [True, False], ids=["asked for a stream", "asked for a whole answer"])
@pytest.mark.parametrize("called", ["text/event-stream", "application/json"])
async def test_json_is_read_whatever_it_is_called_and_whatever_is_glued_to_it(
    body: bytes, stream: bool, called: str
) -> None:
    """decolua/9router#3492 and #3301, aaamoon/copilot-gpt4-service#176."""
    response = httpx.Response(200, content=body, headers={"Content-Type": called})
    got = await reply(Endpoint(response), stream=stream)
    assert (got.text, got.usage.output_tokens) == (TEXT, 20)


@pytest.mark.parametrize(
    "start", [b"id: 0\n", b"retry: 3000\n\n", b"\xef\xbb\xbf", b": hi\n\n"], ids=["id", "retry", "a mark", "a comment"]
)
async def test_a_stream_under_a_wrong_name_is_known_by_any_of_its_fields(start: bytes) -> None:
    body = start + delta(content=TEXT) + delta("stop") + END
    got = await reply(Endpoint(httpx.Response(200, content=body, headers={"Content-Type": "text/plain"})), stream=True)
    assert got.text == TEXT


async def test_one_chunk_that_is_the_whole_stream_is_an_answer() -> None:
    line = delta("stop", content=TEXT).removeprefix(b"data: ")
    body = httpx.Response(200, content=line, headers={"Content-Type": "application/x-ndjson"})
    assert (await reply(Endpoint(body), stream=True)).text == TEXT


@pytest.mark.parametrize("envelope", [{"code": 0, "msg": "success", "data": WHOLE}, {"success": True, "result": WHOLE}])
async def test_an_answer_in_the_envelope_of_a_gateway_is_no_error(envelope: Any) -> None:
    """Cloudflare's own addresses put ``result`` around, other gateways ``data`` beside ``code`` and ``msg``."""
    assert (await reply(Endpoint(httpx.Response(200, json=envelope)))).text == TEXT


async def test_whole_json_counts_though_the_connection_breaks_behind_it() -> None:
    """A gateway that closes without a last chunk (anomalyco/opencode#39968)."""
    endpoint = Endpoint(streams(delta(content=TEXT), httpx.RemoteProtocolError("incomplete chunked read")))
    got = await reply(endpoint, stream=True)
    assert (got.text, codes(got), len(endpoint.bodies)) == (TEXT, ["stream_unended"], 1)


async def test_json_that_breaks_off_before_done_is_asked_for_once_more(waits: list[float]) -> None:
    """``[DONE]`` alone ends a text as well as half of one; JSON says which."""
    half, whole = streams(delta(content=TEXT[:20]), END), streams(delta(content=TEXT), END)
    steps = await collect(Endpoint(half, whole).chat(stream=True).converse(PLAIN))
    assert [step.attempt for step in steps if isinstance(step, Retried)] == [1]
    got = steps[-1]
    assert isinstance(got, Reply)
    assert got.text == TEXT


@pytest.mark.parametrize("reason", ["length", "MAX_TOKENS"])
async def test_a_reply_that_ran_into_its_limit_says_so(reason: str) -> None:
    got = await reply(Endpoint(streams(delta(content=TEXT[:20]), delta(reason), END)), stream=True)
    assert codes(got) == ["reply_at_limit"]
    answer = {"choices": [{**CHOICE, "finish_reason": reason}]}
    assert codes(await reply(Endpoint(httpx.Response(200, json=answer)))) == ["reply_at_limit"]


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_a_call_that_google_could_not_read_is_tried_again_and_then_not_forced(
    stream: bool, waits: list[float]
) -> None:
    """googleapis/python-genai#1836, pydantic/pydantic-ai#3300: no content, and a reason that names the fault."""
    reason = "function_call_filter: MALFORMED_FUNCTION_CALL"

    def broken(sent: dict[str, Any]) -> httpx.Response:
        if sent["tool_choice"] == "auto":
            return calls_tool()
        empty = httpx.Response(200, json={"choices": [{"message": {"content": None}, "finish_reason": reason}]})
        return streams(delta(reason), END) if "stream" in sent else empty

    steps = await collect(Endpoint(broken).chat(stream=stream).converse(FORCED))
    assert isinstance(steps[0], Retried)
    assert [step.instead for step in steps if isinstance(step, SteppedDown)][:2] == ["required", "free"]
    assert steps[-1].tool_calls  # type: ignore[union-attr]


async def test_arguments_that_are_sent_from_their_beginning_each_time_are_not_joined() -> None:
    """DashScope without ``incremental_output``: each chunk has all that is known so far."""
    whole = '{"ids": [42, 18]}'
    pieces = [{"index": 0, "id": "c1", "function": {"name": TOOL_NAME, "arguments": whole[:end]}} for end in (3, 9, 17)]
    chunks = (delta(tool_calls=[piece]) for piece in pieces)
    got = await reply(Endpoint(streams(*chunks, delta("tool_calls"), END)), FORCED, stream=True)
    assert [call.arguments for call in got.tool_calls] == [whole]


async def test_an_answer_in_a_fence_within_a_text_of_json_is_read() -> None:
    answer = {"topics": [], "people": [], "artifacts": []}
    got = await reply(Endpoint(says(json.dumps(f"```json\n{json.dumps(answer)}\n```"))), FREE)
    assert (json.loads(got.text), codes(got)) == (answer, ["answer_in_text"])


async def test_a_page_in_place_of_an_answer_is_quoted(waits: list[float]) -> None:
    """An address without ``/v1`` is often answered with the page of a program, and status 200."""
    page = b"<html><head><style>p {}</style></head><body><h1>Open WebUI</h1></body></html>"
    answered = httpx.Response(200, content=page, headers={"Content-Type": "text/html"})
    assert "the answer is not JSON: Open WebUI" in str(await failure(Endpoint(answered)))


async def test_half_a_json_in_place_of_a_stream_is_no_answer(waits: list[float]) -> None:
    assert isinstance(await failure(Endpoint(lambda _: streams(ONE_LINE[:40])), stream=True), LLMUnavailable)


@pytest.mark.parametrize("reason", ["insufficient_system_resource", "network_error", "abort", "stop"])
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_an_answer_that_was_cut_is_asked_for_once_more_and_then_read_with_a_note(
    reason: str, stream: bool, waits: list[float]
) -> None:
    """DeepSeek's and Zhipu's lists of reasons, vLLM's ``abort``; ``stop`` in the middle of JSON."""
    half, topics = TEXT[:26], {"topics": [], "people": [], "artifacts": []}

    def says_half() -> httpx.Response:
        choice = {**CHOICE, "message": {"content": half}, "finish_reason": reason}
        whole = httpx.Response(200, json={**WHOLE, "choices": [choice]})
        return streams(delta(content=half), delta(reason), END) if stream else whole

    steps = await collect(Endpoint(says_half(), says(json.dumps(topics))).chat(stream=stream).converse(FREE))
    assert [step.attempt for step in steps if isinstance(step, Retried)] == [1]
    assert isinstance(steps[-1], Reply)
    assert (json.loads(steps[-1].text), codes(steps[-1])) == (topics, [])
    endpoint = Endpoint(lambda _: says_half())
    got = await reply(endpoint, FREE, stream=stream)
    assert (got.text, codes(got), len(endpoint.bodies)) == (half, ["reply_breaks_off"], 2)


@pytest.mark.parametrize(
    "content",
    [[TEXT], [{"type": "text", "text": {"value": TEXT}}], {"type": "text", "text": TEXT}],
    ids=["a list of texts", "the assistants' parts", "one part"],
)
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_content_in_other_parts_is_text(content: Any, stream: bool) -> None:
    pieces = streams(delta(content=content), delta("stop"), END)
    assert (await reply(Endpoint(pieces if stream else says(content)), stream=stream)).text == TEXT
