"""The client of OpenAI-compatible endpoints: what it sends, what it learns, when it tries again and when it gives
up."""

import asyncio
import json
import threading
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from memoryapp.engine.chat import client
from memoryapp.engine.chat.attempt import AttemptEnd
from memoryapp.engine.chat.capabilities import Learnt
from memoryapp.engine.chat.client import HttpChat
from memoryapp.engine.chat.completions import Transcript
from memoryapp.engine.chat.protocol import ChatRequest, LLMRefused, LLMTimeout, LLMUnavailable, PartialReply, Reply
from memoryapp.engine.chat.refusals import redacted
from memoryapp.engine.events import Retried
from memoryapp.engine.prompts.rerank import ANSWER_SCHEMA, TOOL_NAME
from tests.engine.endpoint import (
    END,
    FORCED,
    FREE,
    LAST,
    PLAIN,
    QUESTION,
    USAGE,
    Endpoint,
    calls_tool,
    delta,
    error,
    failure,
    reply,
    says,
    streams,
)
from tests.engine.scripted import collect
from tests.examples import table


async def test_a_reply_brings_text_tokens_cost_and_model() -> None:
    endpoint = Endpoint(says("hi", reasoning="because"))
    got = await reply(endpoint)
    assert (got.text, got.reasoning, got.finish_reason, got.model) == ("hi", "because", "stop", "acme/flash-001")
    assert (got.usage.input_tokens, got.usage.output_tokens, got.usage.cost_usd) == (100, 20, 0.5)
    assert endpoint.headers[0]["authorization"] == "Bearer secret-key"
    assert endpoint.bodies[0] == {"model": "acme/flash", "messages": QUESTION, "reasoning": {"effort": "low"}}


@pytest.mark.parametrize(
    ("content", "text", "reasoning"), table("thoughts_in_answers").values(), ids=table("thoughts_in_answers")
)
async def test_reasoning_within_the_content_is_no_part_of_the_answer(content: str, text: str, reasoning: str) -> None:
    got = await reply(Endpoint(says(content)))
    assert (got.text, got.reasoning, got.message["content"]) == (text, reasoning, content)


def test_reasoning_within_the_content_grows_as_reasoning() -> None:
    pieces = ("<think>Let ", "me see.", "</think>\n\nTopic 42")
    transcript, shown = Transcript(), []
    for piece in pieces:
        transcript.add(json.dumps({"choices": [{"delta": {"content": piece}}]}))
        shown.append(transcript.progress())
    assert shown == [PartialReply("", "Let"), PartialReply("", "Let me see."), PartialReply("Topic 42", "Let me see.")]


async def test_a_forced_tool_is_named_and_a_free_one_is_auto() -> None:
    endpoint = Endpoint(calls_tool())
    await reply(endpoint, FORCED)
    assert endpoint.bodies[0]["tool_choice"] == {"type": "function", "function": {"name": TOOL_NAME}}
    assert "response_format" not in endpoint.bodies[0]
    endpoint = Endpoint(says("{}"))
    await reply(endpoint, FREE)
    assert endpoint.bodies[0]["tool_choice"] == "auto"
    assert endpoint.bodies[0]["response_format"]["json_schema"]["schema"] == ANSWER_SCHEMA


async def test_tools_switched_off_stay_declared() -> None:
    endpoint = Endpoint(says("{}"))
    await reply(endpoint, LAST)
    assert endpoint.bodies[0]["tool_choice"] == "none"
    assert len(endpoint.bodies[0]["tools"]) == 1


async def test_reasoning_details_come_back_unmodified_in_the_message() -> None:
    details = [{"type": "reasoning.encrypted", "data": "abc", "format": "google-gemini-v1", "index": 0}]
    got = await reply(Endpoint(calls_tool(reasoning_details=details, refusal=None)), FORCED)
    assert got.message["reasoning_details"] == details
    assert got.message["tool_calls"][0]["id"] == got.tool_calls[0].id == "c1"
    assert "refusal" not in got.message


async def test_odd_tool_calls_are_straightened() -> None:
    odd = [{"function": {"name": TOOL_NAME, "arguments": {"ids": [1]}}}, "nonsense", {"id": "x"}]
    got = await reply(Endpoint(says(None, tool_calls=odd)), FORCED)
    first, second = got.tool_calls
    assert json.loads(first.arguments) == {"ids": [1]}
    assert first.id == got.message["tool_calls"][0]["id"] != ""
    assert (second.id, second.name) == ("x", "")


