"""A span as any program sends it, within bounds, and how its attributes are read."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from memoryapp.engine.events import PromptMessage, ToolCall

# Characters of one text, and of all texts of a span together.
LONGEST_TEXT = 100_000
LONGEST_SPAN = 1_000_000
# Attributes of a span, and values inside one of them.
MOST_ATTRIBUTES = 5_000
# Of a list such as the messages of a call or the documents of a search.
MOST_LISTED = 500


@dataclass(frozen=True, slots=True)
class SentSpan:
    """``trace`` has 32 and ``id`` 16 hexadecimal digits; ``parent`` is empty for a root, also where the parent is in
    another process. Times are nanoseconds since 1970. ``fault`` is empty unless the span failed. Values of
    ``attributes`` are texts, numbers, booleans, and lists and mappings of these."""

    trace: str
    id: str
    parent: str
    name: str
    began: int
    ended: int
    attributes: Mapping[str, Any] = field(default_factory=dict)
    resource: Mapping[str, Any] = field(default_factory=dict)
    scope: str = ""
    fault: str = ""

    @property
    def seconds(self) -> float:
        return max(self.ended - self.began, 0) / 1e9

    @property
    def service(self) -> str:
        """The program that made the span, as it names itself."""
        return text_of(self.resource.get("service.name")) or "unknown_service"

    def text(self, *names: str) -> str:
        """The first of these attributes that is there, as text."""
        return next((text for name in names if (text := text_of(self.attributes.get(name)))), "")

    def count(self, *names: str) -> int:
        """The first of these attributes that is a number above 0; at most what a column of the database takes."""
        for name in names:
            number = number_of(self.attributes.get(name))
            if number and number > 0:
                return int(min(number, 2**31 - 1))
        return 0

    def number(self, *names: str) -> float:
        """The first of these attributes that is a number above 0."""
        found = (number_of(self.attributes.get(name)) for name in names)
        return next((number for number in found if number and number > 0), 0.0)

    def listed(self, prefix: str) -> list[dict[str, Any]]:
        """The entries of a list that is written as ``prefix.0.name``, in order, or as one value or text of JSON."""
        if prefix in self.attributes:
            return [entry for entry in values_of(self.attributes[prefix]) if isinstance(entry, dict)]
        entries: dict[int, dict[str, Any]] = {}
        for key, value in self.attributes.items():
            if key.startswith(prefix + "."):
                place, _dot, name = key[len(prefix) + 1 :].partition(".")
                if place.isdecimal() and len(place) < 7:
                    entries.setdefault(int(place), {})[name] = value
        return [entries[place] for place in sorted(entries)][:MOST_LISTED]


def nested(entry: Mapping[str, Any], prefix: str) -> list[dict[str, Any]]:
    """The list that an entry of ``listed`` contains under ``prefix``, with the names of its entries."""
    return SentSpan("", "", "", "", 0, 0, entry).listed(prefix)


def text_of(value: Any) -> str:
    """A text as it is, a number as text, anything else as JSON; empty for nothing."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)


def number_of(value: Any) -> float | None:
    """A finite number, also one written as text."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def json_of(value: Any) -> Any:
    """The value that a text of JSON contains; any other value as it is."""
    if not isinstance(value, str) or value[:1] not in ("{", "["):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def values_of(value: Any) -> Sequence[Any]:
    """The list that a value is, or contains as JSON; one value is a list of one."""
    read = json_of(value)
    if isinstance(read, list):
        return read[:MOST_LISTED]
    return [read] if isinstance(read, dict) else []


# Under these names, programs put what was asked into an object.
_ASKED = ("query", "question", "input", "text", "content", "prompt", "message")


def asked_in(value: Any, depth: int = 0) -> str:
    """The question in the input of a span: a text, or the text in an object of JSON, or the user's last message."""
    read = json_of(value)
    if isinstance(read, str) or depth > 4:
        return read.strip() if isinstance(read, str) else ""
    if isinstance(read, list):
        return next(filter(None, (asked_in(each, depth + 1) for each in _last_first(read))), "")
    if not isinstance(read, Mapping):
        return ""
    messages = read.get("messages") or read.get("kwargs")
    if isinstance(messages, list | Mapping) and (text := asked_in(messages, depth + 1)):
        return text
    return next(filter(None, (asked_in(read[name], depth + 1) for name in _ASKED if name in read)), "")


def _last_first(read: Sequence[Any]) -> Iterator[Any]:
    """Messages of users, the last one first, then everything else."""
    users = [each for each in read if isinstance(each, Mapping) and _speaker(each) in ("user", "human")]
    yield from reversed(users)
    yield from read[-1:]


def _speaker(message: Mapping[str, Any]) -> str:
    return text_of(message.get("role") or message.get("type")).lower()


# What a span means, whatever its convention: a search, a rerank, a call of a model or of a tool.


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
