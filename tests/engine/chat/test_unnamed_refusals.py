"""Refusals and failures that do not say what they are about: one thing after the other is given up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from memoryapp.engine.chat.capabilities import Abilities, Learnt
from memoryapp.engine.chat.protocol import LLMRefused, LLMUnavailable, Reply
from tests.engine.endpoint import (
    FORCED,
    FREE,
    PLAIN,
    Endpoint,
    error,
    failure,
    has_schema,
    is_forced,
    refuses,
    says,
    steps_of,
    talk,
)
from tests.engine.scripted import collect

GLM = {"error": {"code": "1210", "message": "API 调用参数有误，请检查文档。"}}
GOOGLE = [{"error": {"code": 400, "message": "Request contains an invalid argument.", "status": "INVALID_ARGUMENT"}}]
ROUTED = {"error": {"code": 404, "message": "No endpoints found that can handle the requested parameters."}}


@pytest.mark.parametrize(
    ("status", "body", "when", "helped"),
    [
        (400, GLM, has_schema, ("answer format with tools", "json_object")),
        (400, GOOGLE, lambda sent: "response_format" in sent, ("answer format with tools", "none")),
        (404, ROUTED, is_forced, ("forced tool choice", "free")),
        (400, {}, lambda sent: "reasoning" in sent, ("reasoning effort", "reasoning_effort")),
    ],
    ids=["GLM", "Google", "OpenRouter", "without words"],
)
async def test_a_refusal_that_names_nothing_is_met_by_guesses_of_which_the_right_one_is_remembered(
    status: int, body: Any, when: Callable[[dict[str, Any]], Any], helped: tuple[str, str]
) -> None:
    """Zhipu's error 1210, Google's INVALID_ARGUMENT, OpenRouter's ``require_parameters``."""
    learnt = Learnt()
    endpoint = refuses(status, body, when)
    chat = endpoint.chat(learnt=learnt)
    wanted = FORCED if helped[0] == "forced tool choice" else FREE
    steps = steps_of(await collect(chat.converse(wanted)))
    assert steps[-1] == helped or helped in steps
    assert len(endpoint.bodies) <= 6
    assert [(each.step.capability, each.step.instead) for each in learnt.remembered()] == [steps[-1]]
    asked = len(endpoint.bodies)
    await collect(chat.converse(wanted))
    assert len(endpoint.bodies) == asked + 1


@pytest.mark.parametrize("words", ["Invalid request: model 'x' does not exist", "invalid_request: bad api key"])
async def test_nothing_is_guessed_where_the_model_or_the_key_is_wrong(words: str) -> None:
    endpoint = Endpoint(error(400, words))
    assert isinstance(await failure(endpoint, FREE), LLMRefused)
    assert len(endpoint.bodies) == 1


@pytest.mark.parametrize(
    "words",
    [
        "The parameter is invalid. Please check again.",
        "Malformed input request, please reformat your input and try again.",
        "Provider returned error",
        "Something went wrong with your request.",
        "We could not process your request",
    ],
    ids=["SiliconFlow", "Bedrock", "OpenRouter", "a gateway", "another"],
)
async def test_words_that_only_say_that_something_is_wrong_name_nothing(words: str) -> None:
    """SiliconFlow's 20015 (AstrBotDevs/AstrBot#8520), Bedrock's ValidationException, OpenRouter without ``raw``."""
    learnt = Learnt()
    endpoint = refuses(400, {"code": 20015, "message": words, "data": None}, has_schema)
    chat = endpoint.chat(learnt=learnt)
    assert steps_of(await collect(chat.converse(FREE)))[-1] == ("answer format with tools", "json_object")
    await collect(chat.converse(FREE))
    assert not has_schema(endpoint.bodies[-1])


@pytest.mark.parametrize(
    "words",
    [
        "Invalid request: your credit balance is too low to access the API.",
        "invalid_request: User location is not supported for the API use.",
        "Something went wrong: this organization has been disabled.",
    ],
    ids=["Anthropic", "Google", "an account"],
)
async def test_nothing_is_guessed_where_the_account_is_the_cause(words: str) -> None:
    """Anthropic answers 400 for an account without credit, Google for a country that it does not serve."""
    endpoint = Endpoint(error(400, words))
    assert isinstance(await failure(endpoint, FREE), LLMRefused)
    assert len(endpoint.bodies) == 1


