"""Scripted peers: thirteen providers of chat models as their documentation and their users' reports describe them. Each
is a function of the request, behind httpx's mock transport: it refuses what the provider refuses, in its own words and
shape, and answers in its way. None of them was asked over the network; ``docs/endpoints.md`` says so."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from memoryapp.engine.prompts.rerank import TOOL_NAME

Body = Mapping[str, Any]
ANSWER = json.dumps({"topics": [{"id": "Topic:2", "reason": "because"}], "people": [], "artifacts": []})
CALL = {"id": "abc123def", "type": "function", "function": {"name": TOOL_NAME, "arguments": '{"ids": [2, 3]}'}}
USAGE = {"prompt_tokens": 900, "completion_tokens": 40, "total_tokens": 940}


@dataclass(frozen=True)
class Provider:
    """``refuse`` answers a request that the provider does not take; ``say`` writes a message of the model."""

    name: str
    refuse: Callable[[Body], httpx.Response | None]
    say: Callable[[Body, dict[str, Any]], httpx.Response]

    def __call__(self, sent: httpx.Request) -> httpx.Response:
        body = json.loads(sent.content)
        return self.refuse(body) or self.say(body, _thought_out(body))


def _thought_out(body: Body) -> dict[str, Any]:
    """What the model says: first it reads, then it answers."""
    has_read = any(m["role"] == "tool" or "<tool_response>" in str(m["content"]) for m in body["messages"])
    if has_read or not (body.get("tools") or "<tool_call>" in str(body["messages"])):
        return {"role": "assistant", "content": ANSWER}
    return {"role": "assistant", "content": None, "tool_calls": [CALL]}


def error(status: int, message: str, **fields: Any) -> httpx.Response:
    return httpx.Response(status, json={"error": {"message": message, "type": "invalid_request_error", **fields}})


def roles(body: Body) -> list[tuple[str, str]]:
    named = [message["role"] for message in body["messages"]]
    return list(zip(named, named[1:], strict=False))


def fields_of_the_model(body: Body) -> set[str]:
    return {key for message in body["messages"] if message["role"] == "assistant" for key in message}


def whole(body: Body, message: dict[str, Any]) -> httpx.Response:
    reason = "tool_calls" if message.get("tool_calls") else "stop"
    choice = {"index": 0, "message": message, "finish_reason": reason}
    return httpx.Response(200, json={"model": body["model"], "choices": [choice], "usage": USAGE})


def streamed(*chunks: Mapping[str, Any], done: bool = True) -> httpx.Response:
    lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks] + (["data: [DONE]\n\n"] if done else [])
    return httpx.Response(200, content="".join(lines).encode(), headers={"Content-Type": "text/event-stream"})


def chunk(delta: Mapping[str, Any], reason: str | None = None, **top: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}], **top}


def numbered(message: dict[str, Any]) -> dict[str, Any]:
    calls = [{**call, "index": place} for place, call in enumerate(message.get("tool_calls", ()))]
    return {**message, "tool_calls": calls} if calls else message


def as_openai(body: Body, message: dict[str, Any]) -> httpx.Response:
    if not body.get("stream"):
        return whole(body, message)
    reason = "tool_calls" if message.get("tool_calls") else "stop"
    return streamed(chunk(numbered(message)), chunk({}, reason), {"choices": [], "usage": USAGE})


def openai(body: Body) -> httpx.Response | None:
    """OpenAI's API reference: unknown parameters are refused by name; ``reasoning`` belongs to another API."""
    for name in ("reasoning", "provider", "plugins"):
        if name in body:
            return error(400, f"Unrecognized request argument supplied: {name}", param=None, code=None)
    for place, message in enumerate(body["messages"]):
        if message["role"] == "assistant" and (extra := set(message) - {"role", "content", "tool_calls", "refusal"}):
            return error(400, f"Unknown parameter: 'messages[{place}].{min(extra)}'.", code="unknown_parameter")
    return None


def azure_says(body: Body, message: dict[str, Any]) -> httpx.Response:
    """A first chunk without choices and a last one without delta (Azure/azure-sdk-for-go#21086,
    microsoft/autogen#6465)."""
    if not body.get("stream"):
        return whole(body, message)
    safe = {"content_filter_results": {"hate": {"filtered": False, "severity": "safe"}}}
    last = {"choices": [{"index": 0, "finish_reason": None, **safe, "content_filter_offsets": {"end_offset": 9}}]}
    reason = "tool_calls" if message.get("tool_calls") else "stop"
    first = {"id": "", "choices": [], "prompt_filter_results": [{"prompt_index": 0, **safe}]}
    return streamed(first, chunk(numbered(message)), chunk({}, reason), last, {"choices": [], "usage": USAGE})