def called(id: str, arguments: str, name: str = TOOL_NAME) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


async def test_calls_of_one_id_get_ids_of_their_own_in_the_message_and_in_the_calls() -> None:
    twice = [called("c1", '{"ids": [1]}'), called("c1", '{"ids": [2]}'), called("c2", '{"ids": [3]}')]
    got = await reply(Endpoint(says(None, tool_calls=twice)), FORCED)
    ids = [call.id for call in got.tool_calls]
    assert (ids[0], ids[2]) == ("c1", "c2")
    assert len(set(ids)) == 3
    assert [call["id"] for call in got.message["tool_calls"]] == ids
    assert [call.arguments for call in got.tool_calls] == ['{"ids": [1]}', '{"ids": [2]}', '{"ids": [3]}']


@pytest.mark.parametrize(
    "name",
    [f"functions.{TOOL_NAME}", f"functions.{TOOL_NAME}:0", f"default_api:{TOOL_NAME}", f"{TOOL_NAME}<|channel|>json"],
)
async def test_a_tools_name_is_understood_whatever_models_put_around_it(name: str) -> None:
    got = await reply(Endpoint(says(None, tool_calls=[called("c1", "{}", name)])), FORCED)
    assert got.tool_calls[0].name == got.message["tool_calls"][0]["function"]["name"] == TOOL_NAME


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        ('{"ids": [1]}', '{"ids": [1]}'),
        (json.dumps('{"ids": [1]}'), '{"ids": [1]}'),
        ('{"ids": [1', "{}"),
        ("[1]", "{}"),
        ("", "{}"),
        ("[" * 100_000, "{}"),
    ],
    ids=["an object", "encoded twice", "cut off", "a list", "nothing", "deep"],
)
async def test_what_is_sent_back_is_a_call_that_strict_endpoints_take(arguments: str, sent: str) -> None:
    got = await reply(Endpoint(says(None, tool_calls=[called("c1", arguments, "launch rockets!")])), FORCED)
    assert got.tool_calls[0].arguments == arguments
    assert got.message["tool_calls"][0]["function"] == {"name": "launch_rockets_", "arguments": sent}


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_a_refusal_is_distinguished_from_an_answer_and_is_not_remembered(stream: bool) -> None:
    pieces = (delta(refusal="I can't "), delta(refusal="help."), delta("stop"), USAGE, END)
    learnt = Learnt()
    chat = Endpoint(streams(*pieces) if stream else says(None, refusal="I can't help.")).chat(learnt=learnt)
    *_, got = await collect(chat.converse(FORCED))
    assert isinstance(got, Reply)
    assert (got.text, got.refusal, got.declined) == ("", "I can't help.", "refused")
    parts = [{"type": "refusal", "refusal": "I can't help."}]
    assert (await reply(Endpoint(says(parts)))).refusal == "I can't help."  # type: ignore[arg-type]


async def test_an_answer_that_a_filter_stopped_does_not_ignore_the_forced_choice() -> None:
    choice = {"finish_reason": "content_filter", "message": {"role": "assistant", "content": "The secret is"}}
    (got,) = await collect(Endpoint(httpx.Response(200, json={"choices": [choice]})).chat().converse(FORCED))
    assert isinstance(got, Reply)
    assert got.declined == "content_filter"


KEY = "secret-key"


def keyless(*events: object) -> bool:
    return KEY not in repr(events)


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_an_endpoint_that_echoes_the_api_key_gets_it_neither_stored_nor_shown(stream: bool) -> None:
    spelt = {"content": f"it is {KEY}", "reasoning": f"the key is {KEY}", "provider_note": {KEY: [KEY]}}
    whole = says(**{"text" if name == "content" else name: text for name, text in spelt.items()})  # type: ignore[arg-type]
    pieces = (delta(content="it is sec"), delta(content="ret-key", reasoning=spelt["reasoning"]), delta("stop"), END)
    endpoint = Endpoint(streams(*pieces) if stream else whole)
    steps = await collect(endpoint.chat(stream=stream).converse(PLAIN))
    assert keyless(*steps)
    assert all(not step.text.endswith("sec") for step in steps if isinstance(step, PartialReply))
    assert steps[-1].text == "it is [API key]"  # type: ignore[union-attr]


