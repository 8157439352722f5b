"""What a span means, whatever its convention: a search, a rerank, a call of a model or of a tool."""

from __future__ import annotations

from dataclasses import dataclass

from memoryapp.engine.events import PromptMessage, ToolCall
from memoryapp.traces.span import Span


@dataclass(frozen=True, slots=True)
class Document:
    """What a search found, under its own ``id`` if it has one; ``score`` is None where none is reported."""

    id: str = ""
    text: str = ""
    title: str = ""
    date: str = ""
    score: float | None = None


@dataclass(frozen=True, slots=True)
class Searched:
    """``documents`` best first. ``count`` is how many were found where the documents themselves were not sent."""

    query: str
    documents: tuple[Document, ...]
    count: int = 0


@dataclass(frozen=True, slots=True)
class Reranked:
    query: str
    given: tuple[Document, ...]
    ranked: tuple[Document, ...]
    model: str = ""


@dataclass(frozen=True, slots=True)
class Asked:
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
class ToolRun:
    name: str
    arguments: str
    result: str


@dataclass(frozen=True, slots=True)
class Embedded:
    model: str


@dataclass(frozen=True, slots=True)
class Around:
    """A chain, an agent, or whatever else encloses the others: what it was asked, and what it gave."""

    query: str = ""
    answer: str = ""


Meaning = Searched | Reranked | Asked | ToolRun | Embedded | Around
# A trace without any of these is no run.
TELLING = (Searched, Reranked, Asked, ToolRun)


@dataclass(frozen=True, slots=True)
class Step:
    span: Span
    meaning: Meaning
