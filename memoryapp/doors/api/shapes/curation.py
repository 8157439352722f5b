"""The bodies and answers of the endpoints of curation. Messages are named by the ids with which they were sent, topics
by their ids in any spelling. An unknown field is refused, because a request that is only half understood might change a
memory in an unintended way."""

from collections.abc import Mapping
from datetime import date, datetime
from functools import cache
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, create_model

from memoryapp.curation.change import MOST_MESSAGES, MOST_TOPICS
from memoryapp.curation.operations import operation
from memoryapp.doors.api.shapes.fields import (
    LARGEST_ID,
    NUMBER,
    READABLE,
    READABLE_SCHEMA,
    STRIPPED,
    Answer,
    ErrorAnswer,
    Fault,
    KnownName,
    MessageId,
    Project,
    Proposed,
    Reason,
    Role,
    StrictBody,
    Summary,
    TopicId,
    TopicName,
    exemplified,
)
from memoryapp.doors.api.shapes.lists import ListedFact
from memoryapp.importers.record import LONGEST
from memoryapp.models import Fact

# A page of edits, and the bodies and answers of an undo.


class UndoBody(StrictBody):
    """The reason of an undo; the body may be empty."""

    model_config = exemplified(reason="they were two matters after all")

    reason: Reason = ""


class NightBody(StrictBody):
    """The night that began at noon of the day ``night``; without it, the latest night with merges still in effect."""

    model_config = exemplified(user="anna", night="2026-03-02", reason="too eager")

    user: KnownName
    night: date | None = None
    reason: Reason = ""


class NightAnswer(Answer):
    """The count of ``merges`` in a night, ``first`` to ``last``; ``edits`` are the undos, none with ``dry_run``."""

    night: date
    first: datetime
    last: datetime
    merges: int
    edits: list[int]


class EditName(Answer):
    """An edit, as a refusal names it."""

    id: int
    kind: str
    actor: str
    at: datetime


class Edit(EditName):
    """An edit: the first 200 topics that it took ``out`` and ``put`` in, and the counts of all of them. ``stands`` is
    true if the edit is in effect now. An undo can be undone; then the first edit is in effect again."""

    reason: str
    undoes: int | None
    undone_by: int | None
    stands: bool
    out: list[TopicName]
    out_count: int
    put: list[TopicName]
    put_count: int


class EditsAnswer(Answer):
    """Edits in the order in which they were made; ``next`` is the ``after`` of the following page, or null. To follow a
    memory, ask again with the last id as ``after``: no edit is ever added before it."""

    edits: list[Edit]
    next: int | None


# A page of topics, and one topic with its messages.


class TopicSummary(Answer):
    """A topic without its messages."""

    id: TopicName
    project: str
    summary: str
    started_at: datetime
    ended_at: datetime
    message_count: int
    size_chars: int


class TopicsAnswer(Answer):
    """Live topics by id, oldest first; ``next`` is the ``after`` of the following page, or null."""

    topics: list[TopicSummary]
    next: TopicName | None = Field(examples=["Topic:42"])


class MessageInTopic(Answer):
    """A message of the memory. ``id`` is that under which it was sent."""

    id: str = Field(validation_alias="external_id")
    role: Role
    author: str
    ts: datetime = Field(validation_alias="sent_at")
    text: str
    forwarded_from: str = ""


class TopicWithMessages(TopicSummary):
    """A topic with its messages, oldest first."""

    user: str
    messages: list[MessageInTopic]


class TopicAnswer(Answer):
    """The requested topic or, if it is retired, the live topics that contain its messages now."""

    id: TopicName
    retired: bool
    topics: list[TopicWithMessages]


class CloseBody(BaseModel):
    """The active sessions of a chat user, or only those with the label ``session``."""

    model_config = exemplified(user="anna", session="s1")

    user: KnownName
    session: Annotated[str | None, Field(max_length=LONGEST["session"])] = None


