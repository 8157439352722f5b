"""The answers of the API as frozen objects. Fields that a newer server adds are ignored."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict


class Shape(BaseModel):
    """What every answer is: it never changes, and unknown fields are left out."""

    model_config = ConfigDict(frozen=True, extra="ignore")


@dataclass(frozen=True, slots=True)
class RunEvent:
    """One event of a run: the id of the run, the event's number from 1, its kind, and its payload as the API describes
    it."""

    run: str
    seq: int
    kind: str
    payload: Mapping[str, Any]


# Everything below is written by `python3 -m tools.client_shapes`.


class RejectedMessage(Shape):
    """A message that was not stored; ``index`` is its place in the list, from 0."""

    index: int
    id: str = ""
    reason: str


class LeftOut(Shape):
    """How many messages of a file or a call were not stored because they are no talk, and why."""

    reason: str
    count: int


class Remembered(Shape):
    """The number of new messages and of known ones, and the messages that could not be stored. ``left_out`` counts, by
    reason, what is no talk and not stored: calls of tools and their results. Of the new ones, the guard ``masked``
    some, ``held`` some for a person, and only ``marked`` some; a count of none is left out."""

    added: int
    skipped: int
    rejected: tuple[RejectedMessage, ...]
    left_out: tuple[LeftOut, ...] = ()
    masked: int = 0
    held: int = 0
    marked: int = 0


class StoredMessage(Shape):
    """A message of the memory. ``id`` is that under which it was sent."""

    id: str
    role: str
    author: str
    ts: datetime
    text: str
    forwarded_from: str = ""


class RecalledTopic(Shape):
    """A chosen topic: ``rank`` from 1, ``score`` between 0 and 1, and an ``excerpt`` quoted from its messages, if any.

    ``read`` is true if the model read the topic's messages, false if it saw only the line of the candidate. ``pinned``
    topics are handed over with every recall; their score is 0 if this query did not find them. Summary,
    times and count are missing if the topic was erased meanwhile. ``messages`` and ``passages`` (the messages around
    what answers, long ones cut) are there if ``include`` names them."""

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
    """What was chosen, best first, and the context for the chat model; ``fallback`` is null if a model chose.

    ``handed_over`` says what of the chosen topics the context holds: the passages around what answers, or whole topics.
    ``unsure``: nothing was chosen without doubt; the nearest passages stand in the context as possibly related.
    ``note`` says why nothing was chosen, in English. ``cut``: the model's answer ran into its limit of tokens."""

    run: UUID
    url: str
    topics: tuple[RecalledTopic, ...]
    people: tuple[RecalledItem, ...]
    artifacts: tuple[RecalledItem, ...]
    context: str
    handed_over: str
    fallback: str | None
    unsure: bool
    note: str
    cut: bool
    usage: Spent


class Cited(Shape):
    """The source of citation ``[n]``: the message's id as it was sent, the topic that held it, and the cited words.
    ``passage`` are the ids of the messages of the passage that it belongs to, oldest first."""

    n: int
    topic: str
    message: str
    author: str
    ts: str
    quote: str
    passage: tuple[str, ...] = ()


class Checked(Shape):
    """A statement of an answer beside the messages with the numbers ``citations``.

    ``support`` is ``in_words`` if every telling word of it stands there, ``differs`` if some do not, ``contradicted``
    if a number, date, negation or order is another one, and ``unchecked`` where words cannot be compared. ``missing``
    and ``turned`` are those words. ``verified`` is null where no model judged; a contradicted statement is never
    verified. One that is not ``kept`` was left out of the answer."""

    text: str
    citations: tuple[int, ...]
    support: str
    missing: tuple[str, ...]
    turned: tuple[str, ...]
    verified: bool | None
    kept: bool


