"""Cuts messages into sessions.

A session is a limited number of messages of one label without a long pause. Each label is a separate stream, because
simultaneous chats would otherwise interrupt each other. Between people, who answer when they find the time, a pause has
to be longer than in a talk with an assistant. A session is closed, and may be archived, when no message can join it any
more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import NamedTuple

# How many messages a full session takes in so that it does not end with a question.
MOST_WAITED = 20
# Up to how many messages neighbouring topics between people are one; see docs/measurements.md.
TOGETHER = 16


class Moment(NamedTuple):
    """The fields of a message that decide its session."""

    id: int
    sent_at: datetime
    label: str
    is_question: bool = False
    role: str = ""


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """Where sessions and topics end.

    A session ends before a pause of ``interval``, between people before one of ``between_people``, and after ``most``
    messages, a topic before it has more than
    ``topic_chars`` characters. Topics of fewer than ``least`` messages are joined to others of their session. Those
    that a model made are joined if they have fewer than ``wished``, the number that a person chose for this memory.
    Those of the segmenter between people are joined while they have at most ``together`` messages.
    """

    interval: timedelta
    most: int
    topic_chars: int
    least: int = 1
    wished: int = 1
    between_people: timedelta = timedelta(hours=6)
    together: int = TOGETHER


@dataclass(frozen=True, slots=True)
class Session:
    """Messages that belong together, in order; ``closed`` if another session of the label follows. ``interval`` is the
    pause that ends it."""

    messages: tuple[Moment, ...]
    closed: bool
    interval: timedelta

    @property
    def ids(self) -> frozenset[int]:
        return frozenset(message.id for message in self.messages)

    @property
    def due_at(self) -> datetime:
        """The time after which no message can join it; for a closed session, that of its last message."""
        return self.messages[-1].sent_at + (timedelta(0) if self.closed else self.interval)


def is_between_people(roles: Collection[str]) -> bool:
    """Whether these are the roles of a chat between people: somebody else than the user speaks, and no assistant."""
    return "peer" in roles and "assistant" not in roles


def cut_sessions(
    messages: Iterable[Moment], *, interval: timedelta, most: int, between_people: timedelta | None = None
) -> list[Session]:
    """Returns the sessions of messages that are ordered by label and time; the oldest session comes first.

    Streams between people are cut at pauses of ``between_people``, if it is given, others at those of ``interval``.
    """
    sessions: list[Session] = []
    for _label, stream in groupby(messages, key=lambda message: message.label):
        moments = list(stream)
        among_people = between_people and is_between_people({moment.role for moment in moments})
        sessions += _cut_stream(moments, between_people if among_people and between_people else interval, most)
    return sorted(sessions, key=lambda session: (session.messages[0].sent_at, session.messages[0].id))


def cut_within(messages: Iterable[Moment], limits: SessionLimits) -> list[Session]:
    """``cut_sessions`` with these limits."""
    return cut_sessions(messages, interval=limits.interval, most=limits.most, between_people=limits.between_people)


def _cut_stream(stream: Iterable[Moment], interval: timedelta, most: int) -> Iterator[Session]:
    open_: list[Moment] = []
    for message in stream:
        if open_ and (_is_full(open_, most) or message.sent_at - open_[-1].sent_at >= interval):
            yield Session(tuple(open_), closed=True, interval=interval)
            open_ = []
        open_.append(message)
    if open_:
        yield Session(tuple(open_), closed=_is_full(open_, most), interval=interval)


def _is_full(messages: Sequence[Moment], most: int) -> bool:
    """Whether the session ends because of its size. A question at its end waits for the answer, within limits."""
    return len(messages) >= most + MOST_WAITED or (len(messages) >= most and not messages[-1].is_question)
