"""A change shown in numbers: today's topics, and those that would replace them.

One query for the messages of all topics; of texts only the beginnings are read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from django.conf import settings
from django.db.models.functions import Left, Length

from memoryapp.curation import Change
from memoryapp.models import ChatUser, Message, Topic
from rerankui.text.prose import line

OPENING_CHARS = 160
MOST_PEOPLE = 5


class _MessageRow(NamedTuple):
    """A message without its text; ``size`` is the text's length in characters."""

    id: int
    topic: int
    sent_at: datetime
    size: int
    author: str
    role: str
    opening: str


@dataclass(frozen=True, slots=True)
class TopicSide:
    """One topic: today's with its ``number``, or a planned one.

    ``shares`` is how many messages come from which of today's topics; ``people`` are the speakers, those with most
    messages first.
    """

    number: int | None
    summary: str
    started_at: datetime
    ended_at: datetime
    count: int
    size_chars: int
    people: tuple[str, ...]
    opening: str
    shares: tuple[tuple[int, int], ...]
    is_by_hand: bool = False

    @property
    def is_large(self) -> bool:
        """Whether archiving would have divided it because of its size."""
        return self.size_chars > settings.SPLIT_THRESHOLD_CHARS


@dataclass(frozen=True, slots=True)
class Sides:
    before: tuple[TopicSide, ...]
    after: tuple[TopicSide, ...]


def sides(owner: ChatUser, change: Change) -> Sides:
    """``change`` as it was planned; its topics are live."""
    topics = Topic.objects.of(owner).in_bulk(list(change.out))
    messages = _message_rows(owner, change.out)
    by_topic = {number: [row for row in messages.values() if row.topic == number] for number in change.out}
    before = [
        _side(topics[number].summary, rows, number, is_by_hand=topics[number].locked_by_hand)
        for number, rows in by_topic.items()
        if rows
    ]
    after = [_side(draft.summary, [messages[number] for number in draft.messages]) for draft in change.put]
    return Sides(tuple(before), tuple(after))


def _message_rows(owner: ChatUser, topics: Sequence[int]) -> dict[int, _MessageRow]:
    rows = Message.objects.of(owner).filter(topic__in=topics).in_order()
    columns = rows.values_list("pk", "topic", "sent_at", Length("text"), "author", "role", Left("text", OPENING_CHARS))
    return {row[0]: _MessageRow(*row) for row in columns}


def _side(
    summary: str, rows: Iterable[_MessageRow], number: int | None = None, *, is_by_hand: bool = False
) -> TopicSide:
    ordered = sorted(rows, key=lambda row: (row.sent_at, row.id))
    people = Counter(row.author for row in ordered if row.author and row.role != "assistant")
    return TopicSide(
        number=number,
        summary=summary,
        started_at=ordered[0].sent_at,
        ended_at=ordered[-1].sent_at,
        count=len(ordered),
        size_chars=sum(row.size for row in ordered),
        people=tuple(name for name, _n in people.most_common(MOST_PEOPLE)),
        opening=next((line(row.opening) for row in ordered if row.opening.strip()), ""),
        shares=tuple(Counter(row.topic for row in ordered).most_common()),
        is_by_hand=is_by_hand,
    )
