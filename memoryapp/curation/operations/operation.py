"""An operation of curation as a value: what it is called, what it takes, what it plans, where it is offered. Pages, the
interface for programs, agents and the history read these values, so that an operation is declared once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from django.db import transaction
from django.utils.functional import Promise

from memoryapp.curation.change import (
    MOST_MESSAGES,
    MOST_TOPICS,
    Change,
    check_one_project,
    too_many_messages,
    too_many_topics,
)
from memoryapp.curation.settling import close
from memoryapp.curation.topic_writer import Summarise, check_live, check_summary, opening, swap
from memoryapp.engine.beside import table_beside
from memoryapp.engine.memory import TopicDraft
from memoryapp.memory.content import content
from memoryapp.models import AgentCall, ChatUser, Message, Suggestion, Topic, TopicEdit, TopicMessage


@dataclass(frozen=True, slots=True)
class ChangeRequest:
    """What somebody asks of curation. An operation reads what it takes; the rest is empty.

    ``topics`` are those that the asker saw, by number; ``messages`` are to be moved, ``to`` a topic or, if None, to a
    new one; ``at`` are the messages with which new parts begin; ``summaries`` are those that somebody wrote, one for
    each topic of the result, empty to have it generated, or that of the new topic alone; ``parts`` are topics as they
    shall be, ``project`` is the label that they shall have."""

    operation: Operation
    owner: ChatUser
    topics: tuple[int, ...] = ()
    messages: tuple[int, ...] = ()
    to: int | None = None
    at: tuple[int, ...] = ()
    summaries: tuple[str, ...] = ()
    parts: tuple[TopicDraft, ...] = ()
    project: str = ""


@dataclass(frozen=True, slots=True)
class Words:
    """What people read about an operation.

    ``done`` is the kind of its edits in the history, ``heading`` the title of the preview and ``button`` what commits
    it. ``would`` and ``made`` are the sentences before and afterwards, with places for ``named`` (the topics),
    ``topics``, ``before`` and ``after`` (how many topics), ``messages`` and ``sizes`` (how many messages, and of each
    part), ``moved`` and ``messages_moved`` (how many of the messages that the request names)."""

    done: Promise
    heading: Promise
    button: Promise
    would: Promise
    made: Promise


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a request, by its name for programs; they may leave out one that is not ``needed``."""

    name: str
    needed: bool = True


TOPIC, TOPICS, MESSAGES, TO, AT = Part("topic"), Part("topics"), Part("messages"), Part("to"), Part("at")
PROJECT = Part("project")
SUMMARY, PROPOSED, SUMMARIES = Part("summary"), Part("summary", needed=False), Part("summaries", needed=False)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """How programs ask for an operation: an address under ``/v1`` with its id and its description.

    ``verb`` is the operation's name for agents. ``takes`` lists the parts of a request: ``TOPIC`` stands in the address
    as ``{id}``, the others in the body in this order; a refusal names the first of them. ``body`` is the name of the
    body's shape, ``body_about`` its description and ``example`` an example."""

    verb: str
    method: Literal["POST", "PATCH"]
    address: str
    id: str
    about: str
    takes: tuple[Part, ...]
    body: str
    body_about: str
    example: Mapping[str, Any] = field(hash=False)

    @property
    def body_takes(self) -> tuple[Part, ...]:
        return tuple(part for part in self.takes if part != TOPIC)


# Those of this program, by the names of their operations.
ENDPOINTS: Mapping[str, Any] = table_beside(__file__)


@dataclass(frozen=True, slots=True)
class BenchButton:
    """A button below the messages of a topic, for what is ticked: ``cuts`` between messages, or ``chosen`` messages."""

    ticked: Literal["cuts", "chosen"]
    label: Promise
    icon: str


@dataclass(frozen=True, slots=True)
class Operation:
    """``name`` is stored as the kind of its edits. ``plan`` computes the change without making it. ``plan`` raises
    CurationError or Stale, and whatever the function raises that summarises. ``repeats`` says for how many successors a
    request can be repeated if its topics were replaced meanwhile."""

    name: str
    words: Words
    plan: Callable[[ChangeRequest, Summarise], Change]
    repeats: Literal["any", "one", "none"] = "any"
    endpoint: Endpoint | None = None
    bench: BenchButton | None = None