SILENT = {
    "SGLang": (500, b"Internal Server Error"),
    "NIM": (500, b'{"title": "Internal Server Error", "status": 500, "detail": "Inference error"}'),
    "a page": (500, b"<html><body><h1>500 Internal Server Error</h1><hr>nginx/1.25.3</body></html>"),
    "nothing": (500, b""),
    "LocalAI": (501, b'{"error": "not implemented"}'),
    "nothing at all": (501, b""),
}


def thinks(sent: dict[str, Any]) -> bool:
    return "reasoning" in sent or "reasoning_effort" in sent


@pytest.mark.parametrize(("status", "content"), SILENT.values(), ids=SILENT)
@pytest.mark.parametrize(
    ("refused", "step"),
    [
        (thinks, ("reasoning effort", "none")),
        (lambda sent: "response_format" in sent, ("answer format with tools", "none")),
        (lambda sent: "stream_options" in sent, ("streaming", "without usage")),
        (lambda sent: any(m["role"] == "tool" for m in sent["messages"]), ("tools", "described in the prompt")),
        (lambda sent: sent["messages"][0]["role"] == "system", ("system message", "its text in the user's message")),
    ],
    ids=["effort", "format", "usage", "a result", "a system message"],
)
async def test_a_server_that_fails_again_without_a_word_is_asked_with_less(
    status: int, content: bytes, refused: Callable[[dict[str, Any]], Any], step: tuple[str, str], waits: list[float]
) -> None:
    """sgl-project/sglang#892 (a system message), anomalyco/opencode#1908 (messages with calls), NVIDIA's NIM."""
    endpoint = Endpoint(lambda sent: httpx.Response(status, content=content) if refused(sent) else says("{}"))
    steps = await collect(endpoint.chat(stream=True).converse(talk()))
    assert isinstance(steps[-1], Reply)
    assert step in steps_of(steps)
    assert len(endpoint.bodies) <= 12
    assert sum(waits) <= 0.5


async def test_what_helped_once_against_a_silent_failure_may_be_chance_and_three_times_is_remembered(
    waits: list[float],
) -> None:
    learnt = Learnt()
    endpoint = Endpoint(lambda sent: httpx.Response(500) if thinks(sent) else says("hi"))
    chat = endpoint.chat(learnt=learnt)
    for _ in range(3):
        assert learnt.can == Abilities()
        await collect(chat.converse(PLAIN))
    assert learnt.can == Abilities(effort="none")
    asked = len(endpoint.bodies)
    await collect(chat.converse(PLAIN))
    assert len(endpoint.bodies) == asked + 1


async def test_one_silent_failure_is_repeated_as_it_was_and_nothing_is_given_up(waits: list[float]) -> None:
    endpoint = Endpoint(httpx.Response(500), says("{}"))
    steps = await collect(endpoint.chat().converse(FREE))
    assert steps_of(steps) == []
    assert endpoint.bodies[0] == endpoint.bodies[1]


async def test_guesses_that_do_not_help_are_taken_back(waits: list[float]) -> None:
    endpoint = Endpoint(httpx.Response(500))
    assert isinstance(await failure(endpoint, FREE), LLMUnavailable)
    assert endpoint.bodies[-1] == endpoint.bodies[0]
    assert len(endpoint.bodies) < 14


async def test_what_is_not_implemented_is_not_asked_for_again() -> None:
    words = {"stream": "streaming is not implemented", "tools": "Function calling is not implemented for this backend"}
    for name, instead in (("stream", "off"), ("tools", "described in the prompt")):
        endpoint = refuses(501, {"error": {"message": words[name]}}, lambda sent, name=name: name in sent)
        steps = steps_of(await collect(endpoint.chat(stream=True).converse(FREE)))
        assert instead in {step[1] for step in steps}
        assert len(endpoint.bodies) <= 3
    unread = Endpoint(error(501, "the upstream stream was closed"))
    assert isinstance(await failure(unread, FREE), LLMRefused)
    assert len(unread.bodies) == 1
