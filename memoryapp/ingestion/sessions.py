"""Cuts messages into sessions.

A session is a limited number of messages of one label without a long pause. Each label is a separate stream, because
simultaneous chats would otherwise interrupt each other. A session is closed, and may be archived, when no message can
join it any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import NamedTuple

# How many messages a full session takes in so that it does not end with a question.
MOST_WAITED = 20


class Moment(NamedTuple):
    """The fields of a message that decide its session."""

    id: int
    sent_at: datetime
    label: str
    is_question: bool = False


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """Where sessions and topics end.

    A session ends before a pause of ``interval`` and after ``most`` messages, a topic before it has more than
    ``topic_chars`` characters. Topics of fewer than ``least`` messages are joined to others of their session.
    """

    interval: timedelta
    most: int
    topic_chars: int
    least: int = 1


@dataclass(frozen=True, slots=True)
class Session:
    """Messages that belong together, in order; ``closed`` if another session of the label follows."""

    messages: tuple[Moment, ...]
    closed: bool

    def is_due(self, now: datetime, interval: timedelta) -> bool:
        return now >= self.due_at(interval)

    def due_at(self, interval: timedelta) -> datetime:
        """Returns the time after which no message can join it; for a closed session, that of its last message."""
        return self.messages[-1].sent_at + (timedelta(0) if self.closed else interval)


def cut_sessions(messages: Iterable[Moment], *, interval: timedelta, most: int) -> list[Session]:
    """Returns the sessions of messages that are ordered by label and time; the oldest session comes first."""
    sessions = [
        session
        for _label, stream in groupby(messages, key=lambda message: message.label)
        for session in _cut_stream(stream, interval, most)
    ]
    return sorted(sessions, key=lambda session: (session.messages[0].sent_at, session.messages[0].id))


def _cut_stream(stream: Iterable[Moment], interval: timedelta, most: int) -> Iterator[Session]:
    open_: list[Moment] = []
    for message in stream:
        if open_ and (_is_full(open_, most) or message.sent_at - open_[-1].sent_at >= interval):
            yield Session(tuple(open_), closed=True)
            open_ = []
        open_.append(message)
    if open_:
        yield Session(tuple(open_), closed=_is_full(open_, most))


def _is_full(messages: Sequence[Moment], most: int) -> bool:
    """Whether the session ends because of its size. A question at its end waits for the answer, within limits."""
    return len(messages) >= most + MOST_WAITED or (len(messages) >= most and not messages[-1].is_question)
