"""Pages of the lists of a memory: rows, and ``next``, the ``after`` of the following page or null."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel

from memoryapp.api.shapes.fields import LeftOutMessages, Role, exemplified


class ListedUser(BaseModel):
    name: str
    display_name: str
    created_at: datetime


class UsersAnswer(BaseModel):
    model_config = exemplified(
        users=[{"name": "anna", "display_name": "Анна", "created_at": "2026-07-25T14:30:00+00:00"}], next=None
    )

    users: list[ListedUser]
    next: str | None


class ListedMessage(BaseModel):
    """``topic`` is the topic that contains the message; null if none does."""

    id: str
    role: Role
    author: str
    ts: datetime
    text: str
    session: str
    reply_to: str
    forwarded_from: str
    topic: str | None


class MessagesAnswer(BaseModel):
    messages: list[ListedMessage]
    next: str | None


class ListedPerson(BaseModel):
    id: str
    name: str
    aliases: list[str]
    username: str
    circle: str
    bio: str
    mentions: int
    first_seen: datetime | None
    last_seen: datetime | None


class PeopleAnswer(BaseModel):
    people: list[ListedPerson]
    next: str | None


class ListedArtifact(BaseModel):
    """``answers`` are questions that the file can answer."""

    id: str
    type: str
    name: str
    mime_type: str
    sha256: str
    size_bytes: int
    state: str
    summary: str
    keywords: list[str]
    entities: list[str]
    answers: list[str]
    created_at: datetime


class ArtifactsAnswer(BaseModel):
    artifacts: list[ListedArtifact]
    next: str | None


class ListedFact(BaseModel):
    """``importance`` is from 0 to 100. ``topic`` is the topic in which the fact was found; null if a person wrote it.

    ``state`` is ``past`` for a fact that another one replaced; ``superseded_at`` is the time of that one.
    """

    id: int
    type: str
    category: str
    relation: str
    content: str
    importance: int
    topic: str | None
    created_at: datetime
    state: Literal["current", "past"]
    superseded_at: datetime | None


class FactsAnswer(BaseModel):
    facts: list[ListedFact]
    next: str | None


class ListedImport(BaseModel):
    """Counts of messages of the file: ``added`` were new, ``skipped`` existed already, ``rejected`` were unreadable.

    ``left_out`` are no part of the talk that was shown, by reason.
    """

    id: int
    source: str
    format: str
    started_at: datetime
    added: int
    skipped: int
    rejected: int
    left_out: list[LeftOutMessages]


class ImportsAnswer(BaseModel):
    imports: list[ListedImport]
    next: str | None