class ClosedQuery(CloseBody):
    """The sessions by the numbers of their ``first`` and ``last`` message."""

    first: Annotated[int, Field(ge=0, le=LARGEST_ID)]
    last: Annotated[int, Field(ge=0, le=LARGEST_ID)]


class ClosedAnswer(Answer):
    """The topics that the messages of the sessions are in now; none if there was nothing to archive."""

    topics: list[TopicSummary]


class BlamedEdit(EditName):
    """An edit, and the ``topic`` that it made."""

    reason: str
    topic: TopicName


class BlamedMessage(Answer):
    """A message, and the edit since which it has been in the topic; null where an erasure deleted the edit."""

    id: str
    edit: BlamedEdit | None


class BlamedSummary(Answer):
    """A summary, and the edit that wrote it; null where an erasure deleted the edit."""

    summary: str
    edit: BlamedEdit | None


class BlameAnswer(Answer):
    """The messages of a topic, oldest first, at most 10,000, and its summaries from the present one back. A topic is
    followed back through the edits that made it, as long as most of its messages came from one earlier topic that gave
    most of its own."""

    id: TopicName
    messages: list[BlamedMessage]
    summaries: list[BlamedSummary]


_ITEMS: dict[str, Any] = {"minItems": 1}
# How each part of a request is written in a body: its type, and its default if it may be left out.
_FIELDS: Mapping[operation.Part, Any] = {
    operation.TOPICS: (Annotated[list[TopicId], Field(max_length=MOST_TOPICS, json_schema_extra={"minItems": 1})], ...),
    operation.MESSAGES: (Annotated[list[MessageId], Field(max_length=MOST_MESSAGES, json_schema_extra=_ITEMS)], ...),
    operation.TO: (TopicId | None, ...),
    operation.AT: (Annotated[list[MessageId], Field(max_length=MOST_TOPICS, json_schema_extra=_ITEMS)], ...),
    operation.PROJECT: (Project, ...),
    operation.SUMMARY: (Summary, ...),
    operation.PROPOSED: (Proposed, ""),
    operation.SUMMARIES: (Annotated[list[Proposed], Field(max_length=MOST_TOPICS)], []),
}


@cache
def body_of(endpoint: operation.Endpoint) -> type[StrictBody]:
    """The shape of what a program sends: the chat user unless a topic in the address says whose, parts, a reason."""
    whose: dict[str, Any] = {} if operation.TOPIC in endpoint.takes else {"user": (KnownName, ...)}
    parts = {part.name: _FIELDS[part] for part in endpoint.body_takes}
    fields: dict[str, Any] = {**whose, **parts, "reason": (Reason, "")}
    return create_model(
        endpoint.body,
        __base__=StrictBody,
        __doc__=endpoint.body_about,
        __module__=__name__,
        __cls_kwargs__={"json_schema_extra": {"example": dict(endpoint.example)}},
        **fields,
    )


class PutTopic(TopicSummary):
    """A topic that the change puts in. With ``dry_run`` its id is null, unless an undo would bring it back."""

    id: TopicName | None  # type: ignore[assignment]


class Evidence(Answer):
    """How search finds the topics with the messages that answered a run. ``rank``, from 1, is that of the last topic.
    ``rank`` is null if a message is in no topic, or its topic is not among the first 200. ``shown`` is true if all of
    these topics are shown to the model. ``chars`` is their total size."""

    rank: int | None
    shown: bool
    chars: int


class RunEffect(Answer):
    """A past run ``before`` and ``after`` the change. ``golden`` is true if it belongs to a labelled question."""

    run: UUID = Field(validation_alias="run_id")
    query: str
    asked_at: datetime = Field(validation_alias="when")
    golden: bool = Field(validation_alias="is_golden")
    verdict: Literal["better", "worse", "same"]
    sentence: str
    before: Evidence
    after: Evidence