# What operations read of a memory, and the bounds that all of them keep. Nothing here writes.


def live_topic(owner: ChatUser, number: int) -> Topic:
    """Raises CurationError or Stale."""
    return live_topics(owner, [number])[0]


def live_topics(owner: ChatUser, ids: Sequence[int]) -> list[Topic]:
    """The topics in the order of ``ids``. Raises CurationError, also where they are too many or too large, or Stale."""
    check_count(len(ids))
    found = Topic.objects.of(owner).in_bulk(list(ids))
    check_live(owner, ids, {pk: topic.is_live for pk, topic in found.items()})
    if sum(topic.message_count for topic in found.values()) > MOST_MESSAGES:
        raise too_many_messages(MOST_MESSAGES)
    return [found[number] for number in ids]


def check_count(count: int) -> None:
    """Raises CurationError for more topics than one change may concern."""
    if count > MOST_TOPICS:
        raise too_many_topics(MOST_TOPICS)


def messages_by_topic(topics: Iterable[Topic]) -> dict[int, list[int]]:
    """The messages of each topic, oldest first."""
    listed: dict[int, list[int]] = {topic.pk: [] for topic in topics}
    rows = TopicMessage.objects.filter(topic__in=list(listed)).order_by("message__sent_at", "message")
    for topic, message in rows.values_list("topic", "message"):
        listed[topic].append(message)
    return listed


def drafts(
    owner: ChatUser, parts: Sequence[Sequence[int]], summaries: Sequence[str], summarise: Summarise
) -> list[TopicDraft]:
    """A draft for each part, by its messages; an empty summary is generated. Raises CurationError."""
    silent = [number for part, summary in zip(parts, summaries, strict=True) if not summary.strip() for number in part]
    contents = {row.pk: content(row) for row in Message.objects.of(owner).filter(pk__in=silent)} if silent else {}
    made = []
    for part, summary in zip(parts, summaries, strict=True):
        written = summary.strip() or summarise([contents[number] for number in part])
        check_summary(written)
        made.append(TopicDraft(written, tuple(part)))
    return made


# The one way into curation: whoever asks for a change of topics, it is planned and made here.


class MadeChange(NamedTuple):
    """A change and the edit that made it."""

    edit: TopicEdit
    change: Change


def plan(request: ChangeRequest, summarise: Summarise = opening) -> Change:
    """The change that is asked for; nothing is written. Raises CurationError, Stale, and what ``summarise`` raises."""
    seen = Topic.objects.of(request.owner).filter(pk__in=request.topics)
    check_live(request.owner, request.topics, dict(seen.values_list("pk", "is_live")))
    # With the summaries that people wrote, if there is one for each topic.
    change = request.operation.plan(request, summarise)
    if change.project is None and len(change.out) > 1:
        check_one_project(Topic.objects.filter(pk__in=change.out).values_list("project", flat=True))
    if len(request.summaries) != len(change.put):
        return change
    pairs = zip(change.put, request.summaries, strict=True)
    return replace(change, put=tuple(replace(draft, summary=summary or draft.summary) for draft, summary in pairs))


def make(
    request: ChangeRequest,
    *,
    actor: str,
    reason: str = "",
    by_hand: bool = True,
    accepts: Collection[Suggestion] = (),
    call: AgentCall | None = None,
) -> MadeChange:
    """Makes the change that is asked for, and closes the suggestions that it ``accepts`` with its edit. ``by_hand``
    means that a person asked; ``call`` is the agent's question whose answer is carried out. Raises CurationError,
    Stale, ByHand as ``plan`` and ``swap`` do, and SuggestionDecided; then nothing is changed."""
    change = plan(request)
    kind = TopicEdit.Kind(request.operation.name)
    with transaction.atomic():
        edit = swap(request.owner, change, kind=kind, actor=actor, reason=reason, by_hand=by_hand, call=call)
        if accepts:
            close(request.owner, accepts, Suggestion.State.ACCEPTED, actor=actor, edit=edit)
    return MadeChange(edit, change)
