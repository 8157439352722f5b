"""Reads OpenAI's chat completions as values.

Endpoints deviate from the format: an error inside HTTP 200, content in parts, tool calls without ids or with arguments
that are not text, reasoning under two names or within the content, no usage. Reading tolerates all of that and never
raises.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from memoryapp.engine.budget import Usage
from memoryapp.engine.chat.protocol import Reply
from memoryapp.engine.events import ToolCall

_STATUS = re.compile("[45][0-9]{2}")
_UNNAMEABLE = re.compile(r"[^A-Za-z0-9_-]")
# The opening mark may be missing, because some prompts end with it; the closing one then has a line of its own.
_REASONING = re.compile(
    r"\s*<think>(?P<marked>.*?)(?:</think>\s*|\Z)|(?P<opened>.*?)^[ \t]*</think>[ \t]*$\s*", re.DOTALL | re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class EndpointError:
    """An error in the body of an answer. ``status`` is an HTTP status, ``wait`` the seconds to wait, if the answer says
    so."""

    status: int
    message: str
    wait: float | None = None


def as_json(content: bytes) -> Mapping[str, Any] | None:
    """The JSON object in a body; None when there is none."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def error_in(completion: Mapping[str, Any] | None) -> EndpointError | None:
    """The error in an answer: at the top, in its choice, or as its finish reason."""
    if completion is None:
        return None
    choice = _choice(completion)
    for error in (completion.get("error"), choice.get("error")):
        if error:
            return _endpoint_error(error)
    if choice.get("finish_reason") == "error":
        native = choice.get("native_finish_reason")
        return EndpointError(502, f"the model failed: {native}" if native else "the model failed")
    # vLLM and llama.cpp put the error message itself at the top.
    if completion.get("object") == "error" or ("detail" in completion and "choices" not in completion):
        return _endpoint_error(
            {"message": completion.get("message") or completion.get("detail"), "code": completion.get("code")}
        )
    return None


def _endpoint_error(error: Any) -> EndpointError:
    if not isinstance(error, dict):
        return EndpointError(502, _words(error))
    words = [_words(error.get("message")), _words(_mapping(error.get("metadata")).get("raw"))]
    parameter = text_of(error.get("param"))
    if parameter and parameter not in words[0]:
        words.append(f"parameter {parameter}"[:100])
    wait = _number(_mapping(error.get("availability")).get("retry_after")) or None
    return EndpointError(_status(error.get("code")), ": ".join(word for word in words if word), wait)


def _status(code: Any) -> int:
    """HTTP's status in an error's code, 502 where that is none."""
    return int(code) if isinstance(code, int | str) and _STATUS.fullmatch(str(code)) else 502


def _words(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) if value else ""
    return " ".join(text.split())[:1000]


def usage_of(completion: Mapping[str, Any] | None) -> Usage:
    """Tokens and dollars; zero where the answer has none."""
    usage = _mapping((completion or {}).get("usage"))
    return Usage(
        input_tokens=int(_number(usage.get("prompt_tokens"))),
        output_tokens=int(_number(usage.get("completion_tokens"))),
        cost_usd=_number(usage.get("cost")),
        cached_tokens=int(_number(_mapping(usage.get("prompt_tokens_details")).get("cached_tokens"))),
        reasoning_tokens=int(_number(_mapping(usage.get("completion_tokens_details")).get("reasoning_tokens"))),
    )


def parse_reply(completion: Mapping[str, Any]) -> Reply:
    """The first choice; an empty reply when there is none."""
    choice = _choice(completion)
    message = _mapping(choice.get("message"))
    calls = _tool_calls(message.get("tool_calls"))
    reasoning, text = without_reasoning(text_of(message.get("content")))
    return Reply(
        text=text,
        tool_calls=tuple(_understood(call) for call in calls),
        reasoning=reasoning_of(message) or reasoning,
        message=_assistant_message(message, [_sendable(call) for call in calls]),
        usage=usage_of(completion),
        model=text_of(completion.get("model")),
        finish_reason=text_of(choice.get("finish_reason")),
        provider=text_of(completion.get("provider")),
        refusal=text_of(message.get("refusal")) or _refusal_part(message.get("content")),
    )


