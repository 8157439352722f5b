"""Capabilities that an endpoint lacks: what is requested instead, what is remembered of it, and for how long."""

import asyncio
import json
from contextlib import suppress
from typing import Any

import httpx
import pytest

from memoryapp.engine.chat.capabilities import Abilities, Learnt
from memoryapp.engine.chat.client import HttpChat
from memoryapp.engine.chat.lessons import refused
from memoryapp.engine.chat.protocol import LLMRefused, Reply
from memoryapp.engine.events import SteppedDown
from memoryapp.engine.prompts.rerank import TOOL_NAME
from tests.engine.endpoint import (
    END,
    FORCED,
    FREE,
    LAST,
    PLAIN,
    USAGE,
    Endpoint,
    calls_tool,
    delta,
    error,
    failure,
    says,
    streams,
)
from tests.engine.scripted import collect


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
@pytest.mark.parametrize("status", [404, 500, 503])
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
    document = {"error": {"code": 400, "message": "Unsupported value.", "param": "response_format"}}
    endpoint = Endpoint(httpx.Response(400, json=document), says("{}"))
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


async def test_a_step_down_of_a_whole_reply_is_reported_once() -> None:
    endpoint = Endpoint(says("I would rather answer."), calls_tool())
    steps = await collect(endpoint.chat(stream=True).converse(FORCED))
    assert [step.capability for step in steps if isinstance(step, SteppedDown)] == ["streaming", "forced tool choice"]
    assert "stream" not in endpoint.bodies[1]


def streams_hello(_sent: dict[str, Any]) -> httpx.Response:
    return streams(delta(content="Hello"), delta(finish="stop"), USAGE, END)


async def test_one_answer_that_came_whole_does_not_switch_streaming_off() -> None:
    endpoint, learnt = Endpoint(says("Hello"), says("Hello"), streams_hello, says("Hello"), streams_hello), Learnt()
    chat = endpoint.chat(stream=True, learnt=learnt)
    runs = [await collect(chat.converse(PLAIN)) for _ in range(5)]
    assert list(map(instead_of, runs)) == [["off"], ["off"], [], ["off"], []]
    assert all(body.get("stream") for body in endpoint.bodies)
    assert learnt.remembered() == []


async def test_an_endpoint_that_never_streams_is_asked_to_three_times() -> None:
    endpoint, learnt = Endpoint(lambda _sent: says("Hello")), Learnt()
    chat = endpoint.chat(stream=True, learnt=learnt)
    runs = [await collect(chat.converse(PLAIN)) for _ in range(5)]
    assert list(map(instead_of, runs)) == [["off"]] * 3 + [[], []]
    assert ["stream" in body for body in endpoint.bodies] == [True] * 3 + [False] * 2
    assert [known.step.capability for known in learnt.remembered()] == ["streaming"]


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
    sentence = "Gemini models require OpenRouter reasoning details to be preserved: missing a thought_signature"
    endpoint = Endpoint(error(400, sentence))
    assert isinstance(await failure(endpoint), LLMRefused)
    assert len(endpoint.bodies) == 1


async def test_an_endpoint_that_can_do_nothing_is_asked_a_bounded_number_of_times() -> None:
    endpoint = Endpoint(error(400, "tool_choice response_format reasoning are all unsupported tools"))
    assert isinstance(await failure(endpoint, FREE), LLMRefused)
    assert len(endpoint.bodies) < 12


async def test_two_requests_at_once_do_not_unlearn_each_other() -> None:
    async def strict(sent: httpx.Request) -> httpx.Response:
        body = json.loads(sent.content)
        await asyncio.sleep(0)
        if "reasoning" in body:
            return error(400, "reasoning is unsupported")
        if body.get("response_format", {}).get("type") == "json_schema":
            return error(400, "json_schema is unsupported")
        return says("{}")

    client = httpx.AsyncClient(transport=httpx.MockTransport(strict))
    chat = HttpChat(client, "https://models.example/v1", "", "m")
    await asyncio.gather(*(collect(chat.converse(FREE)) for _ in range(5)))
    (only,) = await collect(chat.converse(FREE))
    assert isinstance(only, Reply)
