"""A page of topics, and one topic with its messages."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from memoryapp.api.shapes.edits import EditName
from memoryapp.api.shapes.fields import Answer, Role, TopicName


class TopicSummary(Answer):
    """A topic without its messages."""

    id: TopicName
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
    """The messages of a topic, oldest first, at most 10,000, and its summaries from the present one back.

    A topic is followed back through the edits that made it, as long as most of its messages came from one earlier topic
    that gave most of its own.
    """

    id: TopicName
    messages: list[BlamedMessage]
    summaries: list[BlamedSummary]
