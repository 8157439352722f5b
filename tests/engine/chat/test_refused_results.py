"""What servers say under status 500, and what they refuse in calls and results that other models made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from memoryapp.engine.chat.capabilities import Abilities, Learnt
from memoryapp.engine.chat.protocol import ChatRequest, Reply
from memoryapp.engine.events import SteppedDown
from memoryapp.engine.prompts.rerank import ANSWER_SCHEMA, TOOL, TOOL_NAME
from tests.engine.endpoint import FORCED, FREE, QUESTION, Endpoint, calls_tool, error, reply, says
from tests.engine.scripted import collect

Sent = dict[str, Any]


def steps_of(steps: list[Any]) -> list[tuple[str, str]]:
    return [(step.capability, step.instead) for step in steps if isinstance(step, SteppedDown)]


def format_of(sent: Sent) -> str:
    return str(sent.get("response_format", {}).get("type", ""))


KIMI = "functions.get_topics_content:0"
CALL = {"id": KIMI, "type": "function", "function": {"name": TOOL_NAME, "arguments": '{"ids": [1]}'}}
TALK = ChatRequest(
    (
        *QUESTION,
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": KIMI, "content": "=== Topic 1 ==="},
    ),
    tools=(TOOL,),
    answer_schema=ANSWER_SCHEMA,
)

REFUSALS: dict[str, tuple[ChatRequest, int, str, Callable[[Sent], Any], tuple[str, str]]] = {
    "llama.cpp, a forced call": (
        FORCED,
        500,
        "[json.exception.type_error.302] type must be string, but is object",
        lambda sent: isinstance(sent.get("tool_choice"), dict),
        ("forced tool choice", "required"),
    ),
    "ik_llama.cpp": (
        FREE,
        500,
        'response_format type must be one of "text" or "json_object", but got: json_schema',
        lambda sent: format_of(sent) == "json_schema",
        ("answer format with tools", "json_object"),
    ),
    "llama.cpp, a grammar": (
        FREE,
        500,
        "Failed to initialize samplers: failed to parse grammar",
        format_of,
        ("answer format with tools", "none"),
    ),
    "LiteLLM, an effort": (
        FREE,
        500,
        "litellm.APIConnectionError: Unmapped reasoning effort: low",
        lambda sent: "reasoning" in sent or "reasoning_effort" in sent,
        ("reasoning effort", "none"),
    ),
    "Google behind a gateway": (
        FREE,
        500,
        "Unknown name \"additionalProperties\" at 'generation_config.response_schema': Cannot find field.",
        lambda sent: "additionalProperties" in str(sent),
        ("strict schemas", "plain schemas"),
    ),
}


@pytest.mark.parametrize(("request_", "status", "words", "refuses", "step"), REFUSALS.values(), ids=REFUSALS)
async def test_a_refusal_under_the_status_of_a_failure_is_one(
    request_: ChatRequest, status: int, words: str, refuses: Callable[[Sent], Any], step: tuple[str, str]
) -> None:
    """ikawrakow/ik_llama.cpp#778, BerriAI/litellm#27050; one request shows what is accepted."""
    answer = calls_tool if request_ is FORCED else lambda: says("{}")
    endpoint = Endpoint(lambda sent: error(status, words) if refuses(sent) else answer())
    chat = endpoint.chat()
    assert steps_of(await collect(chat.converse(request_)))[-1] == step
    asked = len(endpoint.bodies)
    await collect(chat.converse(request_))
    assert not refuses(endpoint.bodies[asked])


@pytest.mark.parametrize("status", [424, 500, 502, 503])
@pytest.mark.parametrize(
    ("words", "ability"),
    [
        ("Tool call id was call_a1b2c3 but must be a-z, A-Z, 0-9, with a length of 9", "short_ids"),
        ("Tool call IDs should be alphanumeric strings with length 9!", "short_ids"),
        ("messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'", "short_ids"),
        ("Value at 'toolResult.toolUseId' failed to satisfy constraint: Member must satisfy pattern", "short_ids"),
        ("response_format value as json_schema is not permitted for this model", "format_with_tools"),
        ("Invalid value for 'response_format': must be one of text", "format_with_tools"),
        ("content must be a string, got null", "blank"),
        ("Extra inputs are not permitted: reasoning", "effort"),
    ],
)
async def test_a_refusal_in_words_teaches_under_any_status(
    words: str, ability: str, status: int, waits: list[float]
) -> None:
    """jundot/omlx#1995, langchain-ai/langchain#29021; the next request already knows."""
    learnt = Learnt()
    endpoint = Endpoint(error(status, words), says("{}"))
    await collect(endpoint.chat(learnt=learnt).converse(TALK))
    assert (waits, len(endpoint.bodies)) == ([], 2)
    assert getattr(learnt.can, ability) != getattr(Abilities(), ability)


