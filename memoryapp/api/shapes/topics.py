"""A page of topics, and one topic with its messages."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, Field

from memoryapp.api.shapes.fields import Role


class TopicSummary(BaseModel):
    id: str
    summary: str
    started_at: datetime
    ended_at: datetime
    message_count: int
    size_chars: int


class TopicsAnswer(BaseModel):
    """Live topics by id, oldest first; ``next`` is the ``after`` of the following page, or null."""

    topics: list[TopicSummary]
    next: str | None = Field(examples=["Topic:42"])


class MessageInTopic(BaseModel):
    id: str
    role: Role
    author: str
    ts: datetime
    text: str
    forwarded_from: str = ""


class TopicWithMessages(TopicSummary):
    user: str
    messages: list[MessageInTopic]


class TopicAnswer(BaseModel):
    """The requested topic or, if it is retired, the live topics that contain its messages now."""

    id: str
    retired: bool
    topics: list[TopicWithMessages]


class BlamedEdit(BaseModel):
    """An edit, and the ``topic`` that it made."""

    id: int
    kind: str
    actor: str
    at: datetime
    reason: str
    topic: str


class BlamedMessage(BaseModel):
    """A message, and the edit since which it has been in the topic; null where an erasure deleted the edit."""

    id: str
    edit: BlamedEdit | None


class BlamedSummary(BaseModel):
    """A summary, and the edit that wrote it; null where an erasure deleted the edit."""

    summary: str
    edit: BlamedEdit | None


class BlameAnswer(BaseModel):
    """The messages of a topic, oldest first, at most 10,000, and its summaries from the present one back.

    A topic is followed back through the edits that made it, as long as most of its messages came from one earlier topic
    that gave most of its own.
    """

    id: str
    messages: list[BlamedMessage]
    summaries: list[BlamedSummary]
