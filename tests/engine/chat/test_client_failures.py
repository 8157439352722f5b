"""When the client tries again, when it gives up, and with which message."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from memoryapp.engine.chat.client import HttpChat
from memoryapp.engine.chat.completions import Transcript
from memoryapp.engine.chat.protocol import ChatRequest, LLMRefused, LLMTimeout, LLMUnavailable, Reply
from memoryapp.engine.events import Retried
from tests.engine.endpoint import PLAIN, QUESTION, Endpoint, error, failure, reply, says
from tests.engine.scripted import collect


@pytest.mark.parametrize("status", [408, 409, 424, 425, 429, 498, 499, 500, 502, 503, 504, 529])
async def test_passing_trouble_is_tried_again_after_the_time_asked_for(status: int, waits: list[float]) -> None:
    endpoint = Endpoint(error(status, "busy", **{"Retry-After": "2"}), says("hi"))
    retried, got = await collect(endpoint.chat().converse(PLAIN))
    assert isinstance(retried, Retried)
    assert (retried.attempt, retried.wait) == (1, 2.0)
    assert isinstance(got, Reply)
    assert waits == [2.0]


async def test_trouble_that_a_gateway_passes_on_as_a_bad_request_is_tried_again(waits: list[float]) -> None:
    """OpenRouter's ``Provider returned error`` with the words of Envoy, or of a busy provider, in ``raw``."""
    for words in ("upstream connect error or disconnect/reset before headers", "The model is overloaded."):
        body = {"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": words}}}
        endpoint = Endpoint(httpx.Response(400, json=body), says("hi"))
        retried, _ = await collect(endpoint.chat().converse(PLAIN))
        assert isinstance(retried, Retried)
        assert endpoint.bodies[0] == endpoint.bodies[1]


async def test_waits_grow_when_nobody_says_how_long(waits: list[float]) -> None:
    error_ = await failure(Endpoint(error(503, "busy")), ChatRequest(QUESTION, seconds=60))
    assert isinstance(error_, LLMUnavailable)
    assert waits == [0.5, 1.0, 2.0, 4.0]


async def test_a_wait_beyond_the_time_left_ends_at_once(waits: list[float]) -> None:
    error_ = await failure(Endpoint(error(429, "slow down", **{"Retry-After": "3600"})))
    assert isinstance(error_, LLMUnavailable)
    assert waits == []


@pytest.mark.parametrize("name", [b"X-Served-By", b"Retry-After", b"Content-Type"])
@pytest.mark.parametrize("value", ["Zürich".encode("latin-1"), "Zürich".encode(), b"\xff\xfe"])
@pytest.mark.parametrize("stream", [True, False])
async def test_headers_beyond_ascii_change_no_answer(
    name: bytes, value: bytes, stream: bool, waits: list[float]
) -> None:
    refused = httpx.Response(429, headers=[(name, value)], content=b'{"error": {"message": "slow down"}}')
    answered = httpx.Response(200, headers=[(name, value)], content=says("hi").content)
    endpoint = Endpoint(refused, answered)
    assert (await reply(endpoint, stream=stream)).text == "hi"
    assert len(endpoint.bodies) == 2


@pytest.mark.parametrize(
    "header",
    [
        "soon",
        "-5",
        "nan",
        "inf",
        "Wed, 21 Oct 2015 07:28:00 GMT",
        f"Wed, 21 Oct {'9' * 20} 07:28:00 GMT",
        f"Wed, 21 Oct 2015 07:28:00 +{'9' * 14}",
    ],
)
async def test_odd_retry_after_headers_do_no_harm(header: str, waits: list[float]) -> None:
    await reply(Endpoint(error(503, "busy", **{"Retry-After": header}), says("hi")))
    assert waits[0] in (0.0, 0.5)


@pytest.mark.parametrize(
    ("status", "advice"),
    [(400, "did not understand"), (401, "LLM_API_KEY"), (402, "credit"), (403, "does not allow"), (404, "LLM_MODEL")],
)
async def test_refusals_are_never_tried_again_and_say_what_to_do(status: int, advice: str) -> None:
    endpoint = Endpoint(error(status, "no"))
    error_ = await failure(endpoint)
    assert isinstance(error_, LLMRefused)
    assert advice in str(error_)
    assert error_.status == status
    assert "models.example" in str(error_)
    assert "secret-key" not in str(error_)
    assert len(endpoint.bodies) == 1


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"code": 502, "message": "provider failed"}},
        {"choices": [{"error": {"code": 429, "message": "limit"}, "finish_reason": "error", "message": {}}]},
        {"choices": [{"finish_reason": "error", "native_finish_reason": "MALFORMED_FUNCTION_CALL", "message": {}}]},
        {"error": "overloaded"},
    ],
    ids=["at the top", "in the choice", "as finish reason", "as text"],
)
async def test_http_200_may_carry_an_error_and_its_cost_is_kept(body: dict[str, Any], waits: list[float]) -> None:
    usage = {"prompt_tokens": 7, "completion_tokens": 1, "cost": 0.25}
    error_ = await failure(Endpoint(httpx.Response(200, json={**body, "usage": usage})))
    assert isinstance(error_, LLMUnavailable)
    assert error_.spent.input_tokens == 7 * 5
    await reply(Endpoint(httpx.Response(200, json=body), says("hi")))