@pytest.mark.parametrize(
    "words",
    [
        "The model must be loaded first, try again later",
        "Tool server overloaded: the request must be retried",
        "no healthy upstream for response_format, upstream request timeout",
    ],
)
async def test_trouble_that_passes_is_no_refusal_though_it_names_a_parameter(words: str, waits: list[float]) -> None:
    learnt = Learnt()
    endpoint = Endpoint(error(503, words), says("{}"))
    await collect(endpoint.chat(learnt=learnt).converse(TALK))
    assert learnt.can == Abilities()
    assert endpoint.bodies[0] == endpoint.bodies[1]


@pytest.mark.parametrize(
    "words",
    [
        'unexpected tokens remaining in message header: Some("to=functions.get_topics_content")',
        "Unexpected token 12606 while expecting start token 200006",
    ],
)
async def test_what_gpt_oss_wrote_wrongly_may_be_right_the_next_time(words: str, waits: list[float]) -> None:
    endpoint = Endpoint(error(400, words), calls_tool())
    await collect(endpoint.chat().converse(FORCED))
    assert endpoint.bodies[0] == endpoint.bodies[1]


async def test_where_no_call_can_be_read_the_tools_are_described(waits: list[float]) -> None:
    """Ollama with a template that its parser does not fit; without tools nothing could be read."""
    call = f'<tool_call>\n{{"name": "{TOOL_NAME}", "arguments": {{"ids": [1]}}}}\n</tool_call>'
    words = "error parsing tool call: raw='{', err=unexpected end of JSON input"
    learnt = Learnt()
    chat = Endpoint(lambda sent: error(500, words) if "tools" in sent else says(call)).chat(learnt=learnt)
    *steps, got = await collect(chat.converse(FORCED))
    assert steps_of(steps)[-1] == ("tools", "described in the prompt")
    assert isinstance(got, Reply)
    assert len(got.tool_calls) == 1
    assert learnt.can == Abilities(), "once may be chance"


@pytest.mark.parametrize(
    "words",
    [
        "Tool call id was functions.get_topics_content:0 but must be a-z, A-Z, 0-9, with a length of 9.",
        "messages.1.content.1.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
        "Invalid 'messages[1].tool_calls[0].id': string too long. Expected a string with maximum length 40.",
    ],
    ids=["Mistral", "Anthropic", "OpenAI"],
)
async def test_ids_that_another_model_made_are_shortened_where_they_are_refused(words: str) -> None:
    """A router answers each turn with the provider that is free."""

    def strict(sent: Sent) -> httpx.Response:
        return error(400, words) if KIMI in str(sent["messages"]) else says("{}")

    endpoint = Endpoint(strict)
    chat = endpoint.chat()
    assert steps_of(await collect(chat.converse(TALK))) == [("ids of calls", "short ids")]
    await collect(chat.converse(TALK))
    assert len(endpoint.bodies) == 3
    _user, called, result = endpoint.bodies[-1]["messages"]
    assert called["tool_calls"][0]["id"] == result["tool_call_id"]
    assert len(result["tool_call_id"]) == 9
    assert result["tool_call_id"].isalnum()


@pytest.mark.parametrize(
    "words",
    [
        "GenerateContentRequest.contents[2].parts[0].function_response.name: Name cannot be empty.",
        "messages: a tool message must have a name",
    ],
    ids=["Gemini", "a gateway"],
)
async def test_results_get_the_name_of_their_tool_where_it_is_demanded(words: str) -> None:
    endpoint = Endpoint(lambda sent: says("{}") if "name" in sent["messages"][2] else error(400, words))
    chat = endpoint.chat()
    assert steps_of(await collect(chat.converse(TALK))) == [("results of tools", "results with a name")]
    assert endpoint.bodies[-1]["messages"][2]["name"] == TOOL_NAME
    assert "name" not in (await _first_sent())["messages"][2], "others do not know this field"


async def _first_sent() -> Sent:
    other = Endpoint(says("{}"))
    await reply(other, TALK)
    return other.bodies[0]
