"""Messages and topics as values of the engine, without rows or settings."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class MessageContent:
    """One message. ``role`` is user, assistant, peer or system."""

    id: int
    role: str
    author: str
    sent_at: datetime
    text: str
    forwarded_from: str = ""
    username: str = ""
    session: str = ""


@dataclass(frozen=True, slots=True)
class Where:
    """Which messages a search may use to find something; without any value, all of them.

    ``since`` and ``until`` are days such as ``2023-05-01`` in UTC, both included; empty is no bound. ``channels`` are
    names or numbers of chats, ``authors`` names of people: a message must match one of each, whatever the case.
    """

    since: str = ""
    until: str = ""
    channels: tuple[str, ...] = ()
    authors: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.since or self.until or self.channels or self.authors)

    def over(self, other: Where) -> Where:
        """This restriction, with the values of ``other`` where this one sets none."""
        return Where(
            self.since or other.since,
            self.until or other.until,
            self.channels or other.channels,
            self.authors or other.authors,
        )


ANYWHERE = Where()


@dataclass(frozen=True, slots=True)
class TopicContent:
    """A topic with its messages in order; ``size_chars`` counts characters of their texts."""

    id: int
    summary: str
    started_at: datetime
    size_chars: int
    messages: tuple[MessageContent, ...]


# Characters of a summary that a model writes.
LONGEST_SUMMARY = 500


@dataclass(frozen=True, slots=True)
class TopicDraft:
    """A topic as a cutter proposes it: a summary and the ids of its messages, in order."""

    summary: str
    messages: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Background:
    """What a model may know before it reads, as lines of text.

    ``profile`` is what is known about the user, ``inner_circle`` the people closest to them, ``recent_topics`` the
    latest topics, newest first, ``messages`` the end of the running conversation, oldest first.
    """

    profile: str
    inner_circle: tuple[str, ...]
    recent_topics: tuple[str, ...]
    messages: tuple[MessageContent, ...]


ReadTopics = Callable[[Sequence[int]], Awaitable[Sequence[TopicContent]]]

_ID = re.compile(
    r"^\s*+\[?\s*+(?:(?P<kind>topic|person|artifact)\s*+:)?\s*+(?P<number>\d{1,40})(?:\.0+)?\s*+\]?\s*+$", re.I
)


def item_id(kind: str, number: int) -> str:
    """``Topic:42``, ``Person:5`` or ``Artifact:123``: the name that an item has everywhere outside the database."""
    return f"{kind}:{number}"


def parse_item_id(value: object, kind: str = "Topic") -> tuple[str, int] | None:
    """``("Person", 5)`` for ``Person:5`` in any spelling. A bare number is of ``kind``; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    match = _ID.match(str(value))
    return ((match["kind"] or kind).capitalize(), int(match["number"])) if match else None


def topic_id(number: int) -> str:
    """``Topic:42``."""
    return item_id("Topic", number)


def parse_topic_id(value: object) -> int | None:
    """The number in ``42``, ``42.0``, ``"42"``, ``"topic:42"`` or ``"[Topic:42]"``; None for anything else."""
    named = parse_item_id(value)
    return named[1] if named and named[0] == "Topic" else None
