"""The split canvas: a topic's messages as bars on a time axis, divided into parts.

The height of a bar is the length of its message, its colour the part it belongs to; a dashed line is a pause of hours.
Each bar is a link that cuts before its message or removes that cut, so the canvas works with mouse, keyboard and
without scripts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext as _

from memoryapp.browsing.neighbours import Neighbour
from memoryapp.models import Message
from rerankui.text.prose import line
from rerankui.text.time_axis import TimeAxis

MOST_BARS = 600
COLOURS = 6
# The share of its room that a bar fills.
FILLED = 0.8
HEIGHT = 100
OPENING_CHARS = 120


@dataclass(frozen=True, slots=True)
class MessageBar:
    """One message. The area to click is ``room`` wide from ``start``, the visible bar ``width`` wide from ``left``.

    ``height`` is out of 100; a cut or a pause is drawn at ``border``. ``cuts`` is the list of cuts with this one added
    or removed.
    """

    message: int
    start: float
    room: float
    left: float
    width: float
    border: float
    top: float
    height: float
    part: int
    is_cut: bool
    after_pause: bool
    label: str
    cuts: str


@dataclass(frozen=True, slots=True)
class CanvasPart:
    """A part that would become a topic; ``near`` are similar topics.

    ``earlier`` and ``later`` are the cuts with the beginning of this part moved by one message.
    """

    number: int
    colour: int
    first: int
    last: int
    count: int
    size_chars: int
    started_at: datetime
    ended_at: datetime
    opening: str
    summary: str
    near: Sequence[Neighbour]
    without: str
    earlier: str
    later: str


def cuts_among(messages: Sequence[Message], asked: Collection[int]) -> list[int]:
    """The requested cuts inside the topic, in order; one before the first message is ignored."""
    return [message.pk for message in messages[1:] if message.pk in asked]


def stretches(messages: Sequence[Message], cuts: Collection[int]) -> list[Sequence[Message]]:
    borders = [0, *(place for place, message in enumerate(messages) if message.pk in cuts), len(messages)]
    return [messages[start:end] for start, end in pairwise(borders) if end > start]


def bars(messages: Sequence[Message], cuts: Collection[int], axis: TimeAxis) -> list[MessageBar]:
    """One bar for each message, at its place on the axis; none for a topic with too many to distinguish."""
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
            MessageBar(
                message=message.pk,
                start=place.start,
                room=place.end - place.start,
                left=place.bar + unit * (1 - FILLED) / 2,
                width=unit * FILLED,
                border=place.border,
                top=HEIGHT - height,
                height=height,
                part=part % COLOURS,
                is_cut=is_cut,
                after_pause=bool(place.pause),
                label=_label(message),
                cuts=joined([cut for cut in cuts if cut != message.pk] if is_cut else [*cuts, message.pk]),
            )
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
) -> list[CanvasPart]:
    """``summaries`` and ``near`` by the parts' first messages."""
    places = {message.pk: place for place, message in enumerate(messages)}
    made = []
    for number, stretch in enumerate(stretches(messages, cuts)):
        first = stretch[0].pk
        moves = _moves(messages, cuts, places[first])
        made.append(_part(number, stretch, summaries.get(first, ""), near.get(first, ()), moves))
    return made


def _part(
    number: int, stretch: Sequence[Message], summary: str, near: Sequence[Neighbour], moves: tuple[str, str, str]
) -> CanvasPart:
    opening = next((line(message.text) for message in stretch if message.text.strip()), "")
    without, earlier, later = moves
    return CanvasPart(
        number=number,
        colour=number % COLOURS,
        first=stretch[0].pk,
        last=stretch[-1].pk,
        count=len(stretch),
        size_chars=sum(len(message.text) for message in stretch),
        started_at=stretch[0].sent_at,
        ended_at=stretch[-1].sent_at,
        opening=opening[: 2 * OPENING_CHARS],
        summary=summary,
        near=near,
        without=without,
        earlier=earlier,
        later=later,
    )


def _moves(messages: Sequence[Message], cuts: Sequence[int], place: int) -> tuple[str, str, str]:
    """The cuts without the one at this place, and with it one message earlier and later; empty where it cannot be
    moved."""
    if place == 0:
        return "", "", ""
    rest = [cut for cut in cuts if cut != messages[place].pk]
    beside = [messages[place + step].pk if 0 < place + step < len(messages) else None for step in (-1, 1)]
    moved = [joined([*rest, number]) if number and number not in rest else "" for number in beside]
    return joined(rest), moved[0], moved[1]


def joined(cuts: Sequence[int]) -> str:
    """``none`` where there is no cut, so that an address can say so."""
    return ",".join(map(str, cuts)) or "none"
