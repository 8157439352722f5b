"""Parameters that an endpoint refuses in words: what is given up, and that nothing else is."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from memoryapp.engine.chat.protocol import ChatRequest, Reply
from memoryapp.engine.events import SteppedDown
from memoryapp.engine.prompts.rerank import TOOL, TOOL_NAME
from tests.engine.endpoint import (
    END,
    FREE,
    PLAIN,
    QUESTION,
    Endpoint,
    error,
    has_schema,
    refuses,
    says,
    steps_of,
    streams,
    talk,
)
from tests.engine.scripted import collect

LLAMA = "Cannot use custom grammar constraints with tools."


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (500, LLAMA),
        (400, "Function calling with a response mime type: 'application/json' is unsupported"),
        (500, "litellm.UnsupportedParamsError: groq does not support parameters: ['response_format']"),
        (400, "json mode cannot be combined with tool/function calling"),
        (400, "'response_format.type' must be 'json_schema' or 'text'"),
    ],
)
async def test_a_format_that_is_refused_with_tools_is_left_out_and_remembered(status: int, words: str) -> None:
    """llama.cpp refuses with 500 (``tools/server``), Gemini with a list (googleapis/python-genai#867), LiteLLM with
    500 (BerriAI/litellm#11940), Groq with 400, LM Studio only ``json_object`` (lmstudio-bug-tracker#189)."""

    def strict(sent: dict[str, Any]) -> httpx.Response:
        refuses = "tools" in sent and "response_format" in sent
        return httpx.Response(status, json=[{"error": {"message": words}}]) if refuses else says("{}")

    endpoint = Endpoint(strict)
    chat = endpoint.chat()
    assert steps_of(await collect(chat.converse(FREE)))[-1] == ("answer format with tools", "none")
    asked = len(endpoint.bodies)
    await collect(chat.converse(FREE))
    assert len(endpoint.bodies) == asked + 1


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, "registry.ollama.ai/library/gemma3:4b does not support tools"),
        (404, 'No endpoints found that support tool use. Try disabling "get_topics_content".'),
        (400, "`tool calling` is not supported with this model"),
        (400, "Function calling is not enabled for models/gemma-3-27b-it"),
        (500, "tools param requires --jinja flag"),
    ],
    ids=["Ollama", "OpenRouter", "Groq", "Google", "llama.cpp"],
)
async def test_tools_that_an_endpoint_lacks_are_described_in_words(status: int, words: str) -> None:
    """Ollama, OpenRouter, Groq and Google refuse tools for whole models; a described tool is called in the text."""

    def toolless(sent: dict[str, Any]) -> httpx.Response:
        if "tools" in sent:
            return error(status, words)
        return says(f'<tool_call>\n{{"name": "{TOOL_NAME}", "arguments": {{"ids": [1]}}}}\n</tool_call>')

    endpoint = Endpoint(toolless)
    chat = endpoint.chat()
    forced = ChatRequest(({"role": "system", "content": "You choose."}, *QUESTION), tools=(TOOL,), force_tool=TOOL_NAME)
    *steps, got = await collect(chat.converse(forced))
    assert steps_of(steps) == [("tools", "described in the prompt")]
    assert isinstance(got, Reply)
    assert [call.arguments for call in got.tool_calls] == ['{"ids":[1]}']
    assert TOOL_NAME in endpoint.bodies[-1]["messages"][0]["content"]
    await collect(chat.converse(talk({"role": "user", "content": "Answer now."})))
    roles = [message["role"] for message in endpoint.bodies[-1]["messages"]]
    assert roles == ["system", "user", "assistant", "user"]
    assert "=== Topic 1 ===" in endpoint.bodies[-1]["messages"][-1]["content"]
    assert all("tool_calls" not in message for message in endpoint.bodies[-1]["messages"])


@pytest.mark.parametrize(
    ("words", "when", "step"),
    [
        (
            "Function tools with reasoning_effort are not supported for gpt-5.4 in /v1/chat/completions.",
            lambda sent: "tools" in sent and ("reasoning" in sent or "reasoning_effort" in sent),
            ("reasoning effort", "none"),
        ),
        (
            "This model doesn't support tool use in streaming mode.",
            lambda sent: "tools" in sent and "stream" in sent,
            ("streaming", "off"),
        ),
        (
            "`response_format` does not support streaming",
            lambda sent: "response_format" in sent and "stream" in sent,
            ("streaming", "off"),
        ),
        (
            "does not support parameters: ['tools', 'tool_choice'], for model=x. To drop these, set `drop_params`",
            lambda sent: "tools" in sent,
            ("tools", "described in the prompt"),
        ),
        (
            "The specified schema produces a constraint that has too many states for serving.",
            has_schema,
            ("answer format with tools", "json_object"),
        ),
        (
            "unknown field: parameter 'strict' is not a valid field.",
            lambda sent: "strict" in json.dumps(sent.get("response_format", {})),
            ("strict schemas", "plain schemas"),
        ),
        (
            "Unknown name \"additionalProperties\" at 'tools[0].function_declarations[0]': Cannot find field.",
            lambda sent: "additionalProperties" in json.dumps(sent.get("tools", [])),
            ("strict schemas", "plain schemas"),
        ),
        (
            "Invalid role 'tool'. Must be one of: system, user, assistant",
            lambda sent: any(message["role"] == "tool" for message in sent["messages"]),
            ("tools", "described in the prompt"),
        ),
    ],
    ids=["OpenAI", "Bedrock", "Groq", "LiteLLM", "Gemini", "Cohere", "Gemini's tools", "a role"],
)
async def test_of_two_things_refused_together_the_one_goes_that_matters_less(
    words: str, when: Callable[[dict[str, Any]], Any], step: tuple[str, str]
) -> None:
    """OpenAI's gpt-5, Bedrock's Llama, Groq (docs), BerriAI/litellm#35382, OpenRouterTeam/openrouter-examples#71."""
    endpoint = refuses(400, {"error": {"message": words}}, when)
    chat = endpoint.chat(stream=True)
    first = [each for each in await collect(chat.converse(talk())) if isinstance(each, SteppedDown)]
    assert step in steps_of(first)
    assert {each.capability for each in first if each.why == words} == {step[0]}
    asked = len(endpoint.bodies)
    await collect(chat.converse(talk()))
    assert len(endpoint.bodies) == asked + 1


@pytest.mark.parametrize(
    "words",
    [
        "This model only support stream mode, please enable the stream parameter to access the model.",
        "parameter.enable_thinking must be set to false for non-streaming calls",
        "Stream must be set to true",
    ],
)
async def test_a_model_that_only_streams_is_asked_for_a_stream(words: str) -> None:
    """DashScope's QwQ and Qwen 3, proxies of Codex."""
    answer = b'data: {"choices": [{"index": 0, "delta": {"content": "hi"}, "finish_reason": "stop"}]}\n\n'

    def live(sent: dict[str, Any]) -> httpx.Response:
        return streams(answer, END) if sent.get("stream") else error(400, words)

    endpoint = Endpoint(live)
    chat = endpoint.chat()
    assert steps_of(await collect(chat.converse(PLAIN))) == [("whole answers", "streaming")]
    await collect(chat.converse(PLAIN))
    assert len(endpoint.bodies) == 3
