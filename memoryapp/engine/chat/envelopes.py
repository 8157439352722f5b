"""Replies whose call or answer came in the wrong envelope.

Servers that do not know a model's marks leave its tool call in the text, or everything in the reasoning; gateways turn
an answer in a requested format into the call of a tool that was never offered; models write JSON into a text of JSON.
Gateways escape an answer as if it were shown in a page. What is meant is unmistakable, so it is read; every such
reading leaves a note.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import uuid4

from memoryapp.engine.chat.protocol import ChatRequest, Reply
from memoryapp.engine.chat.written_calls import ARGUMENT_KEYS, written_calls
from memoryapp.engine.events import ToolCall
from memoryapp.engine.json_values import to_text
from memoryapp.engine.text.json_answers import decoded, embedded, fulfils, plain_key, unpacked

# What gateways and models call the tool that they make of an answer format.
_ANSWER_TOOLS = frozenset({
    *("json", "answer", "final_answer", "response", "final_response", "output", "result", "json_tool_call"),
    *("json_object", "json_response", "structured_output", "respond", "return_json", "submit", "finish"),
})  # fmt: skip
_ESCAPED = re.compile(r"[{\[]\s{0,20}&(?:quot|#34|#x22);", re.IGNORECASE)


def opened(reply: Reply, request: ChatRequest) -> Reply:
    """The reply with its call or its answer where they belong; unchanged when they are there already."""
    if reply.declined:
        return reply
    schema = request.answer_schema or {}
    reply = _straightened(reply, request)
    if reply.tool_calls:
        return _answer_in_call(reply, _names(request), schema) if schema else reply
    if not reply.text.strip():
        reply = _from_reasoning(reply, request, schema)
    if not (schema and _has_answer(reply.text, schema)) and not reply.tool_calls:
        reply = _with_calls(reply, reply.text, request, "call_in_text")
    return _unpacked(reply, schema) if schema and not reply.tool_calls else reply


def _names(request: ChatRequest) -> set[str]:
    return {tool["function"]["name"] for tool in _offered(request)}


def _offered(request: ChatRequest) -> Sequence[Mapping[str, Any]]:
    """The tools that the model knows of, those that are switched off too: a call of one is no answer."""
    return (*request.tools, *request.tools_off)


def _straightened(reply: Reply, request: ChatRequest) -> Reply:
    """The reply without escapes of HTML, and with calls that name an offered tool and its arguments as they should."""
    offered = {tool["function"]["name"]: tool["function"].get("parameters", {}) for tool in _offered(request)}
    calls = tuple(_straight(call, offered) for call in reply.tool_calls)
    text = _unescaped(reply.text)
    if (text, calls) == (reply.text, reply.tool_calls):
        return reply
    given = reply.message.get("tool_calls", ())
    sent = [
        {**each, "function": {**each["function"], "name": call.name, "arguments": call.arguments}}
        for each, call in zip(given, calls, strict=True)
    ]
    message = {**reply.message, **({"tool_calls": sent} if sent else {}), **({"content": text} if text else {})}
    return replace(reply, text=text, tool_calls=calls, message=message).noted("reply_straightened")


def _unescaped(text: str) -> str:
    return html.unescape(text) if _ESCAPED.search(text) else text


def _straight(call: ToolCall, offered: Mapping[str, Mapping[str, Any]]) -> ToolCall:
    """The call; where its name differs from an offered one only in case and signs, or its arguments have one more
    envelope, or were escaped, or more stands around a whole object, the call that is meant."""
    name = next((name for name in offered if plain_key(name) == plain_key(call.name)), call.name)
    if name not in offered:
        return call
    arguments, schema = _unescaped(call.arguments), offered[name]
    inner = decoded(arguments)
    if inner is None:
        whole = next(
            (value for value in embedded(arguments) if fulfils(value, schema) and schema.get("required")), None
        )
        arguments = arguments if whole is None else to_text(whole)
    if isinstance(inner, Mapping) and len(inner) == 1 and not inner.keys() & schema.get("properties", {}).keys():
        ((key, value),) = inner.items()
        value = decoded(value) if isinstance(value, str) else value
        if plain_key(key) in ARGUMENT_KEYS and isinstance(value, Mapping):
            arguments = to_text(value)
    return ToolCall(call.id, name, arguments)


def _answer_in_call(reply: Reply, offered: set[str], schema: Mapping[str, Any]) -> Reply:
    """The reply with the arguments of a call as its text, when no offered tool is called."""
    if any(call.name in offered for call in reply.tool_calls):
        return reply
    for call in reply.tool_calls:
        answer = unpacked(call.arguments, schema) or decoded(call.arguments)
        partly = isinstance(answer, Mapping) and bool(answer.keys() & schema.get("properties", {}).keys())
        if fulfils(answer, schema) or (call.name.lower() in _ANSWER_TOOLS and partly):
            text = to_text(answer)
            message = {"role": "assistant", "content": text}
            return replace(reply, text=text, tool_calls=(), message=message).noted(
                "answer_in_call", name=call.name[:80]
            )
    return reply


def _from_reasoning(reply: Reply, request: ChatRequest, schema: Mapping[str, Any]) -> Reply:
    """An empty reply, with the call or the answer that its reasoning ends with."""
    called = _with_calls(reply, reply.reasoning, request, "call_in_reasoning")
    text = reply.reasoning.rstrip()
    if called.tool_calls or not (schema and text.endswith(("}", "`"))):
        return called
    answers = [value for value in embedded(text) if fulfils(value, schema)]
    if not answers:
        return reply
    answer = to_text(answers[-1])
    message = {**reply.message, "content": answer}
    return replace(reply, text=answer, message=message).noted("answer_in_reasoning")


def _has_answer(text: str, schema: Mapping[str, Any]) -> bool:
    return any(fulfils(value, schema) for value in embedded(text))


def _with_calls(reply: Reply, text: str, request: ChatRequest, note: str) -> Reply:
    """The reply with the calls of offered tools that are written in ``text``."""
    written = written_calls(text, _offered(request))
    if not written:
        return reply
    calls = tuple(ToolCall(uuid4().hex[:9], call.name, to_text(call.arguments)) for call in written)
    sent = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in calls
    ]
    message = {**reply.message, "content": None, "tool_calls": sent}
    return replace(reply, tool_calls=calls, message=message).noted(note)


def _unpacked(reply: Reply, schema: Mapping[str, Any]) -> Reply:
    value = unpacked(reply.text, schema)
    return reply if value is None else replace(reply, text=to_text(value)).noted("answer_in_text")
