"""The split canvas: a topic's messages as bars on a time axis, divided into parts. The height of a bar is the length of
its message, its colour the part it belongs to; a dashed line is a pause of hours. Each bar is a link that cuts before
its message or removes that cut, so the canvas works with mouse, keyboard and without scripts."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any, NamedTuple

from django.conf import settings
from django.db.models.functions import Left, Length
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext as _

from memoryapp.curation import Change
from memoryapp.insight.browsing.comparison import SLICES, TopicColumn
from memoryapp.models import ChatUser, Message, Topic
from memoryapp.search.neighbours import Neighbour
from rerankui.text.markdown import line
from rerankui.text.time_axis import TimeAxis

MOST_BARS = 600
COLOURS = 6
# The share of its room that a bar fills.
FILLED = 0.8
HEIGHT = 100
OPENING_CHARS = 120


def cuts_among(messages: Sequence[Message], asked: Collection[int]) -> list[int]:
    """The requested cuts inside the topic, in order; one before the first message is ignored."""
    return [message.pk for message in messages[1:] if message.pk in asked]


def stretches(messages: Sequence[Message], cuts: Collection[int]) -> list[Sequence[Message]]:
    borders = [0, *(place for place, message in enumerate(messages) if message.pk in cuts), len(messages)]
    return [messages[start:end] for start, end in pairwise(borders) if end > start]


def bars(messages: Sequence[Message], cuts: Collection[int], axis: TimeAxis) -> list[dict[str, Any]]:
    """One bar for each message, at its place on the axis; none for a topic with too many to distinguish. The area to
    click is ``room`` wide from ``start``, the visible bar ``width`` wide from ``left``; ``height`` is out of 100, a cut
    or a pause is drawn at ``border``. ``cuts`` are the cuts with this one added or removed."""
    if len(messages) > MOST_BARS:
        return []
    longest = max((len(message.text) for message in messages), default=0) or 1
    made, part = [], 0
    for message, place in zip(messages, axis.places, strict=True):
        is_cut = message.pk in cuts
        part += is_cut
        # A square root; otherwise the longest message would make all others flat.
        height = max(4.0, HEIGHT * (len(message.text) / longest) ** 0.5)
        unit = place.end - place.bar
        made.append(
            {
                "message": message.pk,
                "start": place.start,
                "room": place.end - place.start,
                "left": place.bar + unit * (1 - FILLED) / 2,
                "width": unit * FILLED,
                "border": place.border,
                "top": HEIGHT - height,
                "height": height,
                "part": part % COLOURS,
                "is_cut": is_cut,
                "after_pause": bool(place.pause),
                "label": _label(message),
                "cuts": joined([cut for cut in cuts if cut != message.pk] if is_cut else [*cuts, message.pk]),
            }
        )
    return made


def _label(message: Message) -> str:
    """Time, author and beginning of the message, for a pointer over a bar."""
    who = message.author or message.get_role_display()
    time_text = date_format(timezone.localtime(message.sent_at), _("j M Y, H:i"))
    return f"{time_text} {who}: {line(message.text)[:OPENING_CHARS]}"


def parts(
    messages: Sequence[Message],
    cuts: Sequence[int],
    summaries: Mapping[int, str],
    near: Mapping[int, Sequence[Neighbour]],
) -> list[dict[str, Any]]:
    places = {message.pk: place for place, message in enumerate(messages)}
    made = []
    for number, stretch in enumerate(stretches(messages, cuts)):
        first = stretch[0].pk
        moves = _moves(messages, cuts, places[first])
        made.append(_part(number, stretch, summaries.get(first, ""), near.get(first, ()), moves))
    return made


def _part(
    number: int, stretch: Sequence[Message], summary: str, near: Sequence[Neighbour], moves: tuple[str, str, str]
) -> dict[str, Any]:
    opening = next((line(message.text) for message in stretch if message.text.strip()), "")
    without, earlier, later = moves
    return {
        "number": number,
        "colour": number % COLOURS,
        "first": stretch[0].pk,
        "last": stretch[-1].pk,
        "count": len(stretch),
        "size_chars": sum(len(message.text) for message in stretch),
        "started_at": stretch[0].sent_at,
        "ended_at": stretch[-1].sent_at,
        "opening": opening[: 2 * OPENING_CHARS],
        "summary": summary,
        "near": near,
        "without": without,
        "earlier": earlier,
        "later": later,
    }


def _moves(messages: Sequence[Message], cuts: Sequence[int], place: int) -> tuple[str, str, str]:
    """The cuts without the one at this place, and with it a message earlier and later; empty where it is fixed."""
    if place == 0:
        return "", "", ""
    rest = [cut for cut in cuts if cut != messages[place].pk]
    beside = [messages[place + step].pk if 0 < place + step < len(messages) else None for step in (-1, 1)]
    moved = [joined([*rest, number]) if number and number not in rest else "" for number in beside]
    return joined(rest), moved[0], moved[1]


def joined(cuts: Sequence[int]) -> str:
    """``none`` where there is no cut, so that an address can say so."""
    return ",".join(map(str, cuts)) or "none"


# The times of topics on one axis, as bars to draw.

WIDTH = 960
OVERLAP_HEIGHT = 24
_SLICE = WIDTH / SLICES


def strips(columns: Sequence[TopicColumn]) -> tuple[dict[str, Any], ...]:
    """One for each topic, their bars on one scale: the first message at ``x``, and the number of messages between as
    ``bars``, left, top and height."""
    most = max((count for column in columns for count in column.slices), default=1) or 1
    return tuple(_strip(column, most) for column in columns)


def _strip(column: TopicColumn, most: int) -> dict[str, Any]:
    filled = [place for place, count in enumerate(column.slices) if count]
    first, last = (filled[0], filled[-1]) if filled else (0, 0)
    heights = [round(4 + (OVERLAP_HEIGHT - 4) * column.slices[place] / most, 1) for place in filled]
    bars = tuple(
        (round(place * _SLICE, 1), round(OVERLAP_HEIGHT - height, 1), height)
        for place, height in zip(filled, heights, strict=True)
    )
    return {
        "column": column,
        "x": round(first * _SLICE, 1),
        "width": round((last - first + 1) * _SLICE, 1),
        "bars": bars,
        "bar": round(_SLICE - 1, 1),
    }


# A change shown in numbers: today's topics, and those that would replace them.
#
# One query for the messages of all topics; of texts only the beginnings are read.

CHANGED_OPENING_CHARS = 160
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


def sides(owner: ChatUser, change: Change) -> dict[str, Any]:
    """``change`` as it was planned; its topics are live. Each is today's with its ``number``, or a planned one."""
    topics = Topic.objects.of(owner).in_bulk(list(change.out))
    messages = _message_rows(owner, change.out)
    by_topic = {number: [row for row in messages.values() if row.topic == number] for number in change.out}
    before = [
        _side(topics[number].summary, rows, number, topics[number].locked_by_hand)
        for number, rows in by_topic.items()
        if rows
    ]
    after = [_side(draft.summary, [messages[number] for number in draft.messages]) for draft in change.put]
    return {"before": tuple(before), "after": tuple(after)}


