"""Spans of OpenInference: https://github.com/Arize-ai/openinference/blob/main/spec/semantic_conventions.md."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from memoryapp.engine.events import PromptMessage, ToolCall
from memoryapp.traces.span import SentSpan, asked_in, json_of, nested, number_of, text_of
from memoryapp.traces.steps import (
    EmbeddingCall,
    EnclosingCall,
    ForeignDocument,
    Meaning,
    ModelCall,
    RerankCall,
    SearchCall,
    ToolCallRun,
)

KIND = "openinference.span.kind"


def meaning(span: SentSpan) -> Meaning | None:
    """What the span means; None if it is none of this convention."""
    kind = span.text(KIND).upper()
    read = _READERS.get(kind)
    if read:
        return read(span)
    return EnclosingCall(asked_in(span.attributes.get("input.value")), span.text("output.value")) if kind else None


def _searched(span: SentSpan) -> SearchCall:
    documents = tuple(_document(each) for each in span.listed("retrieval.documents"))
    return SearchCall(asked_in(span.attributes.get("input.value")), documents, len(documents))


def _reranked(span: SentSpan) -> RerankCall:
    return RerankCall(
        query=span.text("reranker.query") or asked_in(span.attributes.get("input.value")),
        given=tuple(_document(each) for each in span.listed("reranker.input_documents")),
        ranked=tuple(_document(each) for each in span.listed("reranker.output_documents")),
        model=span.text("reranker.model_name"),
    )


def _document(entry: Mapping[str, Any]) -> ForeignDocument:
    metadata = json_of(entry.get("document.metadata"))
    known = metadata if isinstance(metadata, Mapping) else {}
    return ForeignDocument(
        id=text_of(entry.get("document.id") or known.get("id") or known.get("_id")),
        text=text_of(entry.get("document.content")),
        title=text_of(entry.get("document.name") or known.get("title") or known.get("summary")),
        date=text_of(known.get("date") or known.get("created_at")),
        score=number_of(entry.get("document.score", known.get("score", known.get("relevance_score")))),
    )


def _asked(span: SentSpan) -> ModelCall:
    replies = span.listed("llm.output_messages")
    return ModelCall(
        messages=tuple(map(_message, span.listed("llm.input_messages"))) or _prompts(span),
        text="\n".join(filter(None, map(_content, replies))) or _completion(span, replies),
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


def _completion(span: SentSpan, replies: list[dict[str, Any]]) -> str:
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


def _tool(span: SentSpan) -> ToolCallRun:
    arguments = span.text("input.value", "tool.parameters")
    return ToolCallRun(span.text("tool.name") or span.name, arguments, span.text("output.value"))


def _embedded(span: SentSpan) -> EmbeddingCall:
    return EmbeddingCall(span.text("embedding.model_name"))


_READERS: Mapping[str, Callable[[SentSpan], Meaning]] = {
    "RETRIEVER": _searched,
    "RERANKER": _reranked,
    "LLM": _asked,
    "TOOL": _tool,
    "EMBEDDING": _embedded,
}