class Answered(Shape):
    """An answer in words. ``answer`` marks each statement with ``[n]``, the number of a citation; ``text`` is the same.

    ``outcome`` is ``softened`` if little supports the answer, ``refused`` if the memory does not contain one, and
    ``failed`` if the run ended before it had one; ``fallback`` then says why. Where no chat model is connected it is
    ``passages``: ``answer`` is empty, and ``citations`` are the passages nearest to the question, best first.
    ``coverage`` is the part of the question that the sources cover, ``support`` the part of the model's ``statements``
    that a model confirmed or, where none judged, whose words all stand in the messages, both from 0 to 1.
    ``support`` is null for passages, refusals, and where nothing could be checked. ``verified`` says whether a model
    confirmed all statements that were kept and no word contradicts one, and is null where no model judged them. ``by``
    is null for passages; earlier versions composed answers of ``extracts``. ``note`` names what was left out, corrected
    or widened. ``agent`` is false for the plain path. ``cut``: the model ran into its limit of tokens,
    so the answer lacks its end."""

    run: UUID
    url: str
    strategy: str
    agent: bool
    outcome: str
    answer: str
    text: str
    citations: tuple[Cited, ...]
    coverage: float
    support: float | None
    verified: bool | None
    statements: tuple[Checked, ...] = ()
    by: str | None
    note: str
    fallback: str | None
    cut: bool
    usage: Spent


class MemoryUse(Shape):
    """``how`` the answer uses a chosen item, and in which of its sentences: five of its words in a row are ``quoted``,
    by the embedded scorer it is ``reworded``, a person or a file is ``named``."""

    id: str
    how: str
    sentence: str


class UsedMemory(Shape):
    """The chosen ids that the answer uses, and those it does not. ``recall`` tells a recall that failed from one that
    found nothing."""

    used: tuple[str, ...]
    unused: tuple[str, ...]
    uses: tuple[MemoryUse, ...]
    recall: str


class StoredRun(Shape):
    """A run. Once it is finished, it contains everything that ``POST /v1/recall`` answers. A fork has a ``parent``,
    the ``turn`` at which it began and its ``changes``."""

    run: UUID
    url: str
    user: str
    query: str
    project: str
    strategy: str
    parameters: dict[str, Any]
    state: str
    outcome: str = ""
    asked_at: datetime
    finished_at: datetime | None
    parent: UUID | None = None
    turn: int | None = None
    changes: dict[str, Any] = {}
    topics: tuple[RecalledTopic, ...] | None = None
    people: tuple[RecalledItem, ...] | None = None
    artifacts: tuple[RecalledItem, ...] | None = None
    context: str | None = None
    handed_over: str | None = None
    fallback: str | None = None
    unsure: bool | None = None
    note: str | None = None
    cut: bool | None = None
    usage: Spent | None = None


class Counterfactual(Shape):
    """A change that was tried, and its result, in words. ``fork`` is the body of a fork that makes it, ``merge`` are
    topics to merge instead; ``rank`` and ``shown`` are those of the topic after a change of the search."""

    change: str
    result: str
    fork: dict[str, Any] | None = None
    merge: tuple[str, ...] | None = None
    rank: int | None = None
    shown: bool | None = None


class Reason(Shape):
    """The ``stage`` that lost what was asked about, the ``topic`` as the run met it (a person or a file keeps its id),
    and the ``numbers`` that decided. ``now`` are the topics that hold it today, ``others`` further ones that say the
    same or nearly, ``seq`` is the event that lost it."""

    stage: str
    topic: str | None
    sentence: str
    numbers: dict[str, Any]
    counterfactuals: tuple[Counterfactual, ...]
    now: tuple[str, ...]
    others: tuple[str, ...] = ()
    seq: int | None


class TopicHead(Shape):
    """A topic without its messages."""

    id: str
    project: str
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
    """The requested topic or, if it is retired, the live topics that contain its messages now."""

    id: str
    retired: bool
    topics: tuple[WholeTopic, ...]


class ClosedSessions(Shape):
    """The topics that the messages of the sessions are in now; none if there was nothing to archive."""

    topics: tuple[TopicHead, ...]


class TopicPage(Shape):
    """Live topics by id, oldest first; ``next`` is the ``after`` of the following page, or null."""

    topics: tuple[TopicHead, ...]
    next: str | None


class MadeDecision(Shape):
    """``change`` is the number by which the decision is undone."""

    id: str
    recall: str
    change: int


class Receipt(Shape):
    """The receipt: how many rows of each table and how many ``files`` were erased or redacted. It contains no name."""

    erasure: int
    kind: str
    began_at: datetime
    ended_at: datetime
    counts: dict[str, int]
    redacted: dict[str, int]


class MemoryItem(Shape):
    """An item. ``score`` is the cosine of its text and the query; null if it has no vector, or without a query."""

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
    """Items; those that were asked for and do not exist are missing."""

    items: tuple[MemoryItem, ...]


class FoundNamespaces(Shape):
    """Namespaces in the order of their labels."""

    namespaces: tuple[tuple[str, ...], ...]