def gemini(body: Body) -> httpx.Response | None:
    """Google's compatible API: errors in a list, no tools with a JSON format (googleapis/python-genai#867), signatures
    demanded back (open-webui/computer#224)."""
    if body.get("tools") and "response_format" in body:
        words = "Function calling with a response mime type: 'application/json' is unsupported"
        return httpx.Response(400, json=[{"error": {"code": 400, "message": words, "status": "INVALID_ARGUMENT"}}])
    if "reasoning" in body:
        words = 'Invalid JSON payload received. Unknown name "reasoning": Cannot find field.'
        return httpx.Response(400, json=[{"error": {"code": 400, "message": words, "status": "INVALID_ARGUMENT"}}])
    if any(m.get("tool_calls") and "SIG" not in json.dumps(m) for m in body["messages"]):
        words = "Function call is missing a thought_signature in functionCall parts."
        return httpx.Response(400, json=[{"error": {"code": 400, "message": words, "status": "INVALID_ARGUMENT"}}])
    return None


def gemini_says(body: Body, message: dict[str, Any]) -> httpx.Response:
    """No index, arguments in pieces, the signature alone, ``stop`` after a call (open-webui/computer#224)."""
    signature = {"extra_content": {"google": {"thought_signature": "SIG=="}}}
    if not message.get("tool_calls"):
        return as_openai(body, message)
    if not body.get("stream"):
        return whole(body, {**message, "tool_calls": [{**CALL, **signature}]})
    begun = {**CALL, "function": {"name": TOOL_NAME, "arguments": '{"ids": '}}
    rest = {"function": {"arguments": "[2, 3]}"}}
    return streamed(
        *(chunk({"tool_calls": [piece]}) for piece in (begun, rest, signature)), chunk({}, "stop", usage=USAGE)
    )


def openrouter(body: Body) -> httpx.Response | None:
    """OpenRouter's documentation: 404 when no provider takes a parameter; reasoning details are demanded back by Gemini
    (LibreChat-AI/agents#37)."""
    if isinstance(body.get("tool_choice"), dict):
        words = "No endpoints found that support the provided 'tool_choice' value."
        return httpx.Response(404, json={"error": {"code": 404, "message": words}})
    if any(m.get("tool_calls") and "reasoning_details" not in m for m in body["messages"]):
        words = "Gemini models require OpenRouter reasoning details to be preserved in each request."
        return httpx.Response(400, json={"error": {"code": 400, "message": words}})
    return None


def openrouter_says(body: Body, message: dict[str, Any]) -> httpx.Response:
    details = [{"type": "reasoning.encrypted", "data": "x", "format": "google-gemini-v1", "index": 0}]
    return as_openai(body, {**message, "reasoning": "hm", "reasoning_details": details})


def groq(body: Body) -> httpx.Response | None:
    """Groq's documentation, karthink/gptel#774, vercel/ai#8056: its own ``reasoning`` is refused in a message; no JSON
    format together with tools."""
    if "reasoning" in body:
        return error(400, "property 'reasoning' is unsupported, did you mean 'reasoning_effort'?")
    if extra := fields_of_the_model(body) & {"reasoning", "reasoning_content"}:
        place = "'messages.2' : for 'role:assistant' the following must be satisfied[('messages.2'"
        return error(400, f"{place} : property '{min(extra)}' is unsupported)]")
    if body.get("tools") and "response_format" in body:
        return error(400, "json mode cannot be combined with tool/function calling; drop response_format")
    return None


def groq_says(body: Body, message: dict[str, Any]) -> httpx.Response:
    return as_openai(body, {**message, "reasoning": "let me see"})


def mistral(body: Body) -> httpx.Response | None:
    """Mistral: unknown fields are 422 with ``detail``; an error's ``message`` stands at the top; no user after a tool
    (BerriAI/litellm#17761); ids of nine letters and digits."""
    for name in ("reasoning", "reasoning_effort", "stream_options"):
        if name in body:
            place = {"type": "extra_forbidden", "loc": ["body", name], "msg": "Extra inputs are not permitted"}
            return httpx.Response(422, json={"object": "error", "message": {"detail": [place]}})
    if ("tool", "user") in roles(body):
        words = "Unexpected role 'user' after role 'tool'"
        return httpx.Response(400, json={"object": "error", "message": words, "code": "3230"})
    return None


def mistral_says(body: Body, message: dict[str, Any]) -> httpx.Response:
    """Magistral thinks in a part of the content."""
    if message["content"] is None:
        return as_openai(body, message)
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    return as_openai(body, {**message, "content": [thought, {"type": "text", "text": message["content"]}]})


def deepseek(body: Body) -> httpx.Response | None:
    """DeepSeek's guide to thinking, continuedev/continue#10193: reasoning comes back with calls; the thinking model
    takes no forced choice and no schema."""
    if body.get("tool_choice") not in (None, "auto", "none"):
        return error(400, "deepseek-reasoner does not support this tool_choice")
    if body.get("response_format", {}).get("type") == "json_schema":
        return error(400, "This response_format type is unavailable now")
    if any(m.get("tool_calls") and "reasoning_content" not in m for m in body["messages"]):
        return error(400, "Missing `reasoning_content` field in the assistant message at message index 2.")
    return None


