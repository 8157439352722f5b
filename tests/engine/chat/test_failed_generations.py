"""What a model wrote wrongly, which endpoints report as a refusal of the request."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from memoryapp.engine.chat.capabilities import Abilities, Learnt
from memoryapp.engine.chat.protocol import LLMRefused, LLMUnavailable, Reply
from memoryapp.engine.events import Retried
from tests.engine.endpoint import FORCED, LAST, Endpoint, calls_tool, error, failure, says, steps_of, streams
from tests.engine.scripted import collect

FAILED_CALL = "Failed to call a function. Please adjust your prompt. See 'failed_generation' for more details."
FAILED_JSON = "Failed to generate JSON. Please adjust your prompt. See 'failed_generation' for more details."


def failed(words: str, code: str) -> httpx.Response:
    return httpx.Response(400, json={"error": {"message": words, "type": "invalid_request_error", "code": code}})


def failed_in_stream(words: str, code: str) -> httpx.Response:
    document = {"error": {"message": words, "code": code, "failed_generation": "x", "status_code": 400}}
    return streams(b"event: error\ndata: " + json.dumps(document).encode() + b"\n\n")


@pytest.mark.parametrize("answer", [failed, failed_in_stream], ids=["whole", "in a stream"])
async def test_a_generation_that_failed_once_is_tried_once_more(
    answer: Callable[[str, str], httpx.Response], waits: list[float]
) -> None:
    """Groq's documentation of errors: ``tool_use_failed`` with 400, or as an event of the stream."""
    endpoint = Endpoint(answer(FAILED_CALL, "tool_use_failed"), calls_tool())
    retried, *_, got = await collect(endpoint.chat(stream=True).converse(FORCED))
    assert isinstance(retried, Retried)
    assert isinstance(got, Reply)
    assert endpoint.bodies[0] == endpoint.bodies[1]


async def test_a_generation_that_always_fails_steps_down_and_is_not_remembered_at_once(waits: list[float]) -> None:
    """Groq: ``json_validate_failed`` while a format is asked for, ``tool_use_failed`` while a tool is forced."""

    def picky(sent: dict[str, Any]) -> httpx.Response:
        if sent.get("tool_choice") not in (None, "auto", "none"):
            return failed(FAILED_CALL, "tool_use_failed")
        return failed(FAILED_JSON, "json_validate_failed") if "response_format" in sent else says("{}")

    learnt = Learnt()
    chat = Endpoint(picky).chat(learnt=learnt)
    assert steps_of(await collect(chat.converse(FORCED))) == [
        ("forced tool choice", "required"),
        ("forced tool choice", "free"),
    ]
    assert steps_of(await collect(chat.converse(LAST)))[-1] == ("answer format", "none")
    assert learnt.can == Abilities()


async def test_a_generation_that_fails_without_any_wish_is_given_up(waits: list[float]) -> None:
    endpoint = Endpoint(failed("The model produced invalid content: failed_generation", ""))
    assert isinstance(await failure(endpoint), LLMUnavailable | LLMRefused)
    assert len(endpoint.bodies) <= 5


@pytest.mark.parametrize(
    "words",
    [
        "Failed to parse fc related info to json format!",
        "Model produced invalid sequence as part of ToolUse.",
        "error parsing tool call: raw='{', err=unexpected end of JSON input",
        "Parsing failed. The model generated output that could not be parsed.",
    ],
    ids=["SGLang", "Bedrock", "Ollama", "Groq"],
)
async def test_what_the_model_wrote_wrongly_may_be_right_the_next_time(words: str, waits: list[float]) -> None:
    endpoint = Endpoint(error(400, words), calls_tool())
    await collect(endpoint.chat().converse(FORCED))
    assert endpoint.bodies[0] == endpoint.bodies[1]
