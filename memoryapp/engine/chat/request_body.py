"""The JSON body of a chat request, by what the endpoint can do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from memoryapp.engine.chat.capabilities import Abilities, forces
from memoryapp.engine.chat.protocol import ChatRequest
from memoryapp.engine.chat.sent_messages import sent_messages

_STREAMED: Mapping[str, Mapping[str, Any]] = {
    "with usage": {"stream": True, "stream_options": {"include_usage": True}},
    "without usage": {"stream": True},
    "off": {},
}


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """The operator's options for an endpoint.

    An empty ``reasoning_effort`` is not sent. ``response_healing`` is OpenRouter's repair of broken JSON; it works only
    on whole answers, so turns with an answer format are then not streamed. ``provider`` is OpenRouter's routing object;
    ``fallback_models`` are asked in order when the model cannot answer.
    """

    stream: bool = False
    reasoning_effort: str = "low"
    response_healing: bool = False
    provider: Mapping[str, Any] = field(default_factory=dict)
    fallback_models: tuple[str, ...] = ()


def request_body(model: str, request: ChatRequest, can: Abilities, options: ChatOptions) -> dict[str, Any]:
    """The JSON body of POST /chat/completions."""
    body: dict[str, Any] = {"model": model, "messages": sent_messages(request, can), **_tools(request, can)}
    if request.answer_schema is not None:
        body |= _response_format(request.answer_schema, can.format_with_tools if "tools" in body else can.format_alone)
    if can.schemas == "plain":
        body |= {name: _plain(body[name]) for name in ("tools", "response_format") if name in body}
    body |= _effort(options.reasoning_effort, can.effort)
    if options.response_healing and "response_format" in body:
        body["plugins"] = [{"id": "response-healing"}]
    elif options.stream or can.must_stream:
        body |= _STREAMED[can.stream]
    return body | _routing(options)


def _effort(effort: str, rung: str) -> dict[str, Any]:
    if not effort or rung == "none":
        return {}
    return {"reasoning": {"effort": effort}} if rung == "reasoning" else {"reasoning_effort": effort}


def _routing(options: ChatOptions) -> dict[str, Any]:
    wanted = {"provider": dict(options.provider), "models": list(options.fallback_models)}
    return {name: value for name, value in wanted.items() if value}


def _tools(request: ChatRequest, can: Abilities) -> dict[str, Any]:
    if can.tools == "described":
        return {}
    if request.tools_off and not request.tools:
        # Where tools and an answer format do not work together, the last turn asks for the format.
        costs_format = request.answer_schema is not None and can.format_with_tools == "none"
        declared = can.declares_unused_tools and not costs_format
        return {"tools": list(request.tools_off), "tool_choice": "none"} if declared else {}
    choice = _tool_choice(request, can)
    if not request.tools or choice == "no tools":
        return {}
    tools = list(request.tools)
    return {"tools": tools} if choice == "unsaid" else {"tools": tools, "tool_choice": choice}


def _tool_choice(request: ChatRequest, can: Abilities) -> str | dict[str, Any]:
    if not forces(request, can):
        return can.free_choice
    if can.forced_choice == "function":
        return {"type": "function", "function": {"name": request.force_tool}}
    return can.forced_choice


def _plain(value: Any) -> Any:
    """``value`` without the words that not every endpoint knows in a schema."""
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items() if key not in ("additionalProperties", "strict")}
    return [_plain(inner) for inner in value] if isinstance(value, list) else value


def _response_format(schema: Mapping[str, Any], rung: str) -> dict[str, Any]:
    if rung == "json_schema":
        named = {"name": "answer", "strict": True, "schema": schema}
        return {"response_format": {"type": "json_schema", "json_schema": named}}
    return {"response_format": {"type": "json_object"}} if rung == "json_object" else {}
