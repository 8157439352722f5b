"""A time axis for messages that come in bursts. On a true scale a pause of a day would push all messages into a corner.
Here each message has the same room, and the room of a pause is its logarithm, so that an hour, a day and a month look
different; they are labelled. When the bars of many messages would be too thin to click, pauses take no room."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate, pairwise
from math import log2
from typing import Any, NamedTuple

from django.db.models.functions import Left, Length
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext as _

from memoryapp.models import Message, Topic
from rerankui.text.markdown import line

# Per cent, which words beside the stretched bars can be placed by.
WIDTH = 100.0
PAUSE = timedelta(hours=3)
# With more, bars beside pauses would be thinner than a pointer can hit.
MOST_TIMED = 240
# A pause as long as this takes the room of one message.
UNIT = timedelta(minutes=30)
LABEL_ROOM = 6.0
TICK_ROOM = 25.0


@dataclass(frozen=True, slots=True)
class Place:
    """One message of the axis, in [0, WIDTH]: its pause begins at ``start``, its bar at ``bar``, both end at ``end``.
    ``border``, amid the pause, is where a cut before the message is drawn. ``pause`` is how long it was, in words, when
    it was hours or more."""

    start: float
    border: float
    bar: float
    end: float
    pause: str


@dataclass(frozen=True, slots=True)
class Label:
    at: float
    words: str


@dataclass(frozen=True, slots=True)
class Tick:
    at: float
    moment: datetime


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """``pauses`` and ``ticks`` are those that have room to be read; ``ticks`` leaves out the ends."""

    places: Sequence[Place]
    pauses: Sequence[Label]
    ticks: Sequence[Tick]
    is_timed: bool


def axis(moments: Sequence[datetime]) -> TimeAxis:
    """The axis of messages sent at these moments, oldest first."""
    gaps = [timedelta(0), *(max(later - earlier, timedelta(0)) for earlier, later in pairwise(moments))][: len(moments)]
    is_timed = len(moments) <= MOST_TIMED
    places = _places(gaps, _rooms(gaps) if is_timed else [0.0] * len(gaps))
    return TimeAxis(places, _labels(places, gaps), _ticks(places, moments), is_timed)


def pause_words(gap: timedelta) -> str:
    """``3 h``, ``2 d``, ``5 mo``, ``2 y``."""
    hours, days = round(gap / timedelta(hours=1)), round(gap / timedelta(days=1))
    if hours < 24:
        return _("%(n)d h") % {"n": hours}
    if days < 60:
        return _("%(n)d d") % {"n": days}
    if days < 730:
        return _("%(n)d mo") % {"n": round(days / 30.44)}
    return _("%(n)d y") % {"n": round(days / 365.25)}


def _rooms(gaps: Sequence[timedelta]) -> list[float]:
    """The room of each pause in messages; together never more than the messages themselves take."""
    rooms = [log2(1 + gap / UNIT) for gap in gaps]
    scale = min(1.0, len(gaps) / (sum(rooms) or 1.0))
    return [room * scale for room in rooms]


def _places(gaps: Sequence[timedelta], rooms: Sequence[float]) -> list[Place]:
    one = WIDTH / ((len(rooms) + sum(rooms)) or 1.0)
    ends = accumulate((one * (1 + room) for room in rooms), initial=0.0)
    return [
        Place(start, start + one * room / 2, start + one * room, end, pause_words(gap) if gap >= PAUSE else "")
        for (start, end), room, gap in zip(pairwise(ends), rooms, gaps, strict=True)
    ]


def _labels(places: Sequence[Place], gaps: Sequence[timedelta]) -> list[Label]:
    """The labels of pauses; of two that are too near to each other the longer pause keeps its label."""
    shown: list[Label] = []
    for place, _gap in sorted(zip(places, gaps, strict=True), key=lambda pair: pair[1], reverse=True):
        if place.pause and all(abs(place.border - label.at) >= LABEL_ROOM for label in shown):
            shown.append(Label(place.border, place.pause))
    return sorted(shown, key=lambda label: label.at)


def _ticks(places: Sequence[Place], moments: Sequence[datetime]) -> list[Tick]:
    """The days on which messages resume after a pause, as far as their dates have room."""
    shown: list[Tick] = []
    last = 0.0
    for place, moment in zip(places, moments, strict=True):
        if place.pause and last + TICK_ROOM <= place.bar <= WIDTH - TICK_ROOM:
            shown.append(Tick(place.bar, moment))
            last = place.bar
    return shown


# A topic's messages as a strip of thin bars over time, each of which leads to its message.

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


def marks(topic: Topic, shown: Sequence[Message]) -> list[dict[str, Any]]:
    """A bar for each message, or in a long topic for the longest of a few that follow each other; one query."""
    messages = Message.objects.of(topic.owner_id).filter(topicmessage__topic=topic).in_order()
    columns = messages.values_list("pk", "sent_at", "role", "author", Length("text"), Left("text", 2 * OPENING_CHARS))
    rows = [_MarkedMessage(*row) for row in columns]
    step = -(-len(rows) // MOST_MARKS) or 1
    rows = [max(rows[start : start + step], key=lambda row: row.size) for start in range(0, len(rows), step)]
    if len(rows) < 2:
        return []
    places = axis([row.sent_at for row in rows]).places
    longest = max(row.size for row in rows) or 1
    here = {message.pk for message in shown}
    return [_mark(row, place, longest, row.id in here) for row, place in zip(rows, places, strict=True)]


def _mark(row: _MarkedMessage, place: Place, longest: int, is_here: bool) -> dict[str, Any]:
    """A bar in per cent of the strip; ``is_here`` when the page shown has the message."""
    # A square root, for the longest message would make all others flat.
    height = max(12.0, HEIGHT * (row.size / longest) ** 0.5)
    room = place.end - place.bar
    when = date_format(timezone.localtime(row.sent_at), _("j M Y, H:i"))
    who = row.author or dict(Message.Author.choices).get(row.role, row.role)
    return {
        "message": row.id,
        "left": place.bar + room * (1 - FILLED) / 2,
        "width": room * FILLED,
        "top": HEIGHT - height,
        "height": height,
        "role": row.role,
        "label": f"{when} {who}: {line(row.opening)[:OPENING_CHARS]}",
        "is_here": is_here,
    }