class EffectAnswer(Answer):
    """The past runs that saw a topic taken out, searched again with the change applied; those that get worse first.

    ``words_only`` is the number of runs compared by words only, because the vector of their query is not stored,
    ``asked_again`` of those for which the embedded scorer, which had chosen, was asked again with and without the
    change."""

    affected: int
    better: int
    worse: int
    same: int
    words_only: int
    asked_again: int
    runs: list[RunEffect] = Field(validation_alias="rows")


class ChangedAnswer(Answer):
    """The id of the edit, the topics that it put in, and the ids that it retired; these now lead to the new topics.
    With ``dry_run`` nothing is changed: ``edit`` is null, and ``effect`` shows what past runs would have found."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "edit": 17,
                "topics": [
                    {
                        "id": "Topic:44",
                        "summary": "Tea",
                        "started_at": "2026-07-25T14:30:00+00:00",
                        "ended_at": "2026-07-28T09:12:00+00:00",
                        "message_count": 14,
                        "size_chars": 3120,
                    }
                ],
                "retired": ["Topic:1", "Topic:3"],
                "effect": None,
            }
        }
    )

    edit: int | None
    topics: list[PutTopic]
    retired: list[TopicName]
    effect: EffectAnswer | None


class Conflict(Fault):
    """``successors`` is set for ``stale``. ``edits`` is set for ``depends``; undo them first, in this order."""

    code: Literal["stale", "depends", "conflict", "erased"]
    successors: dict[str, list[str]] | None = None
    edits: list[EditName] | None = None


class ConflictErrorAnswer(ErrorAnswer):
    """The memory has changed meanwhile, or other edits prevent the change; the answer names them."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "error": {
                    "code": "stale",
                    "message": "Somebody changed this meanwhile: Topic:1 is retired. Its messages are in Topic:44 now.",
                    "successors": {"Topic:1": ["Topic:44"]},
                }
            }
        }
    )

    error: Conflict


# The bodies and the answers of decisions about recall.

_DecidedId = Annotated[str, StringConstraints(pattern=r"^(?:Topic|Person|Fact):[0-9]{1,18}$")]


class DecisionBody(StrictBody):
    """`id` is a topic, a person or a fact of the chat user; `usual` takes back what was decided."""

    model_config = exemplified(user="anna", id="Topic:42", recall="pinned", reason="The plan for this year")

    user: KnownName
    id: _DecidedId
    recall: Literal["pinned", "never", "usual"]
    reason: Reason = ""


class Decision(Answer):
    id: str
    recall: Literal["pinned", "never", "usual"]


class DecisionAnswer(Decision):
    """``change`` is the number by which the decision is undone."""

    change: int


class DecisionsAnswer(Answer):
    decisions: list[Decision]


# The bodies and the answer of facts that programs write.

LONGEST_CONTENT = 2_000
_Word = Annotated[str, StringConstraints(max_length=100), READABLE, STRIPPED, READABLE_SCHEMA]
_Content = Annotated[str, StringConstraints(max_length=LONGEST_CONTENT), READABLE, STRIPPED, READABLE_SCHEMA]
_Importance = Annotated[int, Field(ge=0, le=100), NUMBER]


class FactBody(StrictBody):
    """A new fact about the chat user. `relation` says whom it is about, `importance` is from 0 to 100; from 80 on it is
    sent with every query."""

    model_config = exemplified(user="anna", content="Allergic to peanuts", category="health")

    user: KnownName
    project: Project = ""
    content: _Content
    relation: _Word = "user"
    category: _Word = "other"
    type: Fact.Type = Fact.Type.CONTEXT
    importance: _Importance = 50
    reason: Reason = ""


class FactPatch(StrictBody):
    """What changes of a fact; at least one of its values."""

    model_config = exemplified(content="Allergic to peanuts and walnuts")

    project: Project | None = None
    content: _Content | None = None
    relation: _Word | None = None
    category: _Word | None = None
    type: Fact.Type | None = None
    importance: _Importance | None = None
    reason: Reason = ""


class FactAnswer(Answer):
    """``change`` is the number by which the change is undone; ``fact`` is null after a deletion."""

    change: int
    fact: ListedFact | None