def _refusal_part(content: Any) -> str:
    """The refusal among content in parts."""
    parts = content if isinstance(content, list) else ()
    return "".join(text_of(part.get("refusal")) for part in parts if isinstance(part, dict))


def reasoning_of(message: Mapping[str, Any]) -> str:
    """The model's reasoning, under either of its names; encrypted reasoning has no text."""
    named = text_of(message.get("reasoning")) or text_of(message.get("reasoning_content"))
    details = message.get("reasoning_details")
    if named or not isinstance(details, list):
        return named
    return "".join(text_of(d.get("text")) or text_of(d.get("summary")) for d in details if isinstance(d, dict))


def without_reasoning(content: str) -> tuple[str, str]:
    """The reasoning at the beginning of the content, and the rest.

    Servers that do not know how a model marks its reasoning leave it there. Without its closing mark the model was cut
    off before it answered.
    """
    found = _REASONING.match(content) if "think>" in content else None
    if found is None:
        return "", content
    return (found["marked"] or found["opened"] or "").strip(), content[found.end() :]


def _assistant_message(message: Mapping[str, Any], calls: list[dict[str, Any]]) -> dict[str, Any]:
    """The message to send back later: as it came, with its ``reasoning_details`` above all.

    Empty fields are left out, because strict endpoints refuse nulls that they sent themselves; ``content`` is always
    kept.
    """
    kept = {key: value for key, value in message.items() if value is not None and key != "tool_calls"}
    back = {"role": "assistant", "content": message.get("content"), **kept}
    return {**back, "tool_calls": calls} if calls else back


def _tool_calls(value: Any) -> list[dict[str, Any]]:
    """Tool calls in OpenAI's format; each gets an id of its own, and arguments as text."""
    calls: dict[str, dict[str, Any]] = {}
    for call in value if isinstance(value, list) else ():
        if isinstance(call, dict):
            id = text_of(call.get("id"))
            # Two calls with one id could not both be answered. Mistral accepts only ids of nine letters and digits.
            id = id if id and id not in calls else uuid4().hex[:9]
            calls[id] = _tool_call(call, id)
    return list(calls.values())


def _tool_call(call: dict[str, Any], id: str) -> dict[str, Any]:
    function = _mapping(call.get("function"))
    arguments = function.get("arguments")
    written = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
    named = {**function, "name": _plain_name(text_of(function.get("name"))), "arguments": written}
    return {**call, "id": id, "type": "function", "function": named}


def _plain_name(name: str) -> str:
    """A tool's name without what models add to it: ``functions.search:0``, ``search<|channel|>json``."""
    name = name.partition("<|")[0].strip()
    before, _, number = name.rpartition(":")
    name = before if number.isdecimal() else name
    return name.replace("/", ".").replace(":", ".").rpartition(".")[2]


def _understood(call: Mapping[str, Any]) -> ToolCall:
    function = call["function"]
    return ToolCall(call["id"], function["name"], function["arguments"])


def _sendable(call: Mapping[str, Any]) -> dict[str, Any]:
    """The call as it is sent back: strict endpoints refuse unusual names, and arguments that are not a JSON object."""
    function = call["function"]
    name = _UNNAMEABLE.sub("_", function["name"])[:64] or "unnamed"
    return {**call, "function": {**function, "name": name, "arguments": _object_text(function["arguments"])}}


def _object_text(arguments: str) -> str:
    """The JSON object in ``arguments``, even if it was encoded twice; an empty object when there is none."""
    if as_json(arguments.encode("utf-8", "replace")) is not None:
        return arguments
    try:
        inner = json.loads(arguments)
    except (ValueError, RecursionError):
        return "{}"
    return inner if isinstance(inner, str) and as_json(inner.encode("utf-8", "replace")) is not None else "{}"


def _choice(completion: Mapping[str, Any]) -> Mapping[str, Any]:
    choices = completion.get("choices")
    return _mapping(choices[0]) if isinstance(choices, list) and choices else {}


def text_of(value: Any) -> str:
    """A text, or the texts of content in parts; empty for any other value."""
    if isinstance(value, list):
        return "".join(text_of(part.get("text")) for part in value if isinstance(part, dict))
    return value if isinstance(value, str) else ""


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _number(value: Any) -> float:
    plain = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15
    return float(value) if plain and math.isfinite(value) and value > 0 else 0.0