async def test_a_failed_try_tells_what_it_was_billed(waits: list[float]) -> None:
    usage = {"prompt_tokens": 7, "completion_tokens": 1, "cost": 0.25}
    broken = httpx.Response(200, json={"error": {"code": 502, "message": "provider failed"}, "usage": usage})
    retried, got = await collect(Endpoint(broken, says("hi")).chat().converse(PLAIN))
    assert isinstance(retried, Retried)
    assert isinstance(got, Reply)
    assert (retried.input_tokens, retried.output_tokens, retried.cost_usd) == (7, 1, 0.25)
    assert (got.usage.input_tokens, got.usage.cost_usd) == (107, 0.75)


@pytest.mark.parametrize("code", ["9" * 5_000, "²", True, 4.5, [], -429, None])
async def test_an_error_whose_code_is_no_status_is_a_failure_that_may_pass(code: object, waits: list[float]) -> None:
    odd = httpx.Response(500, json={"error": {"code": code, "message": "odd"}})
    assert (await reply(Endpoint(odd, says("hi")))).text == "hi"


async def test_http_200_with_a_refusal_inside_is_a_refusal() -> None:
    endpoint = Endpoint(httpx.Response(200, json={"error": {"code": 402, "message": "no credit"}}))
    assert isinstance(await failure(endpoint), LLMRefused)
    assert len(endpoint.bodies) == 1


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[1]", b"null", b"[" * 100_000], ids=["empty", "html", "list", "null", "deep"]
)
async def test_what_is_no_json_object_is_no_answer(body: bytes, waits: list[float]) -> None:
    assert isinstance(await failure(Endpoint(httpx.Response(200, content=body))), LLMUnavailable)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"choices": []},
        {"choices": [None]},
        {"choices": [{"message": None}]},
        {"choices": [{"message": {"content": None}}], "usage": {"prompt_tokens": "many", "cost": None}},
    ],
)
async def test_an_answer_that_says_nothing_is_an_empty_reply(body: dict[str, Any]) -> None:
    got = await reply(Endpoint(httpx.Response(200, json=body)))
    assert (got.text, got.tool_calls, got.usage.cost_usd) == ("", (), 0.0)


async def test_content_in_parts_is_one_text() -> None:
    got = await reply(Endpoint(says([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])))  # type: ignore[arg-type]
    assert got.text == "ab"


async def test_a_broken_line_is_tried_again(waits: list[float]) -> None:
    got = await reply(Endpoint(httpx.ConnectError("refused"), httpx.ReadError(""), says("hi")))
    assert got.text == "hi"
    assert "cannot be reached" in str(await failure(Endpoint(httpx.ConnectError("refused"))))


async def test_an_address_that_is_none_is_refused_with_a_sentence() -> None:
    chat = HttpChat(httpx.AsyncClient(), "models.example/v1", "", "m")
    with pytest.raises(LLMRefused, match="LLM_BASE_URL"):
        await collect(chat.converse(PLAIN))


async def test_the_time_given_bounds_all_tries() -> None:
    async def silent(sent: httpx.Request) -> httpx.Response:
        await asyncio.Event().wait()
        raise AssertionError

    chat = HttpChat(httpx.AsyncClient(transport=httpx.MockTransport(silent)), "https://models.example/v1", "", "m")
    with pytest.raises(LLMTimeout, match="no answer within"):
        await collect(chat.converse(ChatRequest(QUESTION, seconds=0.02)))


async def test_a_wait_named_inside_an_error_is_kept(waits: list[float]) -> None:
    busy = {"error": {"code": 503, "message": "busy", "availability": {"retryable": True, "retry_after": 3}}}
    await reply(Endpoint(httpx.Response(200, json=busy), says("hi")))
    assert waits == [3.0]


async def test_an_answer_without_end_is_given_up(waits: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memoryapp.engine.chat.attempt._MOST_BYTES", 1_000)
    assert "too long" in str(await failure(Endpoint(says("x" * 2_000))))


async def test_an_answer_of_millions_of_values_is_not_read(waits: list[float]) -> None:
    answer = says("{}", junk=[[]] * 2_000_000)
    began = time.process_time()
    refused = await failure(Endpoint(answer), ChatRequest(QUESTION, seconds=0.6))
    assert "the answer is too long, more than 2 MB" in str(refused)
    # Reading it takes two seconds, during which the process does nothing else.
    assert time.process_time() - began < 1.0


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece",
    [
        lambda n: {"reasoning_details": [{"type": "reasoning.text", "index": n, "text": "a"}]},
        lambda n: {"tool_calls": [{"index": n, "id": f"c{n}", "function": {"name": "f", "arguments": ""}}]},
    ],
    ids=["reasoning", "tool calls"],
)
def test_a_stream_of_ever_new_pieces_is_joined_in_linear_time(piece: Callable[[int], dict[str, Any]]) -> None:
    transcript, began = Transcript(), time.process_time()
    for number in range(20_000):
        transcript.add(json.dumps({"choices": [{"delta": piece(number)}]}))
    assert time.process_time() - began < 5.0
