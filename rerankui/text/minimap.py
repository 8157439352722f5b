"""A topic's messages as a strip of thin bars over time, each of which leads to its message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from django.db.models.functions import Left, Length
from django.utils.formats import date_format
from django.utils.translation import gettext as _

from memoryapp.models import Message, Topic
from rerankui.text import time_axis
from rerankui.text.prose import line

MOST_MARKS = 300
OPENING_CHARS = 90
HEIGHT = 100
# How much of its room a bar fills.
FILLED = 0.8


class _MarkedMessage(NamedTuple):
    """A message without its text; ``size`` is the text's length in characters."""

    id: int
    sent_at: datetime
    role: str
    author: str
    size: int
    opening: str


@dataclass(frozen=True, slots=True)
class Mark:
    """One message; its bar is in per cent of the strip. ``is_here`` when the page shown has the message."""

    message: int
    left: float
    width: float
    top: float
    height: float
    role: str
    label: str
    is_here: bool


def marks(topic: Topic, shown: Sequence[Message]) -> list[Mark]:
    """A bar for each message, or in a long topic for the longest of a few that follow each other; one query."""
    rows = _message_rows(topic)
    if len(rows) < 2:
        return []
    places = time_axis.axis([row.sent_at for row in rows]).places
    longest = max(row.size for row in rows) or 1
    here = {message.pk for message in shown}
    return [_mark(row, place, longest, row.id in here) for row, place in zip(rows, places, strict=True)]


def _message_rows(topic: Topic) -> list[_MarkedMessage]:
    messages = Message.objects.of(topic.owner_id).filter(topicmessage__topic=topic).in_order()
    columns = messages.values_list("pk", "sent_at", "role", "author", Length("text"), Left("text", 2 * OPENING_CHARS))
    rows = [_MarkedMessage(*row) for row in columns]
    step = -(-len(rows) // MOST_MARKS) or 1
    return [max(rows[start : start + step], key=lambda row: row.size) for start in range(0, len(rows), step)]


def _mark(row: _MarkedMessage, place: time_axis.Place, longest: int, is_here: bool) -> Mark:
    # A square root, for the longest message would make all others flat.
    height = max(12.0, HEIGHT * (row.size / longest) ** 0.5)
    room = place.end - place.bar
    who = row.author or dict(Message.Author.choices).get(row.role, row.role)
    return Mark(
        message=row.id,
        left=place.bar + room * (1 - FILLED) / 2,
        width=room * FILLED,
        top=HEIGHT - height,
        height=height,
        role=row.role,
        label=f"{date_format(row.sent_at, _('j M Y, H:i'))} {who}: {line(row.opening)[:OPENING_CHARS]}",
        is_here=is_here,
    )
