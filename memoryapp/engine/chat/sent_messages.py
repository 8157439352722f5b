"""The messages of a request as an endpoint takes them.

Of the model's own messages only what belongs there goes back: role, content, calls, and what providers need to
recognise their reasoning. Everything else that they sent (``annotations``, ``refusal``, ``reasoning`` in words) strict
endpoints refuse, some of them only in what they sent themselves."""

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from memoryapp.engine.chat.capabilities import Abilities
from memoryapp.engine.chat.protocol import ChatRequest

BELONGING = frozenset({"role", "content", "tool_calls", "id", "type", "function"})
# Signed or encrypted reasoning (OpenRouter, Gemini, Anthropic behind LiteLLM, Copilot), and reasoning that has to come
# back with the calls that it led to (DeepSeek, Kimi).
_NEEDED = frozenset({
    *("reasoning_details", "reasoning_content", "reasoning_opaque", "thinking_blocks"),
    *("extra_content", "provider_specific_fields", "thought_signature"),
})  # fmt: skip
_OF_FUNCTION = ("name", "arguments", "thought_signature", "provider_specific_fields")
_BLANK = {"empty": "", "in words": "I call the tools."}
_BETWEEN = {"role": "assistant", "content": "I have read this."}
_DESCRIPTION = """\
You can call the tools below. To call one, write nothing but this, with the name and the arguments:
<tool_call>
{{"name": "…", "arguments": {{…}}}}
</tool_call>
The result is the next message.{forced}

{tools}"""


def sent_messages(request: ChatRequest, can: Abilities) -> list[Mapping[str, Any]]:
    """The messages of ``request`` for an endpoint with these abilities."""
    messages = [_model_message(each, can) if each["role"] == "assistant" else each for each in request.messages]
    messages = _in_words(messages, request) if can.tools == "described" else _as_results_are_taken(messages, can)
    return messages if can.system_role else _without_system(messages)


def _model_message(message: Mapping[str, Any], can: Abilities) -> dict[str, Any]:
    allowed = (BELONGING | _NEEDED) - can.left_out
    sent = {key: value for key, value in message.items() if key in allowed}
    if can.blank in _BLANK and not sent.get("content"):
        sent["content"] = _BLANK[can.blank]
    if can.owes_reasoning:
        sent["reasoning_content"] = message.get("reasoning_content") or message.get("reasoning") or ""
    if "tool_calls" in sent:
        sent["tool_calls"] = [
            {
                key: _function(value, can) if key == "function" else value
                for key, value in call.items()
                if key in allowed
            }
            for call in sent["tool_calls"]
        ]
    return sent


def _function(function: Mapping[str, Any], can: Abilities) -> dict[str, Any]:
    return {key: function[key] for key in _OF_FUNCTION if key in function and key not in can.left_out}


def _as_results_are_taken(messages: Sequence[Mapping[str, Any]], can: Abilities) -> list[Mapping[str, Any]]:
    """The messages with calls and results as this endpoint takes them."""
    taken = messages if can.user_after_tool else _with_bridges(messages)
    taken = _with_names(taken) if can.named_results else taken
    return [_with_short_ids(message) for message in taken] if can.short_ids else list(taken)


def _with_names(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The messages with the name of the tool in each result."""
    names = {call["id"]: call["function"]["name"] for message in messages for call in message.get("tool_calls", ())}
    return [
        {**message, "name": names.get(message["tool_call_id"], "")} if message["role"] == "tool" else message
        for message in messages
    ]


def _with_short_ids(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """The message with ids of nine letters and digits, equal where the ids were."""
    if "tool_call_id" in message:
        return {**message, "tool_call_id": _short(message["tool_call_id"])}
    calls = message.get("tool_calls")
    return {**message, "tool_calls": [{**call, "id": _short(call["id"])} for call in calls]} if calls else message


def _short(id: str) -> str:
    return sha256(id.encode("utf-8", "replace")).hexdigest()[:9]


def _with_bridges(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The messages with one of the model between a tool's and a user's (Mistral demands it)."""
    bridged: list[Mapping[str, Any]] = []
    for message in messages:
        if bridged and bridged[-1]["role"] == "tool" and message["role"] == "user":
            bridged.append(_BETWEEN)
        bridged.append(message)
    return bridged


def _in_words(messages: Sequence[Mapping[str, Any]], request: ChatRequest) -> list[Mapping[str, Any]]:
    """The messages for an endpoint without tools: they are described, and calls and results are texts."""
    worded: list[Mapping[str, Any]] = []
    for message in messages:
        if message["role"] == "tool":
            message = {"role": "user", "content": f"<tool_response>\n{message['content']}\n</tool_response>"}
        elif message.get("tool_calls"):
            calls = [_written(call["function"]) for call in message["tool_calls"]]
            message = {"role": "assistant", "content": "\n".join(calls)}
        joins = worded and message["role"] == "user" == worded[-1]["role"] and isinstance(message["content"], str)
        if joins and isinstance(worded[-1]["content"], str):
            message = {"role": "user", "content": f"{worded.pop()['content']}\n\n{message['content']}"}
        worded.append(message)
    if request.tools:
        worded[0] = {**worded[0], "content": _joined(worded[0]["content"], _description(request))}
    return worded


def _written(function: Mapping[str, Any]) -> str:
    try:
        arguments = json.loads(function["arguments"])
    except ValueError:
        arguments = {}
    call = json.dumps({"name": function["name"], "arguments": arguments}, ensure_ascii=False)
    return f"<tool_call>\n{call}\n</tool_call>"


def _description(request: ChatRequest) -> str:
    forced = f" Call {request.force_tool} now." if request.force_tool else ""
    tools = "\n".join(json.dumps(tool["function"], ensure_ascii=False) for tool in request.tools)
    return _DESCRIPTION.format(forced=forced, tools=tools)


def _joined(content: Any, text: str) -> Any:
    return [*content, {"type": "text", "text": text}] if isinstance(content, list) else f"{content}\n\n{text}"


def _without_system(messages: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The messages with the system's text at the beginning of the user's first."""
    system = [message for message in messages if message["role"] == "system"]
    others = [message for message in messages if message["role"] != "system"]
    if not (system and others):
        return messages
    text = "\n\n".join(str(message["content"]) for message in system)
    content = others[0]["content"]
    joined = [{"type": "text", "text": text}, *content] if isinstance(content, list) else f"{text}\n\n{content}"
    return [{**others[0], "content": joined}, *others[1:]]
