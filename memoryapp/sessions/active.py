"""Reads active sessions: of a search that reads a whole memory, and of an owner at any time.

Which messages are a session is decided by their rows alone, so it is the same as when they are archived.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from django.conf import settings
from django.db.models import BooleanField, ExpressionWrapper, Q, QuerySet

from memoryapp.engine.text.lines import one_line, shortened
from memoryapp.models import ChatUser, EditedTopic, Message, TopicEdit
from memoryapp.operations.database import SqlStatement, array
from memoryapp.sessions.cutting import TOGETHER, Moment, Session, SessionLimits, cut_within

# Characters of the first message by which a session is recognised.
TITLE_CHARS = 160

MESSAGES = """
SELECT id, sent_at, session, text LIKE '%%?%%', role, author, char_length(text) FROM memoryapp_message
WHERE owner_id = %(owner)s AND topic_id IS NULL AND NOT is_withdrawn ORDER BY session, sent_at, id
"""
BOUNDS = "SELECT silence_seconds, session_messages FROM memoryapp_chatuser WHERE id = %(owner)s"
# Passages are read from the messages, of which few are in no topic.
PASSAGES = """
SELECT p.id, p.term_count, p.is_wide, m.id
FROM memoryapp_message m JOIN memoryapp_passagemessage pm ON pm.message_id = m.id
JOIN memoryapp_passage p ON p.id = pm.passage_id
WHERE m.owner_id = %(owner)s AND m.topic_id IS NULL AND NOT m.is_withdrawn
"""
TITLES = (
    "SELECT id, left(text, %(chars)s) FROM memoryapp_message WHERE owner_id = %(owner)s AND id = ANY(%(ids)s::bigint[])"
)


class ActiveMessage(NamedTuple):
    """A message that is in no topic, without its text; ``size`` is in characters."""

    id: int
    sent_at: datetime
    label: str
    is_question: bool
    role: str
    author: str
    size: int


@dataclass(frozen=True, slots=True)
class TalkSession:
    """A session that is not archived yet. ``number`` is that of its first message, negative."""

    number: int
    messages: tuple[int, ...]
    date: str
    size_chars: int


@dataclass(frozen=True, slots=True)
class ActiveTalk:
    """The active sessions of an owner by number, their messages, and the session of each message."""

    messages: tuple[ActiveMessage, ...] = ()
    sessions: Mapping[int, TalkSession] = field(default_factory=dict)
    session_of: Mapping[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: Iterable[Sequence[Any]], limits: SessionLimits) -> ActiveTalk:
        """Built from the rows of ``MESSAGES``."""
        messages = tuple(ActiveMessage(*row) for row in rows)
        known = {message.id: message for message in messages}
        cut = cut_within((Moment(*message[:5]) for message in messages), limits)
        sessions = [_session([known[moment.id] for moment in session.messages]) for session in cut]
        return cls(
            messages,
            {session.number: session for session in sessions},
            {number: session.number for session in sessions for number in session.messages},
        )

    def without(self, archived: Collection[int]) -> ActiveTalk:
        """The same without the sessions that were archived while the rows were read."""
        gone = {self.session_of[number] for number in archived if number in self.session_of}
        if not gone:
            return self
        return ActiveTalk(
            tuple(message for message in self.messages if self.session_of[message.id] not in gone),
            {number: session for number, session in self.sessions.items() if number not in gone},
            {message: session for message, session in self.session_of.items() if session not in gone},
        )


def _session(messages: Sequence[ActiveMessage]) -> TalkSession:
    first = messages[0]
    return TalkSession(
        number=-first.id,
        messages=tuple(message.id for message in messages),
        date=f"{first.sent_at.astimezone(UTC):%Y-%m-%d}",
        size_chars=sum(message.size for message in messages),
    )


def titles_sql(owner_id: int, sessions: Sequence[int]) -> SqlStatement | None:
    """The statement that reads the beginnings of the first messages of these sessions."""
    ids = array(-number for number in sessions)
    return (TITLES, {"owner": owner_id, "ids": ids, "chars": 2 * TITLE_CHARS}) if sessions else None


def title(text: str) -> str:
    """What a session is recognised by: the beginning of its first message."""
    return shortened(one_line(text), TITLE_CHARS)


def limits(owner: ChatUser) -> SessionLimits:
    """Returns the chat user's limits, with those of the settings as defaults."""
    return limited(owner.silence_seconds, owner.session_messages, owner.topic_messages)


def limited(silence: int | None, most: int | None, least: int | None = None) -> SessionLimits:
    """``limits`` of a chat user with these values; None stands for those of the settings."""
    return SessionLimits(
        timedelta(seconds=silence or settings.CHUNK_INTERVAL),
        most or settings.MAX_CHUNK_SIZE,
        settings.SPLIT_THRESHOLD_CHARS,
        least or settings.TOPIC_LEAST_MESSAGES,
        least or 1,
        timedelta(seconds=silence or settings.CHUNK_INTERVAL_PEOPLE),
        least or TOGETHER,
    )


def cut(rows: QuerySet[Message], limits: SessionLimits) -> list[Session]:
    """The sessions of these messages; the oldest comes first."""
    asking = ExpressionWrapper(Q(text__contains="?"), output_field=BooleanField())
    columns = rows.annotate(is_question=asking).values_list("id", "sent_at", "session", "is_question", "role")
    return cut_within((Moment(*row) for row in columns.order_by("session", "sent_at", "id").iterator()), limits)


def session_with(message: Message) -> list[Message]:
    """The messages of the active session that contains this one, oldest first; none for a message that is archived or
    withdrawn."""
    stream = Message.objects.of(message.owner_id).active().filter(session=message.session)
    sessions = cut(stream, limits(ChatUser.objects.get(pk=message.owner_id)))
    ids = next(([m.id for m in session.messages] for session in sessions if message.pk in session.ids), [])
    return list(Message.objects.filter(pk__in=ids).in_order())


def archived_as(message: Message) -> list[int]:
    """The numbers of the topics, live or not, that the session of this message was archived as."""
    came = EditedTopic.objects.filter(owner=message.owner_id, side=EditedTopic.Side.IN)
    archived = came.filter(edit__kind=TopicEdit.Kind.ARCHIVE, topic__topicmessage__message=message).order_by("edit")
    edit = archived.values_list("edit", flat=True).first()
    return list(came.filter(edit=edit).order_by("topic").values_list("topic", flat=True)) if edit else []
