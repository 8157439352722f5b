"""Messages and topics as the engine sees them: values, without rows or settings."""

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
class TopicContent:
    """A topic with its messages in order; ``size_chars`` counts characters of their texts."""

    id: int
    summary: str
    started_at: datetime
    size_chars: int
    messages: tuple[MessageContent, ...]


@dataclass(frozen=True, slots=True)
class TopicDraft:
    """A topic as the splitter proposes it: a summary over a run of message ids."""

    summary: str
    messages: tuple[int, ...]


ReadTopics = Callable[[Sequence[int]], Awaitable[Sequence[TopicContent]]]

_ID = re.compile(r"^\s*\[?\s*(?:(?P<kind>topic|person|artifact)\s*:)?\s*(?P<number>\d+)(?:\.0+)?\s*\]?\s*$", re.I)


def topic_id(number: int) -> str:
    """``Topic:42``, the name of a topic everywhere outside the database."""
    return f"Topic:{number}"


def parse_topic_id(value: object) -> int | None:
    """The number in ``42``, ``42.0``, ``"42"``, ``"topic:42"`` or ``"[Topic:42]"``; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    match = _ID.match(str(value))
    if not match or (match["kind"] or "topic").lower() != "topic":
        return None
    return int(match["number"])
