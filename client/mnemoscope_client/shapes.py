"""The answers of the API as frozen objects. Fields that a newer server adds are ignored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict


class Shape(BaseModel):
    """What every answer is: it never changes, and unknown fields are left out."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class RejectedMessage(Shape):
    """A message that was not stored; ``index`` is its place in the call, from 0."""

    index: int
    id: str = ""
    reason: str


class LeftOut(Shape):
    """How many messages were no talk, such as calls of tools, and why."""

    reason: str
    count: int


class Remembered(Shape):
    """The number of new messages and of those that were known, and what was not stored."""

    added: int
    skipped: int
    rejected: tuple[RejectedMessage, ...]
    left_out: tuple[LeftOut, ...] = ()


class StoredMessage(Shape):
    """A message of the memory. ``id`` is that under which it was sent; ``role`` is ``user``, ``assistant``, ``peer`` or
    ``system``."""

    id: str
    role: str
    author: str
    ts: datetime
    text: str
    forwarded_from: str = ""


class RecalledTopic(Shape):
    """A chosen topic: ``rank`` from 1, ``score`` from 0 to 1. ``messages`` and
    ``passages`` are there if the recall asked for them; long messages of passages are cut around what answers."""

    id: str
    rank: int
    reason: str
    score: float
    read: bool
    pinned: bool = False
    summary: str | None = None
    first_at: datetime | None = None
    last_at: datetime | None = None
    message_count: int | None = None
    excerpt: str | None = None
    messages: tuple[StoredMessage, ...] | None = None
    passages: tuple[StoredMessage, ...] | None = None


class RecalledItem(Shape):
    """A chosen person or file."""

    id: str
    rank: int
    reason: str
    score: float
    name: str = ""


class Spent(Shape):
    """What a run cost: tokens, US dollars, seconds, and how often a model was asked and called a tool."""

    input_tokens: int
    output_tokens: int
    cost_usd: float
    seconds: float
    turns: int
    tool_calls: int


class Recalled(Shape):
    """What a recall chose, best first. ``context`` is the text for the prompt of the chat model; ``url`` is the page of
    the run. ``fallback`` is None if a model chose, and otherwise says why not."""

    run: UUID
    url: str
    topics: tuple[RecalledTopic, ...]
    people: tuple[RecalledItem, ...]
    artifacts: tuple[RecalledItem, ...]
    context: str
    handed_over: str
    fallback: str | None
    usage: Spent


class Cited(Shape):
    """The source of ``[n]``: the id of the message as it was sent, the quoted words, and the ids of the passage."""

    n: int
    topic: str
    message: str
    author: str
    ts: str
    quote: str
    passage: tuple[str, ...] = ()


class Checked(Shape):
    """A statement beside the messages that it cites. ``support`` is ``in_words``, ``differs``, ``contradicted`` or
    ``unchecked``; ``missing`` and ``turned`` are the words that differ. One that is not ``kept`` was left out."""

    text: str
    citations: tuple[int, ...]
    support: str
    missing: tuple[str, ...]
    turned: tuple[str, ...]
    verified: bool | None
    kept: bool


class Answered(Shape):
    """An answer in words, whose statements end in the numbers of their citations.

    ``outcome`` is ``answered``, ``softened`` (little supports it), ``refused`` (the memory contains no answer),
    ``passages`` (no chat model wrote one; ``citations`` are the nearest passages, best first) or ``failed``.
    """

    run: UUID
    url: str
    strategy: str
    agent: bool
    outcome: str
    answer: str
    citations: tuple[Cited, ...]
    coverage: float
    support: float | None
    verified: bool | None
    statements: tuple[Checked, ...] = ()
    by: str | None
    note: str
    fallback: str | None
    usage: Spent


class MemoryUse(Shape):
    """``how`` an answer used a chosen item (``quoted``, ``reworded``, ``named``), and in which of its sentences."""

    id: str
    how: str
    sentence: str


class UsedMemory(Shape):
    """Which of the chosen ids an answer used; ``recall`` is ``found``, ``nothing`` or ``failed``."""

    used: tuple[str, ...]
    unused: tuple[str, ...]
    uses: tuple[MemoryUse, ...]
    recall: str


class StoredRun(Shape):
    """A run; what it chose is there once ``state`` is ``finished``."""

    run: UUID
    url: str
    user: str
    query: str
    strategy: str
    parameters: dict[str, Any]
    state: str
    asked_at: datetime
    finished_at: datetime | None
    topics: tuple[RecalledTopic, ...] | None = None
    people: tuple[RecalledItem, ...] | None = None
    artifacts: tuple[RecalledItem, ...] | None = None
    context: str | None = None
    fallback: str | None = None
    usage: Spent | None = None


class Reason(Shape):
    """Why a run did not choose something: the ``stage`` that lost it, a sentence, and the numbers that decided."""

    stage: str
    topic: str | None
    sentence: str
    numbers: dict[str, Any]
    now: tuple[str, ...]


class TopicHead(Shape):
    """A topic without its messages."""

    id: str
    summary: str
    started_at: datetime
    ended_at: datetime
    message_count: int
    size_chars: int


class WholeTopic(TopicHead):
    """A topic with its messages, oldest first."""

    user: str
    messages: tuple[StoredMessage, ...]


class FoundTopics(Shape):
    """The topic asked for or, if it is retired, the topics that contain its messages now."""

    id: str
    retired: bool
    topics: tuple[WholeTopic, ...]


class ClosedSessions(Shape):
    """The topics that the messages of the sessions became."""

    topics: tuple[TopicHead, ...]


class TopicPage(Shape):
    """Topics by id; ``next`` begins the following page."""

    topics: tuple[TopicHead, ...]
    next: str | None


class MadeDecision(Shape):
    """A decision about recall, and the number by which it is undone."""

    change: int
    id: str
    recall: str


class Receipt(Shape):
    """What an erasure deleted and redacted, rows by table."""

    erasure: int
    kind: str
    began_at: datetime
    ended_at: datetime | None
    counts: dict[str, int]
    redacted: dict[str, int]


class MemoryItem(Shape):
    """A value that a program keeps. ``score`` is the cosine of its text and the query, None without a query."""

    namespace: tuple[str, ...]
    key: str
    value: dict[str, Any]
    created_at: datetime
    updated_at: datetime
    score: float | None = None


class WrittenItems(Shape):
    """How many items are kept, and how many were named to be deleted."""

    written: int
    deleted: int


class FoundItems(Shape):
    """Items that exist."""

    items: tuple[MemoryItem, ...]


class FoundNamespaces(Shape):
    """Namespaces in the order of their labels."""

    namespaces: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class RunEvent:
    """One event of a run: the id of the run, the event's number from 1, its kind, and its payload as the API describes
    it."""

    run: str
    seq: int
    kind: str
    payload: Mapping[str, Any]
