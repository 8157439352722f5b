"""Reads OpenAI's chat completions as values.

Endpoints deviate from the format: an error inside HTTP 200, content in parts, tool calls without ids or with arguments
that are not text, reasoning under two names or within the content, no usage. Reading tolerates all of that and never
raises.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any
from uuid import uuid4

from memoryapp.engine.budget import Usage
from memoryapp.engine.chat.protocol import Reply
from memoryapp.engine.events import ToolCall
from memoryapp.engine.json_values import positive
from memoryapp.engine.notes import Note

_TEXT_PARTS = ("text", "output_text")
# More calls in one reply are noise.
_MOST_CALLS = 64
_UNNAMEABLE = re.compile(r"[^A-Za-z0-9_-]")
# How models mark their reasoning in the content, where the server does not know it: DeepSeek and Qwen, Gemma and
# Gemini behind gateways, Mistral, Kimi, Seed, Command.
_MARKS = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<seed:think>", "</seed:think>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
)
# The channels of gpt-oss ("harmony"), when the server does not take them apart.
_FINAL = "<|channel|>final<|message|>"
_CHANNEL_MARK = re.compile(r"<\|[a-z]{1,20}\|>(?:analysis|commentary|assistant)?")


def as_json(content: bytes) -> Mapping[str, Any] | None:
    """The JSON object in a body; None when there is none."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def json_objects(text: str) -> list[str]:
    """The JSON objects that ``text`` consists of, one behind the other; empty when it is anything else."""
    text = text.strip()
    decoder, found, start = json.JSONDecoder(), list[str](), 0
    while start < len(text):
        try:
            value, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            return []
        if not isinstance(value, dict) or len(found) == _MOST_CALLS:
            return []
        found.append(text[start:end])
        start = end + len(text[end:]) - len(text[end:].lstrip())
    return found


def usage_of(completion: Mapping[str, Any] | None) -> Usage:
    """Tokens and dollars; zero where the answer has none."""
    usage = _mapping((completion or {}).get("usage"))
    return Usage(
        input_tokens=int(positive(usage.get("prompt_tokens"))),
        output_tokens=int(positive(usage.get("completion_tokens"))),
        cost_usd=positive(usage.get("cost")),
        cached_tokens=int(positive(_mapping(usage.get("prompt_tokens_details")).get("cached_tokens"))),
        reasoning_tokens=int(positive(_mapping(usage.get("completion_tokens_details")).get("reasoning_tokens"))),
    )


def unwrapped(document: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The completion in a document, if a gateway put it into an envelope of its own (``data``, ``result``)."""
    inner = [value for value in (document or {}).values() if isinstance(value, dict) and "choices" in value]
    return inner[0] if document and "choices" not in document and inner else document


def parse_reply(completion: Mapping[str, Any]) -> Reply:
    """The first choice; an empty reply when there is none."""
    choice = _choice(completion)
    message = _mapping(choice.get("message") or choice.get("delta"))
    given = list(_given_calls(message))
    calls = _tool_calls(given)
    reasoning, text = without_reasoning(content_of(message.get("content")))
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
        notes=(Note("calls_taken_apart", {"n": len(calls)}),) if len(calls) > len(given) else (),
    )


def content_of(content: Any) -> str:
    """The text of a message; the JSON of an answer that a server decoded."""
    if isinstance(content, dict) and content.get("type") in _TEXT_PARTS:
        content = [content]
    return json.dumps(content, ensure_ascii=False) if isinstance(content, dict) else text_of(content)


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
    if _FINAL in content:
        thought, _, rest = content.rpartition(_FINAL)
        return _CHANNEL_MARK.sub("", thought).strip(), _CHANNEL_MARK.sub("", rest).strip()
    text = content.lstrip()
    for opening, closing in _MARKS:
        if text.startswith(opening):
            thought, _, rest = text[len(opening) :].partition(closing)
            return thought.strip(), rest.lstrip()
        # The opening mark is missing where the prompt ends with it. A closing mark in prose is a word like others.
        thought, mark, rest = content.partition(closing)
        if mark and (_stands_alone(thought, rest) or rest.lstrip().startswith(("{", "[", "```"))):
            return thought.strip(), rest.lstrip()
    return "", content


def _stands_alone(before: str, after: str) -> bool:
    """Whether nothing else stands on the line between the two."""
    return not (before.rpartition("\n")[2].strip() or after.partition("\n")[0].strip())


def _assistant_message(message: Mapping[str, Any], calls: list[dict[str, Any]]) -> dict[str, Any]:
    """The message to send back later: as it came, with its ``reasoning_details`` above all.

    Empty fields are left out, because strict endpoints refuse nulls that they sent themselves; ``content`` is always
    kept.
    """
    kept = {key: value for key, value in message.items() if value is not None and key != "tool_calls"}
    back = {"role": "assistant", "content": message.get("content"), **kept}
    return {**back, "tool_calls": calls} if calls else back


def _tool_calls(given: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Tool calls in OpenAI's format; each gets an id of its own, and arguments as text."""
    calls: dict[str, dict[str, Any]] = {}
    for call in chain.from_iterable(map(_taken_apart, given)):
        id = text_of(call.get("id"))
        # Two calls with one id could not both be answered. Mistral accepts only ids of nine letters and digits.
        id = id if id and id not in calls else uuid4().hex[:9]
        calls[id] = {**call, "id": id}
    return list(calls.values())


def _given_calls(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The calls of a message as they came: in OpenAI's list, as its older single call, or as Anthropic's parts."""
    yield from map(_tool_call, calls_in(message.get("tool_calls")))
    content = message.get("content")
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict) and part.get("type") == "tool_use":
            yield _tool_call(part)
    if not message.get("tool_calls") and isinstance(message.get("function_call"), dict):
        yield _tool_call({"function": message["function_call"]})


def calls_in(value: Any) -> list[dict[str, Any]]:
    """The calls in a field ``tool_calls``: a list; or an object that is one call, or has calls by their numbers; or
    either of them as JSON in a text."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return []
    if isinstance(value, dict):
        value = [value] if value.keys() & {"function", "name"} else list(value.values())
    return [call for call in value if isinstance(call, dict)] if isinstance(value, list) else []


def _tool_call(call: dict[str, Any]) -> dict[str, Any]:
    function = call.get("function")
    if not isinstance(function, dict):
        # Without OpenAI's inner object, name and arguments stand in the call itself.
        given = next((call[key] for key in ("arguments", "parameters", "input") if key in call), None)
        function, call = {"name": call.get("name"), "arguments": given}, {"id": call.get("id")}
    arguments = function.get("arguments")
    written = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
    named = {**function, "name": _plain_name(text_of(function.get("name"))), "arguments": written}
    return {**call, "type": "function", "function": named}


def _taken_apart(call: dict[str, Any]) -> list[dict[str, Any]]:
    """The call; several, if a gateway wrote the arguments of several calls one behind the other."""
    objects = json_objects(call["function"]["arguments"])
    if len(objects) < 2:
        return [call]
    # Some gateways begin a stream of arguments with an empty object.
    objects = [written for written in objects if written.strip("{} \n")] or objects[:1]
    return [{**call, "function": {**call["function"], "arguments": arguments}} for arguments in objects]


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
        return "".join(text_of(part.get("text") if isinstance(part, dict) else part) for part in value)
    if isinstance(value, dict):
        value = value.get("value")
    return value if isinstance(value, str) else ""


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
