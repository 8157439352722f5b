"""What a span means, whatever its convention: a search, a rerank, a call of a model or of a tool."""

from __future__ import annotations

from dataclasses import dataclass

from memoryapp.engine.events import PromptMessage, ToolCall
from memoryapp.traces.span import SentSpan


@dataclass(frozen=True, slots=True)
class ForeignDocument:
    """What a search found, under its own ``id`` if it has one; ``score`` is None where none is reported."""

    id: str = ""
    text: str = ""
    title: str = ""
    date: str = ""
    score: float | None = None


@dataclass(frozen=True, slots=True)
class SearchCall:
    """``documents`` best first. ``count`` is how many were found where the documents themselves were not sent."""

    query: str
    documents: tuple[ForeignDocument, ...]
    count: int = 0


@dataclass(frozen=True, slots=True)
class RerankCall:
    query: str
    given: tuple[ForeignDocument, ...]
    ranked: tuple[ForeignDocument, ...]
    model: str = ""


@dataclass(frozen=True, slots=True)
class ModelCall:
    """A call of a chat model; ``messages`` are all that it got, ``has_tools`` whether any tool was declared."""

    messages: tuple[PromptMessage, ...]
    text: str
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    model: str = ""
    provider: str = ""
    finish_reason: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    cost_usd: float = 0.0
    has_tools: bool = False


@dataclass(frozen=True, slots=True)
class ToolCallRun:
    name: str
    arguments: str
    result: str


@dataclass(frozen=True, slots=True)
class EmbeddingCall:
    model: str


@dataclass(frozen=True, slots=True)
class EnclosingCall:
    """A chain, an agent, or whatever else encloses the others: what it was asked, and what it gave."""

    query: str = ""
    answer: str = ""


@dataclass(frozen=True, slots=True)
class RewriteCall:
    """A call that made the query into the ``line`` to search for; only this program says so of a call."""

    query: str
    line: str
    call: ModelCall


Meaning = RewriteCall | SearchCall | RerankCall | ModelCall | ToolCallRun | EmbeddingCall | EnclosingCall
# A trace without any of these is no run.
TELLING = (SearchCall, RerankCall, ModelCall, ToolCallRun)


@dataclass(frozen=True, slots=True)
class TraceStep:
    span: SentSpan
    meaning: Meaning
