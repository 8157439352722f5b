"""Refusals that do not say what they are about: status 500, others' calls and results, one thing given up after
another."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from memoryapp.engine.chat.capabilities import Abilities, Learnt
from memoryapp.engine.chat.protocol import ChatRequest, LLMRefused, LLMUnavailable, Reply
from memoryapp.engine.events import SteppedDown
from memoryapp.engine.prompts.rerank import ANSWER_SCHEMA, TOOL, TOOL_NAME
from tests.engine.endpoint import (
    FORCED,
    FREE,
    PLAIN,
    QUESTION,
    Endpoint,
    calls_tool,
    error,
    failure,
    has_schema,
    is_forced,
    refuses,
    reply,
    says,
    talk,
)
from tests.engine.endpoint import steps_of as kinds_of_steps
from tests.engine.scripted import collect
from tests.examples import table

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
@pytest.mark.parametrize(("words", "ability"), table("refused_abilities"))
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


# Refusals and failures that do not say what they are about: one thing after the other is given up.


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
    steps = kinds_of_steps(await collect(chat.converse(wanted)))
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
    assert kinds_of_steps(await collect(chat.converse(FREE)))[-1] == ("answer format with tools", "json_object")
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
    assert step in kinds_of_steps(steps)
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
    assert kinds_of_steps(steps) == []
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
        steps = kinds_of_steps(await collect(endpoint.chat(stream=True).converse(FREE)))
        assert instead in {step[1] for step in steps}
        assert len(endpoint.bodies) <= 3
    unread = Endpoint(error(501, "the upstream stream was closed"))
    assert isinstance(await failure(unread, FREE), LLMRefused)
    assert len(unread.bodies) == 1
