"""Pages of the lists of a memory: rows, and ``next``, the ``after`` of the following page or null.

The first field of a row is its id. A field is the row's attribute of its name, or of its ``validation_alias``.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, WithJsonSchema

from memoryapp.api.shapes.fields import LeftOutMessages, Role, exemplified
from memoryapp.engine.memory import item_id, topic_id


class ListedRow(BaseModel):
    model_config = ConfigDict(from_attributes=True, populate_by_name=True)


def _named(kind: str) -> BeforeValidator:
    """Puts the kind before a number: ``Person:7``."""
    return BeforeValidator(lambda value: item_id(kind, value) if isinstance(value, int) else value)


Moment = Annotated[
    datetime,
    PlainSerializer(lambda at: at.isoformat(), return_type=str),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
TopicName = Annotated[str, BeforeValidator(lambda value: topic_id(value) if isinstance(value, int) else value)]
Texts = Annotated[list[str], BeforeValidator(lambda values: [str(value) for value in values])]


class ListedUser(ListedRow):
    name: str
    display_name: str
    created_at: Moment


class UsersAnswer(ListedRow):
    model_config = exemplified(
        users=[{"name": "anna", "display_name": "Анна", "created_at": "2026-07-25T14:30:00+00:00"}], next=None
    )

    users: list[ListedUser]
    next: str | None


class ListedMessage(ListedRow):
    """``topic`` is the topic that contains the message; null if none does."""

    id: str = Field(validation_alias="external_id")
    role: Role
    author: str
    ts: Moment = Field(validation_alias="sent_at")
    text: str
    session: str
    reply_to: str
    forwarded_from: str
    topic: TopicName | None = Field(validation_alias="topic_id")


class MessagesAnswer(ListedRow):
    messages: list[ListedMessage]
    next: str | None


class ListedPerson(ListedRow):
    id: Annotated[str, _named("Person")]
    name: str = Field(validation_alias="display_name")
    aliases: Texts
    username: str
    circle: str
    bio: str
    mentions: int = Field(validation_alias="mention_count")
    first_seen: Moment | None
    last_seen: Moment | None


class PeopleAnswer(ListedRow):
    people: list[ListedPerson]
    next: str | None


class ListedArtifact(ListedRow):
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
    created_at: Moment


class ArtifactsAnswer(ListedRow):
    artifacts: list[ListedArtifact]
    next: str | None


def _fact_state(value: Any) -> Any:
    """From the time of its replacement, or what it is already."""
    return value if isinstance(value, str) else "past" if value else "current"


class ListedFact(ListedRow):
    """``importance`` is from 0 to 100. ``topic`` is the topic in which the fact was found; null if a person wrote it.

    ``state`` is ``past`` for a fact that another one replaced; ``superseded_at`` is the time of that one.
    """

    id: int
    type: str
    category: str
    relation: str
    content: str
    importance: int
    topic: TopicName | None = Field(validation_alias="topic_id")
    created_at: Moment
    state: Annotated[Literal["current", "past"], BeforeValidator(_fact_state)] = Field(validation_alias="superseded_at")
    superseded_at: Moment | None


class FactsAnswer(ListedRow):
    facts: list[ListedFact]
    next: str | None


class ListedImport(ListedRow):
    """Counts of messages of the file: ``added`` were new, ``skipped`` existed already, ``rejected`` were unreadable.

    ``left_out`` are no part of the talk that was shown, by reason.
    """

    id: int
    source: str
    format: str
    started_at: Moment
    added: int
    skipped: int
    rejected: Annotated[int, BeforeValidator(lambda value: len(value) if isinstance(value, list) else value)]
    left_out: list[LeftOutMessages]


class ImportsAnswer(ListedRow):
    imports: list[ListedImport]
    next: str | None
