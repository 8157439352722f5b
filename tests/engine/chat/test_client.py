"""The client of OpenAI-compatible endpoints: what it sends, what it learns, when it tries again."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any

import httpx
import pytest

from memoryapp.engine.chat.capabilities import Abilities, Learnt, refused
from memoryapp.engine.chat.client import HttpChat
from memoryapp.engine.chat.media import names_media
from memoryapp.engine.chat.protocol import ChatRequest, LLMRefused, LLMTimeout, LLMUnavailable, Progress, Reply
from memoryapp.engine.events import Retried, SteppedDown
from memoryapp.engine.prompts import ANSWER_SCHEMA, TOOL_NAME
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


async def test_a_reply_brings_text_tokens_cost_and_model() -> None:
    endpoint = Endpoint(says("hi", reasoning="because"))
    got = await reply(endpoint)
    assert (got.text, got.reasoning, got.finish_reason, got.model) == ("hi", "because", "stop", "acme/flash-001")
    assert (got.usage.input_tokens, got.usage.output_tokens, got.usage.cost_usd) == (100, 20, 0.5)
    assert endpoint.headers[0]["authorization"] == "Bearer secret-key"
    assert endpoint.bodies[0] == {"model": "acme/flash", "messages": QUESTION, "reasoning": {"effort": "low"}}


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
async def test_a_refusal_is_told_apart_from_an_answer_and_teaches_nothing(stream: bool) -> None:
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
    assert all(not step.text.endswith("sec") for step in steps if isinstance(step, Progress))
    assert steps[-1].text == "it is [API key]"  # type: ignore[union-attr]


async def test_an_error_that_echoes_the_api_key_is_told_without_it(waits: list[float]) -> None:
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


@pytest.mark.parametrize(
    ("refusal", "status"),
    [
        ("No endpoints found that support the provided 'tool_choice' value.", 404),
        ("Invalid tool_choice: only 'auto' is supported", 400),
        ("tool_choice: input should be a string", 422),
    ],
)
async def test_a_refused_forced_choice_steps_down_to_required(refusal: str, status: int) -> None:
    endpoint = Endpoint(error(status, refusal), calls_tool())
    chat = endpoint.chat()
    step, got = await collect(chat.converse(FORCED))
    assert step == SteppedDown("forced tool choice", "required", refusal)
    assert isinstance(got, Reply)
    assert endpoint.bodies[1]["tool_choice"] == "required"
    await collect(chat.converse(FORCED))
    assert endpoint.bodies[2]["tool_choice"] == "required"


@pytest.mark.parametrize(
    "words",
    [
        "the upstream stream was closed",
        "best effort failed",
        "grammar failed to load",
        "tool choice is not implemented",
    ],
)
@pytest.mark.parametrize("status", [404, 500, 501, 503])
async def test_the_words_of_a_failing_server_teach_nothing(words: str, status: int, waits: list[float]) -> None:
    endpoint = Endpoint(error(status, words), error(status, words), says("{}"))
    learnt = Learnt()
    chat = endpoint.chat(learnt=learnt, stream=True)
    with suppress(LLMRefused):
        await collect(chat.converse(FREE))
    assert learnt.can == Abilities(stream=learnt.can.stream)
    assert all(body == endpoint.bodies[0] for body in endpoint.bodies)


async def test_a_refusal_that_only_speaks_of_a_stream_is_no_refusal_to_stream() -> None:
    endpoint = Endpoint(error(400, "the stream ended before the prompt was read"))
    assert isinstance(await failure(endpoint, stream=True), LLMRefused)
    assert len(endpoint.bodies) == 1


async def test_a_parameter_that_is_named_beside_the_message_is_named() -> None:
    said = {"error": {"code": 400, "message": "Unsupported value.", "param": "response_format"}}
    endpoint = Endpoint(httpx.Response(400, json=said), says("{}"))
    step, _ = await collect(endpoint.chat().converse(FREE))
    assert (step.instead, step.why) == ("json_object", "Unsupported value.: parameter response_format")


async def test_what_was_learnt_is_forgotten_after_some_hours_and_asked_for_again() -> None:
    now = [1000.0]
    learnt = Learnt(clock=lambda: now[0])
    endpoint = Endpoint(error(400, "reasoning is unsupported"), says("hi"))
    chat = endpoint.chat(learnt=learnt)
    await collect(chat.converse(PLAIN))
    (known,) = learnt.remembered()
    assert known.step == SteppedDown("reasoning effort", "reasoning_effort", "reasoning is unsupported")
    assert known.seconds_left == 6 * 3600
    now[0] += 6 * 3600 - 1
    await collect(chat.converse(PLAIN))
    assert "reasoning" not in endpoint.bodies[-1]
    now[0] += 1
    await collect(chat.converse(PLAIN))
    assert "reasoning" in endpoint.bodies[-1]
    assert learnt.remembered() == []


async def test_a_refusal_of_pictures_is_forgotten_too() -> None:
    now = [1000.0]
    learnt = Learnt(clock=lambda: now[0])
    endpoint = Endpoint(blind)
    chat = endpoint.chat(learnt=learnt)
    for _ in "ab":
        await refusal_of(chat, showing("image_url"))
    assert len(endpoint.bodies) == 1
    assert [known.step.capability for known in learnt.remembered()] == ["media"]
    now[0] += 7 * 3600
    await refusal_of(chat, showing("image_url"))
    assert len(endpoint.bodies) == 2


async def test_a_server_that_fails_over_a_picture_is_asked_with_the_next(waits: list[float]) -> None:
    endpoint = Endpoint(error(500, "image input is not supported"), says("a cat"))
    chat = endpoint.chat()
    await refusal_of(chat, showing("image_url"))
    assert len(await collect(chat.converse(showing("image_url")))) == 1


async def test_an_ignored_forced_choice_steps_down_to_auto_and_keeps_the_cost() -> None:
    endpoint = Endpoint(says("I would rather answer."))
    chat = endpoint.chat()
    *steps, got = await collect(chat.converse(FORCED))
    assert [s.instead for s in steps if isinstance(s, SteppedDown)] == ["required", "free"]
    assert [b["tool_choice"] for b in endpoint.bodies[1:]] == ["required", "auto"]
    assert isinstance(got, Reply)
    assert (got.usage.input_tokens, got.usage.cost_usd) == (300, 1.5)


def instead_of(steps: list[Any]) -> list[str]:
    return [step.instead for step in steps if isinstance(step, SteppedDown)]


async def test_one_ignored_forced_choice_is_chance_and_the_next_run_is_forced_again() -> None:
    endpoint = Endpoint(says("I would rather answer."), calls_tool())
    chat = endpoint.chat()
    assert instead_of(await collect(chat.converse(FORCED))) == ["required"]
    assert instead_of(await collect(chat.converse(FORCED))) == []
    assert endpoint.bodies[-1]["tool_choice"] == {"type": "function", "function": {"name": TOOL_NAME}}


async def test_a_forced_choice_ignored_three_times_in_a_row_is_not_asked_for_again_and_says_so() -> None:
    endpoint = Endpoint(says("I would rather answer."))
    chat = endpoint.chat()
    runs = [await collect(chat.converse(FORCED)) for _ in range(4)]
    assert list(map(instead_of, runs)) == [["required", "free"]] * 3 + [[]]
    assert endpoint.bodies[-1]["tool_choice"] == "auto"
    whys = [[step.why for step in run if isinstance(step, SteppedDown)] for run in runs]
    assert whys[0] == whys[1] == ["The endpoint ignored the forced tool choice."] * 2
    assert all("3 times in a row" in why for why in whys[2])


async def test_an_honoured_forced_choice_shows_that_the_ignored_ones_before_were_chance() -> None:
    rather = [says("I would rather answer."), calls_tool()]
    endpoint = Endpoint(*rather, *rather, calls_tool(), *rather, *rather, calls_tool())
    chat = endpoint.chat()
    runs = [await collect(chat.converse(FORCED)) for _ in range(6)]
    assert list(map(instead_of, runs)) == [["required"], ["required"], [], ["required"], ["required"], []]


async def test_where_required_is_honoured_only_the_named_function_is_given_up() -> None:
    def deaf_to_names(sent: dict[str, Any]) -> httpx.Response:
        return calls_tool() if sent["tool_choice"] == "required" else says("I would rather answer.")

    endpoint = Endpoint(deaf_to_names)
    chat = endpoint.chat()
    runs = [await collect(chat.converse(FORCED)) for _ in range(5)]
    assert list(map(instead_of, runs)) == [["required"]] * 3 + [[], []]


async def test_a_refusal_below_an_ignored_choice_does_not_give_up_what_was_only_ignored() -> None:
    required = error(400, "Invalid tool_choice: required is not supported")
    endpoint = Endpoint(says("I would rather answer."), required, says("{}"), calls_tool())
    chat = endpoint.chat()
    assert instead_of(await collect(chat.converse(FORCED))) == ["required", "free"]
    assert instead_of(await collect(chat.converse(FORCED))) == []
    assert endpoint.bodies[-1]["tool_choice"] == {"type": "function", "function": {"name": TOOL_NAME}}


async def test_runs_at_once_count_together_and_none_forces_again_what_another_saw_refused() -> None:
    endpoint = Endpoint(says("I would rather answer."))
    client, learnt = httpx.AsyncClient(transport=httpx.MockTransport(endpoint)), Learnt()
    chats = [HttpChat(client, "https://models.example/v1", "", "m", None, learnt) for _ in range(3)]
    await asyncio.gather(*(collect(chat.converse(FORCED)) for chat in chats))
    assert learnt.can.forced_choice == "free"
    late = refused({"tools": []}, FORCED, Abilities(), "tool_choice is unsupported")
    assert late
    learnt.learn(late)
    assert learnt.can.forced_choice == "free"


async def test_a_step_down_of_a_reply_that_came_whole_is_told_once() -> None:
    endpoint = Endpoint(says("I would rather answer."), calls_tool())
    steps = await collect(endpoint.chat(stream=True).converse(FORCED))
    assert [step.capability for step in steps if isinstance(step, SteppedDown)] == ["streaming", "forced tool choice"]
    assert "stream" not in endpoint.bodies[1]


async def test_an_endpoint_without_auto_choice_is_offered_no_tools_in_the_end() -> None:
    def picky(sent: dict[str, Any]) -> httpx.Response:
        if "tools" in sent:
            return error(400, '"auto" tool choice requires --enable-auto-tool-choice')
        return says("{}")

    endpoint = Endpoint(picky)
    *steps, _ = await collect(endpoint.chat().converse(FREE))
    assert [s.instead for s in steps if isinstance(s, SteppedDown)] == ["unsaid", "none", "no tools"]


async def test_the_answer_format_steps_down_apart_with_and_without_tools() -> None:
    def gemini(sent: dict[str, Any]) -> httpx.Response:
        if "tools" in sent and "response_format" in sent:
            return error(400, "Function calling with a response mime type: 'application/json' is unsupported")
        return says("{}")

    endpoint = Endpoint(gemini)
    chat = endpoint.chat()
    *steps, _ = await collect(chat.converse(FREE))
    assert [(s.capability, s.instead) for s in steps if isinstance(s, SteppedDown)] == [
        ("answer format with tools", "json_object"),
        ("answer format with tools", "none"),
    ]
    (_,) = await collect(chat.converse(LAST))
    assert endpoint.bodies[-1]["response_format"]["type"] == "json_schema"
    assert "tools" not in endpoint.bodies[-1]


async def test_unknown_reasoning_fields_are_given_up() -> None:
    def strict(sent: dict[str, Any]) -> httpx.Response:
        for name in ("reasoning", "reasoning_effort"):
            if name in sent:
                return error(400, f"Unrecognized request argument supplied: {name}")
        return says("hi")

    *steps, _ = await collect(Endpoint(strict).chat().converse(PLAIN))
    assert [s.instead for s in steps if isinstance(s, SteppedDown)] == ["reasoning_effort", "none"]


async def test_missing_reasoning_details_are_no_refusal_of_reasoning() -> None:
    said = "Gemini models require OpenRouter reasoning details to be preserved: missing a thought_signature"
    endpoint = Endpoint(error(400, said))
    assert isinstance(await failure(endpoint), LLMRefused)
    assert len(endpoint.bodies) == 1


async def test_an_endpoint_that_can_do_nothing_is_asked_a_bounded_number_of_times() -> None:
    endpoint = Endpoint(error(400, "tool_choice response_format reasoning are all unsupported tools"))
    assert isinstance(await failure(endpoint, FREE), LLMRefused)
    assert len(endpoint.bodies) < 12


async def test_two_requests_at_once_do_not_unlearn_each_other() -> None:
    async def strict(sent: httpx.Request) -> httpx.Response:
        said = json.loads(sent.content)
        await asyncio.sleep(0)
        if "reasoning" in said:
            return error(400, "reasoning is unsupported")
        if said.get("response_format", {}).get("type") == "json_schema":
            return error(400, "json_schema is unsupported")
        return says("{}")

    client = httpx.AsyncClient(transport=httpx.MockTransport(strict))
    chat = HttpChat(client, "https://models.example/v1", "", "m")
    await asyncio.gather(*(collect(chat.converse(FREE)) for _ in range(5)))
    (only,) = await collect(chat.converse(FREE))
    assert isinstance(only, Reply)


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504, 529])
async def test_passing_trouble_is_tried_again_after_the_time_asked_for(status: int, waits: list[float]) -> None:
    endpoint = Endpoint(error(status, "busy", **{"Retry-After": "2"}), says("hi"))
    retried, got = await collect(endpoint.chat().converse(PLAIN))
    assert isinstance(retried, Retried)
    assert (retried.attempt, retried.wait) == (1, 2.0)
    assert isinstance(got, Reply)
    assert waits == [2.0]


async def test_waits_grow_when_nobody_says_how_long(waits: list[float]) -> None:
    error_ = await failure(Endpoint(error(503, "busy")), ChatRequest(QUESTION, seconds=60))
    assert isinstance(error_, LLMUnavailable)
    assert waits == [0.5, 1.0, 2.0, 4.0]


async def test_a_wait_beyond_the_time_left_ends_at_once(waits: list[float]) -> None:
    error_ = await failure(Endpoint(error(429, "slow down", **{"Retry-After": "3600"})))
    assert isinstance(error_, LLMUnavailable)
    assert waits == []


@pytest.mark.parametrize("header", ["soon", "-5", "nan", "inf", "Wed, 21 Oct 2015 07:28:00 GMT"])
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


async def test_a_lone_surrogate_in_the_text_does_not_stop_the_request() -> None:
    assert (await reply(Endpoint(says("hi")), ChatRequest([{"role": "user", "content": "\ud800"}]))).text == "hi"


async def test_a_reply_tells_who_served_it_and_what_was_cached_and_thought() -> None:
    usage = {
        "prompt_tokens": 9,
        "completion_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 3},
    }
    said = {"provider": "Acme", "choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}], "usage": usage}
    got = await reply(Endpoint(httpx.Response(200, json=said)))
    assert (got.provider, got.usage.cached_tokens, got.usage.reasoning_tokens) == ("Acme", 4, 3)


async def test_thoughts_told_only_in_details_are_shown() -> None:
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


def showing(kind: str) -> ChatRequest:
    """A question with a picture, a recording or a file."""
    part = {"type": kind, kind: {}}
    return ChatRequest([{"role": "user", "content": [{"type": "text", "text": "what is it?"}, part]}])


async def refusal_of(chat: HttpChat, request: ChatRequest) -> str:
    with pytest.raises(LLMRefused) as caught:
        await collect(chat.converse(request))
    return str(caught.value)


def blind(sent: dict[str, Any]) -> httpx.Response:
    is_text = isinstance(sent["messages"][0]["content"], str)
    return says("hi") if is_text else error(404, "No endpoints found that support image input")


async def test_pictures_refused_for_good_are_not_sent_again_and_the_refusal_still_says_why() -> None:
    endpoint = Endpoint(blind)
    chat = endpoint.chat()
    first, second = [await refusal_of(chat, showing("image_url")) for _ in "ab"]
    assert len(endpoint.bodies) == 1
    assert "was not asked" in second
    assert "No endpoints found that support image input" in second
    assert names_media(first)
    assert names_media(second)
    await collect(chat.converse(PLAIN))
    await refusal_of(chat, showing("input_audio"))
    assert len(endpoint.bodies) == 3


async def test_an_endpoint_that_lacks_eyes_is_not_tried_again_though_it_says_so_with_a_500(waits: list[float]) -> None:
    endpoint = Endpoint(error(500, "image input is not supported - hint: you may need to provide the mmproj"))
    assert isinstance(await failure(endpoint, showing("image_url")), LLMRefused)
    assert (len(endpoint.bodies), waits) == (1, [])


async def test_trouble_with_one_picture_says_nothing_of_the_next() -> None:
    endpoint = Endpoint(error(400, "The image is too large: 12 MB"), says("a cat"))
    chat = endpoint.chat()
    await refusal_of(chat, showing("image_url"))
    assert len(await collect(chat.converse(showing("image_url")))) == 1


async def test_what_was_taken_once_is_sent_again_whatever_one_provider_of_a_router_says() -> None:
    endpoint = Endpoint(says("a cat"), error(400, "this model does not support image input"), says("a dog"))
    chat = endpoint.chat()
    await collect(chat.converse(showing("image_url")))
    await refusal_of(chat, showing("image_url"))
    assert len(await collect(chat.converse(showing("image_url")))) == 1


async def test_a_wait_told_inside_an_error_is_kept(waits: list[float]) -> None:
    busy = {"error": {"code": 503, "message": "busy", "availability": {"retryable": True, "retry_after": 3}}}
    await reply(Endpoint(httpx.Response(200, json=busy), says("hi")))
    assert waits == [3.0]


async def test_an_answer_without_end_is_given_up(waits: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memoryapp.engine.chat.attempt._MOST_BYTES", 1_000)
    assert "too long" in str(await failure(Endpoint(says("x" * 2_000))))