def deepseek_says(body: Body, message: dict[str, Any]) -> httpx.Response:
    return as_openai(body, {**message, "reasoning_content": "hm"})


def together(body: Body) -> httpx.Response | None:
    """Together's documentation: refusals have a ``param``."""
    if "reasoning" in body:
        return error(400, "Unsupported parameter.", param="reasoning")
    return None


def ollama(body: Body) -> httpx.Response | None:
    """Ollama: models without a template for tools refuse them (``does not support tools``); an error is a text."""
    if body.get("tools"):
        words = "registry.ollama.ai/library/gemma3:4b does not support tools"
        return httpx.Response(400, json={"error": {"message": words, "type": "api_error", "param": None, "code": None}})
    return None


def ollama_says(body: Body, message: dict[str, Any]) -> httpx.Response:
    """Where tools are described, the model writes its call."""
    if message.get("tool_calls"):
        written = json.dumps({"name": TOOL_NAME, "arguments": {"ids": [2, 3]}})
        return as_openai(body, {"role": "assistant", "content": f"<tool_call>\n{written}\n</tool_call>"})
    return as_openai(body, message)


def vllm(body: Body) -> httpx.Response | None:
    """vLLM without a parser for tools: named choice works, "auto" is refused; errors at the top
    (QwenLM/Qwen3-Embedding#188)."""
    if body.get("tools") and body.get("tool_choice", "auto") in ("auto", "required"):
        words = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
        document = {"object": "error", "message": words, "type": "BadRequestError", "param": None, "code": 400}
        return httpx.Response(400, json=document)
    return None


def llama_cpp(body: Body) -> httpx.Response | None:
    """llama.cpp's server: refusals under status 500; a template that wants roles in turn."""
    if body.get("tools") and "response_format" in body:
        words = "Cannot use custom grammar constraints with tools."
        return httpx.Response(500, json={"error": {"code": 500, "message": words, "type": "server_error"}})
    if ("tool", "user") in roles(body):
        words = "Conversation roles must alternate user/assistant/user/assistant/..."
        return httpx.Response(500, json={"error": {"code": 500, "message": words, "type": "server_error"}})
    return None


def lm_studio(body: Body) -> httpx.Response | None:
    """lmstudio-ai/lmstudio-bug-tracker#670 and #189: no object as choice, no ``json_object``; an error is a text."""
    if isinstance(body.get("tool_choice"), dict):
        words = "Invalid tool_choice type: 'object'. Supported string values: none, auto, required"
        return httpx.Response(400, json={"error": words})
    if body.get("response_format", {}).get("type") == "json_object":
        return httpx.Response(400, json={"error": "'response_format.type' must be 'json_schema' or 'text'"})
    return None


def lm_studio_says(body: Body, message: dict[str, Any]) -> httpx.Response:
    """The thought of some models stays in the content."""
    text = message["content"]
    return as_openai(body, {**message, "content": f"<think>hm</think>{text}" if text else text})


def litellm(body: Body) -> httpx.Response | None:
    """LiteLLM's proxy: parameters that a provider lacks are refused with 500 (BerriAI/litellm#11940)."""
    if "reasoning_effort" in body or "reasoning" in body:
        words = (
            "litellm.UnsupportedParamsError: anthropic does not support parameters: ['reasoning_effort', 'thinking']"
        )
        return httpx.Response(500, json={"error": {"message": words, "type": "None", "param": "None", "code": "500"}})
    return None


def litellm_says(body: Body, message: dict[str, Any]) -> httpx.Response:
    """An answer format becomes a tool ``json_tool_call``, whose call reaches the client."""
    if "response_format" not in body:
        return as_openai(body, message)
    call = {"id": "c2", "type": "function", "function": {"name": "json_tool_call", "arguments": ANSWER}}
    return as_openai(body, {"role": "assistant", "content": None, "tool_calls": [call]})


def providers() -> Iterator[Provider]:
    yield Provider("OpenAI", openai, as_openai)
    yield Provider("Azure", openai, azure_says)
    yield Provider("Gemini", gemini, gemini_says)
    yield Provider("OpenRouter", openrouter, openrouter_says)
    yield Provider("Groq", groq, groq_says)
    yield Provider("Mistral", mistral, mistral_says)
    yield Provider("DeepSeek", deepseek, deepseek_says)
    yield Provider("Together", together, as_openai)
    yield Provider("Ollama", ollama, ollama_says)
    yield Provider("vLLM", vllm, as_openai)
    yield Provider("llama.cpp", llama_cpp, as_openai)
    yield Provider("LM Studio", lm_studio, lm_studio_says)
    yield Provider("LiteLLM", litellm, litellm_says)
