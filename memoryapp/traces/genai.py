"""Spans of OpenTelemetry's conventions for generative AI.

Attributes are those of ``opentelemetry-semantic-conventions`` 0.66b2 (``gen_ai``). The operations on a memory
(``search_memory``, ``gen_ai.memory.*``) are those of open-telemetry/semantic-conventions-genai, pull request 140. Of
earlier conventions, ``gen_ai.prompt.0.content`` and ``gen_ai.completion.0.content`` are understood as well, and so are
the spans of Vercel's AI SDK (``ai.*``, https://ai-sdk.dev/docs/ai-sdk-core/telemetry), which name no operation.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from memoryapp.engine.events import PromptMessage, ToolCall
from memoryapp.traces.span import SentSpan, asked_in, number_of, text_of, values_of
from memoryapp.traces.steps import (
    EmbeddingCall,
    EnclosingCall,
    ForeignDocument,
    Meaning,
    ModelCall,
    RewriteCall,
    SearchCall,
    ToolCallRun,
)

OPERATION = "gen_ai.operation.name"
_SDK_OPERATION = "ai.operationId"
_CHATS = ("chat", "text_completion", "generate_content")


def meaning(span: SentSpan) -> Meaning | None:
    """What the span means; None if it is none of this convention."""
    operation = span.text(OPERATION)
    if not operation and (of_sdk := span.text(_SDK_OPERATION)):
        return _of_sdk(span, of_sdk)
    if operation in _CHATS or (not operation and _is_chat(span)):
        call = _asked(span)
        is_rewrite = span.text("mnemoscope.part") == "enricher"
        return RewriteCall(_last_of_user(call.messages), call.text, call) if is_rewrite else call
    read = _READERS.get(operation)
    if read:
        return read(span)
    return EnclosingCall(_last_of_user(_messages(span)), "") if operation else None


def _is_chat(span: SentSpan) -> bool:
    """Whether a span of before there were operations is a call of a model."""
    kind = span.text("llm.request.type", "traceloop.span.kind")
    return kind in ("chat", "completion") or "gen_ai.prompt.0.content" in span.attributes


def _searched(span: SentSpan) -> SearchCall:
    listed = span.listed("gen_ai.memory.records") or span.listed("gen_ai.retrieval.documents")
    documents = tuple(map(_document, listed))
    count = len(documents) or span.count("gen_ai.memory.record.count")
    query = span.text("gen_ai.memory.query.text", "gen_ai.retrieval.query.text", "gen_ai.memory.query")
    return SearchCall(query, documents, count)


def _document(entry: Mapping[str, Any]) -> ForeignDocument:
    metadata = entry.get("metadata")
    known = metadata if isinstance(metadata, Mapping) else {}
    return ForeignDocument(
        id=text_of(entry.get("id")),
        text=text_of(entry.get("content") or entry.get("text")),
        title=text_of(known.get("title") or known.get("summary")),
        date=text_of(known.get("date") or known.get("created_at")),
        score=number_of(entry.get("score")),
    )


def _asked(span: SentSpan) -> ModelCall:
    replies = list(_parts(span.listed("gen_ai.output.messages")))
    text = "\n".join(text_of(part.get("content")) for _role, part in replies if part.get("type") == "text")
    reasons = span.attributes.get("gen_ai.response.finish_reasons")
    return ModelCall(
        messages=_messages(span),
        text=text or _completion(span),
        reasoning="\n".join(text_of(part.get("content")) for _role, part in replies if part.get("type") == "reasoning"),
        tool_calls=tuple(_call(part) for _role, part in replies if part.get("type") == "tool_call"),
        model=span.text("gen_ai.response.model", "gen_ai.request.model"),
        provider=span.text("gen_ai.provider.name", "gen_ai.system"),
        finish_reason=text_of(reasons[0]) if isinstance(reasons, list) and reasons else text_of(reasons or None),
        input_tokens=span.count("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"),
        output_tokens=span.count("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"),
        cached_tokens=span.count("gen_ai.usage.cache_read.input_tokens"),
        reasoning_tokens=span.count("gen_ai.usage.reasoning.output_tokens"),
        has_tools=bool(span.listed("gen_ai.tool.definitions")),
    )


def _messages(span: SentSpan) -> tuple[PromptMessage, ...]:
    """What the model was sent: its instructions, then the messages."""
    system = [text_of(part.get("content")) for part in span.listed("gen_ai.system_instructions")]
    first = [PromptMessage("system", "\n".join(filter(None, system)))] if any(system) else []
    sent = span.listed("gen_ai.input.messages")
    if sent:
        return (*first, *(PromptMessage(_role(each), _written(each)) for each in sent))
    earlier = span.listed("gen_ai.prompt")
    return (*first, *(PromptMessage(_role(each), text_of(each.get("content"))) for each in earlier))


def _role(message: Mapping[str, Any]) -> str:
    return text_of(message.get("role")).lower()[:40] or "user"


def _written(message: Mapping[str, Any]) -> str:
    return "\n".join(filter(None, (_words(part) for _role, part in _parts([message]))))


def _words(part: Mapping[str, Any]) -> str:
    kind = part.get("type")
    if kind == "tool_call":
        return f"{text_of(part.get('name'))} {text_of(part.get('arguments'))}"
    if kind == "tool_call_response":
        return text_of(part.get("response", part.get("result")))
    return text_of(part.get("content")) if kind == "text" else f"[{text_of(kind)}]"


def _parts(messages: list[Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for message in messages:
        parts = values_of(message.get("parts")) if "parts" in message else [_whole(message)]
        yield from ((_role(message), part) for part in parts if isinstance(part, Mapping))


def _whole(message: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"type": "text", "content": message.get("content")}


def _call(part: Mapping[str, Any]) -> ToolCall:
    arguments = part.get("arguments")
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
    return ToolCall(text_of(part.get("id")), text_of(part.get("name")), text)


def _completion(span: SentSpan) -> str:
    return "\n".join(text_of(each.get("content")) for each in span.listed("gen_ai.completion") if each.get("content"))


def _last_of_user(messages: tuple[PromptMessage, ...]) -> str:
    return next((message.content for message in reversed(messages) if message.role == "user"), "")


def _tool(span: SentSpan) -> ToolCallRun:
    return ToolCallRun(
        span.text("gen_ai.tool.name") or span.name,
        span.text("gen_ai.tool.call.arguments"),
        span.text("gen_ai.tool.call.result"),
    )


def _embedded(span: SentSpan) -> EmbeddingCall:
    return EmbeddingCall(span.text("gen_ai.response.model", "gen_ai.request.model"))


def _of_sdk(span: SentSpan, operation: str) -> Meaning:
    """A call of the AI SDK, whose ``ai.generateText`` encloses one ``ai.generateText.doGenerate`` for each step."""
    if operation == "ai.toolCall":
        words = ("ai.toolCall.name", "ai.toolCall.args", "ai.toolCall.result")
        return ToolCallRun(*(span.text(name) for name in words))
    if operation.endswith(".doEmbed"):
        return EmbeddingCall(span.text("ai.model.id"))
    if not operation.endswith((".doGenerate", ".doStream")):
        return EnclosingCall(asked_in(span.attributes.get("ai.prompt")), span.text("ai.response.text"))
    called = span.listed("ai.response.toolCalls")
    return ModelCall(
        messages=tuple(PromptMessage(_role(each), _said(each)) for each in span.listed("ai.prompt.messages")),
        text=span.text("ai.response.text", "ai.response.object"),
        reasoning=span.text("ai.response.reasoning"),
        tool_calls=tuple(_call(_part_of_sdk({**each, "type": "tool-call"})) for each in called),
        model=span.text("ai.response.model", "ai.model.id", "gen_ai.request.model"),
        provider=span.text("gen_ai.system", "ai.model.provider"),
        finish_reason=span.text("ai.response.finishReason"),
        input_tokens=span.count("gen_ai.usage.input_tokens", "ai.usage.inputTokens", "ai.usage.promptTokens"),
        output_tokens=span.count("gen_ai.usage.output_tokens", "ai.usage.outputTokens", "ai.usage.completionTokens"),
        cached_tokens=span.count("ai.usage.cachedInputTokens"),
        reasoning_tokens=span.count("ai.usage.reasoningTokens"),
        has_tools="ai.prompt.tools" in span.attributes,
    )


def _said(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if not isinstance(content, list):
        return text_of(content)
    return "\n".join(filter(None, (_words(_part_of_sdk(each)) for each in content if isinstance(each, Mapping))))


def _part_of_sdk(part: Mapping[str, Any]) -> Mapping[str, Any]:
    """A part of a message of the AI SDK, of its versions 4 and 5, as OpenTelemetry names it."""
    kind, output = part.get("type"), part.get("output")
    if kind == "tool-call":
        arguments = part.get("input", part.get("args"))
        return {"type": "tool_call", "id": part.get("toolCallId"), "name": part.get("toolName"), "arguments": arguments}
    if kind == "tool-result":
        result = output.get("value") if isinstance(output, Mapping) else part.get("result")
        return {"type": "tool_call_response", "response": result}
    return {**part, "content": part.get("text")}


_READERS: Mapping[str, Callable[[SentSpan], Meaning]] = {
    "search_memory": _searched,
    "retrieval": _searched,
    "execute_tool": _tool,
    "embeddings": _embedded,
}