async def test_a_long_answer_that_echoes_the_api_key_does_not_stop_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = []

    def observed(end: AttemptEnd, key: str) -> AttemptEnd:
        threads.append(threading.current_thread())
        return redacted(end, key)

    monkeypatch.setattr(client, "redacted", observed)
    steps = await collect(Endpoint(says("hi", notes=[[KEY, 1]] * 1_000)).chat().converse(PLAIN))
    assert keyless(*steps)
    assert threads
    assert threading.current_thread() not in threads


async def test_an_error_that_echoes_the_api_key_is_shown_without_it(waits: list[float]) -> None:
    refusal = await failure(Endpoint(error(401, f"Incorrect API key provided: {KEY}")))
    assert keyless(str(refusal))
    assert "Incorrect API key provided: [API key]" in str(refusal)
    answer = httpx.Response(503, content=b"", extensions={"reason_phrase": b"no " + KEY.encode()})
    *steps, _ = await collect(
        Endpoint(answer, httpx.LocalProtocolError(f"Illegal {KEY}"), says("hi")).chat().converse(PLAIN)
    )
    assert len(steps) == 2
    assert keyless(*steps)
    refused_step, _ = await collect(
        Endpoint(error(400, f"reasoning of {KEY} is bad"), says("hi")).chat().converse(PLAIN)
    )
    assert keyless(refused_step)


async def test_a_lone_surrogate_in_the_text_does_not_stop_the_request() -> None:
    assert (await reply(Endpoint(says("hi")), ChatRequest([{"role": "user", "content": "\ud800"}]))).text == "hi"


async def test_a_reply_tells_who_served_it_and_what_was_cached_and_thought() -> None:
    usage = {
        "prompt_tokens": 9,
        "completion_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 3},
    }
    choices = [{"message": {"content": "hi"}, "finish_reason": "stop"}]
    document = {"provider": "Acme", "choices": choices, "usage": usage}
    got = await reply(Endpoint(httpx.Response(200, json=document)))
    assert (got.provider, got.usage.cached_tokens, got.usage.reasoning_tokens) == ("Acme", 4, 3)


async def test_thoughts_that_are_only_in_details_are_shown() -> None:
    details = [
        {"type": "reasoning.summary", "summary": "First. "},
        {"type": "reasoning.encrypted", "data": "xyz"},
        {"type": "reasoning.text", "text": "Then.", "signature": "s"},
    ]
    assert (await reply(Endpoint(says("hi", reasoning_details=details)))).reasoning == "First. Then."


@pytest.mark.parametrize(("effort", "sent"), [("high", {"reasoning": {"effort": "high"}}), ("", {})])
async def test_the_reasoning_effort_is_the_operators(effort: str, sent: dict[str, Any]) -> None:
    endpoint = Endpoint(says("hi"))
    await reply(endpoint, reasoning_effort=effort)
    assert {key: value for key, value in endpoint.bodies[0].items() if "reasoning" in key} == sent


async def test_routing_and_fallback_models_go_along_with_every_turn() -> None:
    endpoint = Endpoint(says("{}"))
    await reply(endpoint, FREE, provider={"sort": "latency"}, fallback_models=("acme/pro", "other/one"))
    assert endpoint.bodies[0]["provider"] == {"sort": "latency"}
    assert endpoint.bodies[0]["models"] == ["acme/pro", "other/one"]


async def test_answers_are_healed_where_a_format_is_asked_for_and_then_not_streamed() -> None:
    endpoint = Endpoint(says("{}"))
    await reply(endpoint, FREE, response_healing=True, stream=True)
    assert endpoint.bodies[0]["plugins"] == [{"id": "response-healing"}]
    assert "stream" not in endpoint.bodies[0]
    await reply(endpoint, PLAIN, response_healing=True, stream=True)
    assert "plugins" not in endpoint.bodies[1]
    assert endpoint.bodies[1]["stream"] is True


async def test_what_one_client_learnt_another_of_the_same_model_knows() -> None:
    endpoint = Endpoint(error(400, "reasoning is unsupported"), says("hi"))
    client, learnt = httpx.AsyncClient(transport=httpx.MockTransport(endpoint)), Learnt()
    first, second = (HttpChat(client, "https://models.example/v1", "", "m", None, learnt) for _ in range(2))
    assert len(await collect(first.converse(PLAIN))) == 2
    assert len(await collect(second.converse(PLAIN))) == 1
    assert endpoint.bodies[2]["reasoning_effort"] == "low"


# When the client tries again, when it gives up, and with which message.


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