def _message_rows(owner: ChatUser, topics: Sequence[int]) -> dict[int, _MessageRow]:
    rows = Message.objects.of(owner).filter(topic__in=topics).in_order()
    columns = rows.values_list(
        "pk", "topic", "sent_at", Length("text"), "author", "role", Left("text", CHANGED_OPENING_CHARS)
    )
    return {row[0]: _MessageRow(*row) for row in columns}


def _side(summary: str, rows: Iterable[_MessageRow], pk: int | None = None, is_by_hand: bool = False) -> dict[str, Any]:
    ordered = sorted(rows, key=lambda row: (row.sent_at, row.id))
    people = Counter(row.author for row in ordered if row.author and row.role != "assistant")
    size = sum(row.size for row in ordered)
    return {
        "number": pk,
        "summary": summary,
        "started_at": ordered[0].sent_at,
        "ended_at": ordered[-1].sent_at,
        "count": len(ordered),
        "size_chars": size,
        # The speakers, those with most messages first.
        "people": tuple(name for name, _n in people.most_common(MOST_PEOPLE)),
        "opening": next((line(row.opening) for row in ordered if row.opening.strip()), ""),
        # How many messages come from which of today's topics.
        "shares": tuple(Counter(row.topic for row in ordered).most_common()),
        "is_by_hand": is_by_hand,
        # Whether archiving would have divided it because of its size.
        "is_large": size > settings.SPLIT_THRESHOLD_CHARS,
    }
