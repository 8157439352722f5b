"""Pages of the lists of a memory: rows, and ``next``, the ``after`` of the following page or null. The first field of a
row is its id. A field is the row's attribute of its name, or of its ``validation_alias``."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from memoryapp.doors.api.shapes import fields
from memoryapp.engine.memory import item_id
from memoryapp.importers.record import LONGEST


def _named(kind: str) -> BeforeValidator:
    """Puts the kind before a number: ``Person:7``."""
    return BeforeValidator(lambda value: item_id(kind, value) if isinstance(value, int) else value)


Texts = Annotated[list[str], BeforeValidator(lambda values: [str(value) for value in values])]


class ListedUser(fields.Answer):
    name: str
    display_name: str
    created_at: datetime


class UsersAnswer(fields.Answer):
    model_config = fields.exemplified(
        users=[{"name": "anna", "display_name": "Анна", "created_at": "2026-07-25T14:30:00+00:00"}], next=None
    )

    users: list[ListedUser]
    next: str | None


class ListedMessage(fields.Answer):
    """``topic`` is the topic that contains the message; null if none does."""

    id: str = Field(validation_alias="external_id")
    role: fields.Role
    author: str
    ts: datetime = Field(validation_alias="sent_at")
    text: str
    session: str
    reply_to: str
    forwarded_from: str
    topic: fields.TopicName | None = Field(validation_alias="topic_id")
    project: str


class MessagesAnswer(fields.Answer):
    messages: list[ListedMessage]
    next: str | None


class ListedPerson(fields.Answer):
    id: Annotated[str, _named("Person")]
    name: str = Field(validation_alias="display_name")
    aliases: Texts
    username: str
    circle: str
    bio: str
    mentions: int = Field(validation_alias="mention_count")
    first_seen: datetime | None
    last_seen: datetime | None
    project: str


class PeopleAnswer(fields.Answer):
    people: list[ListedPerson]
    next: str | None


class ListedArtifact(fields.Answer):
    """``answers`` are questions that the file can answer."""

    id: Annotated[str, _named("Artifact")]
    type: str = Field(validation_alias="file_type")
    name: str
    mime_type: str
    sha256: str
    size_bytes: int
    state: str
    summary: str
    keywords: Texts
    entities: Texts
    answers: Texts = Field(validation_alias="rag_hints")
    created_at: datetime
    project: str


class ArtifactsAnswer(fields.Answer):
    artifacts: list[ListedArtifact]
    next: str | None


def _fact_state(value: Any) -> Any:
    """From the time of its replacement, or what it is already."""
    return value if isinstance(value, str) else "past" if value else "current"


class ListedFact(fields.Answer):
    """``importance`` is from 0 to 100. ``topic`` is the topic in which the fact was found; null if a person wrote it.
    ``state`` is ``past`` for a fact that another one replaced; ``superseded_at`` is the time of that one."""

    # Read again from what was sent, ``state`` stands beside what it is made of.
    model_config = ConfigDict(extra="ignore")

    id: int
    type: str
    category: str
    relation: str
    content: str
    importance: int
    topic: fields.TopicName | None = Field(validation_alias="topic_id")
    created_at: datetime
    state: Annotated[Literal["current", "past"], BeforeValidator(_fact_state)] = Field(validation_alias="superseded_at")
    superseded_at: datetime | None
    project: str


class FactsAnswer(fields.Answer):
    facts: list[ListedFact]
    next: str | None


class ListedImport(fields.Answer):
    """Counts of messages of the file: ``added`` were new, ``skipped`` existed already, ``rejected`` were unreadable.
    ``left_out`` are no part of the talk that was shown, by reason."""

    id: int
    source: str
    format: str
    started_at: datetime
    added: int
    skipped: int
    rejected: Annotated[int, BeforeValidator(lambda value: len(value) if isinstance(value, list) else value)]
    left_out: list[fields.LeftOutMessages]


class ImportsAnswer(fields.Answer):
    imports: list[ListedImport]
    next: str | None


# The body and answer of ``POST /v1/messages``.

MOST_A_CALL = 1_000


class MessagesBody(BaseModel):
    """Up to 1,000 messages of one chat user, of one ``project``; ``session`` is the label of those that have none of
    their own. Further fields of the body are stored with the first message."""

    model_config = ConfigDict(
        extra="allow", json_schema_extra={"example": {"user": "anna", "messages": [fields.EXAMPLE_MESSAGE]}}
    )

    user: fields.Name
    project: fields.Project = ""
    session: Annotated[str | None, Field(max_length=LONGEST["session"])] = None
    messages: Annotated[
        list[Annotated[Any, WithJsonSchema(fields.MESSAGE_OR_REJECTED)]],
        Field(json_schema_extra={"maxItems": MOST_A_CALL}),
    ]


class RejectedMessage(fields.Answer):
    """A message that was not stored; ``index`` is its place in the list, from 0."""

    index: int
    id: str = ""
    reason: str


class AddedAnswer(fields.Answer):
    """The number of new messages and of known ones, and the messages that could not be stored. ``left_out`` counts, by
    reason, what is no talk and not stored: calls of tools and their results. Of the new ones, the guard ``masked``
    some, ``held`` some for a person, and only ``marked`` some; a count of none is left out."""

    model_config = ConfigDict(json_schema_extra={"example": {"added": 1, "skipped": 0, "rejected": []}})

    added: int
    skipped: int
    rejected: list[RejectedMessage]
    left_out: list[fields.LeftOutMessages] = []
    masked: int = 0
    held: int = 0
    marked: int = 0


class Unstored(fields.Fault):
    """``rejected`` is there if the body could be read and no message of it could be stored."""

    rejected: list[RejectedMessage] | None = None


class UnstoredErrorAnswer(fields.ErrorAnswer):
    """The body cannot be read, or no message of it could be stored."""

    error: Unstored


# The receipt of an erasure.


class ErasedAnswer(fields.Answer):
    """The receipt: how many rows of each table and how many ``files`` were erased or redacted. It contains no name."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "erasure": 3,
                "kind": "user",
                "began_at": "2026-07-25T14:30:00+00:00",
                "ended_at": "2026-07-25T14:30:04+00:00",
                "counts": {"memoryapp_message": 1204, "memoryapp_topic": 96, "memoryapp_chatuser": 1, "files": 2},
                "redacted": {},
            }
        }
    )

    erasure: int = Field(validation_alias="id")
    kind: str
    began_at: datetime
    ended_at: datetime
    counts: dict[str, int]
    redacted: dict[str, int]
