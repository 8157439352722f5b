"""Spans of OpenTelemetry's conventions for generative AI.

Attributes are those of ``opentelemetry-semantic-conventions`` 0.66b2 (``gen_ai``). The operations on a memory
(``search_memory``, ``gen_ai.memory.*``) are those of open-telemetry/semantic-conventions-genai, pull request 140. Of
earlier conventions, ``gen_ai.prompt.0.content`` and ``gen_ai.completion.0.content`` are understood as well, and so are
the spans of Vercel's AI SDK (``ai.*``, https://ai-sdk.dev/docs/ai-sdk-core/telemetry), which name no operation."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from memoryapp.doors.traces.span import (
    EmbeddingCall,
    EnclosingCall,
    ForeignDocument,
    Meaning,
    ModelCall,
    RerankCall,
    RewriteCall,
    SearchCall,
    SentSpan,
    ToolCallRun,
    asked_in,
    json_of,
    nested,
    number_of,
    text_of,
    values_of,
)
from memoryapp.engine.events import PromptMessage, ToolCall

OPERATION = "gen_ai.operation.name"
_SDK_OPERATION = "ai.operationId"
_CHATS = ("chat", "text_completion", "generate_content")


def genai_meaning(span: SentSpan) -> Meaning | None:
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
        text=text
        or "\n".join(text_of(each.get("content")) for each in span.listed("gen_ai.completion") if each.get("content")),
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


def _last_of_user(messages: tuple[PromptMessage, ...]) -> str:
    return next((message.content for message in reversed(messages) if message.role == "user"), "")


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
    "execute_tool": lambda span: ToolCallRun(
        span.text("gen_ai.tool.name") or span.name,
        span.text("gen_ai.tool.call.arguments"),
        span.text("gen_ai.tool.call.result"),
    ),
    "embeddings": lambda span: EmbeddingCall(span.text("gen_ai.response.model", "gen_ai.request.model")),
}


# Spans of OpenInference: https://github.com/Arize-ai/openinference/blob/main/spec/semantic_conventions.md.

KIND = "openinference.span.kind"


def openinference_meaning(span: SentSpan) -> Meaning | None:
    kind = span.text(KIND).upper()
    read = _OPENINFERENCE_READERS.get(kind)
    if read:
        return read(span)
    return EnclosingCall(asked_in(span.attributes.get("input.value")), span.text("output.value")) if kind else None


def _openinference_search(span: SentSpan) -> SearchCall:
    documents = tuple(_openinference_document(each) for each in span.listed("retrieval.documents"))
    return SearchCall(asked_in(span.attributes.get("input.value")), documents, len(documents))


def _reranked(span: SentSpan) -> RerankCall:
    return RerankCall(
        query=span.text("reranker.query") or asked_in(span.attributes.get("input.value")),
        given=tuple(_openinference_document(each) for each in span.listed("reranker.input_documents")),
        ranked=tuple(_openinference_document(each) for each in span.listed("reranker.output_documents")),
        model=span.text("reranker.model_name"),
    )


def _openinference_document(entry: Mapping[str, Any]) -> ForeignDocument:
    metadata = json_of(entry.get("document.metadata"))
    known = metadata if isinstance(metadata, Mapping) else {}
    return ForeignDocument(
        id=text_of(entry.get("document.id") or known.get("id") or known.get("_id")),
        text=text_of(entry.get("document.content")),
        title=text_of(entry.get("document.name") or known.get("title") or known.get("summary")),
        date=text_of(known.get("date") or known.get("created_at")),
        score=number_of(entry.get("document.score", known.get("score", known.get("relevance_score")))),
    )


def _openinference_call(span: SentSpan) -> ModelCall:
    replies = span.listed("llm.output_messages")
    return ModelCall(
        messages=tuple(map(_message, span.listed("llm.input_messages"))) or _prompts(span),
        text="\n".join(filter(None, map(_content, replies))) or _openinference_completion(span, replies),
        reasoning="\n".join(filter(None, map(_reasoning, replies))),
        tool_calls=tuple(call for reply in replies for call in _calls(reply)),
        model=span.text("llm.response.model_name", "llm.model_name", "llm.request.model_name"),
        provider=span.text("llm.provider", "llm.system"),
        finish_reason=span.text("llm.finish_reason"),
        input_tokens=span.count("llm.token_count.prompt"),
        output_tokens=span.count("llm.token_count.completion"),
        cached_tokens=span.count("llm.token_count.prompt_details.cache_read"),
        reasoning_tokens=span.count("llm.token_count.completion_details.reasoning"),
        cost_usd=span.number("llm.cost.total"),
        has_tools=bool(span.listed("llm.tools")),
    )


def _prompts(span: SentSpan) -> tuple[PromptMessage, ...]:
    texts = [text_of(each.get("prompt.text")) for each in span.listed("llm.prompts")]
    return tuple(PromptMessage("user", text) for text in texts if text)


def _openinference_completion(span: SentSpan, replies: list[dict[str, Any]]) -> str:
    choices = [text_of(each.get("completion.text")) for each in span.listed("llm.choices")]
    return "\n".join(filter(None, choices)) or ("" if replies else span.text("output.value"))


def _message(entry: Mapping[str, Any]) -> PromptMessage:
    role = text_of(entry.get("message.role")).lower()
    content = _content(entry)
    called = "\n".join(f"{call.name} {call.arguments}" for call in _calls(entry))
    return PromptMessage(role[:40] or "user", "\n".join(filter(None, (content, called))))


def _content(entry: Mapping[str, Any]) -> str:
    if content := text_of(entry.get("message.content")):
        return content
    parts = nested(entry, "message.contents")
    return "\n".join(
        text_of(part.get("message_content.text"))
        for part in parts
        if part.get("message_content.text") and part.get("message_content.type") != "reasoning"
    )


def _reasoning(entry: Mapping[str, Any]) -> str:
    parts = nested(entry, "message.contents")
    texts = (part.get("message_content.text") for part in parts if part.get("message_content.type") == "reasoning")
    return "\n".join(text_of(text) for text in texts if text)


def _calls(entry: Mapping[str, Any]) -> list[ToolCall]:
    calls = [
        ToolCall(
            text_of(call.get("tool_call.id")),
            text_of(call.get("tool_call.function.name")),
            text_of(call.get("tool_call.function.arguments")),
        )
        for call in nested(entry, "message.tool_calls")
    ]
    if name := text_of(entry.get("message.function_call_name")):
        calls.append(ToolCall("", name, text_of(entry.get("message.function_call_arguments_json"))))
    return calls


def _openinference_tool(span: SentSpan) -> ToolCallRun:
    arguments = span.text("input.value", "tool.parameters")
    return ToolCallRun(span.text("tool.name") or span.name, arguments, span.text("output.value"))


_OPENINFERENCE_READERS: Mapping[str, Callable[[SentSpan], Meaning]] = {
    "RETRIEVER": _openinference_search,
    "RERANKER": _reranked,
    "LLM": _openinference_call,
    "TOOL": _openinference_tool,
    "EMBEDDING": lambda span: EmbeddingCall(span.text("embedding.model_name")),
}
