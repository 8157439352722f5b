"""The rank river of a run: where each candidate stood at every stage, and after which one it was lost.

A column is a stage, and contains the topics that reached it in the order that it gave them. A topic is a line through
its columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import pgettext_lazy

from memoryapp.compare.states import SHOWN
from memoryapp.engine.candidates import Candidate
from memoryapp.engine.events import CandidatesFound, Event, RunFinished
from memoryapp.engine.memory import parse_topic_id

WIDTH, TOP, ROW = 1000, 40, 18
_LEFT, _RIGHT = 56, 330
# A topic's name behind its line; the whole summary is in the table.
_LONGEST_NAME = 34
# A topic's head in the text that was handed over; no stored line looks like one.
_HEAD = re.compile(r"^\[((?:Topic|Session):\d{1,18})\b(.*)$", re.MULTILINE)
_WITHOUT_MESSAGES = re.compile(r"\| 0 of \d+ messages$")
STAGE_NAMES: Mapping[str, str | Promise] = {
    "meaning": pgettext_lazy("stage of the river", "by meaning"),
    "search": pgettext_lazy("stage of the river", "found"),
    "read": pgettext_lazy("stage of the river", "read"),
    "chosen": pgettext_lazy("stage of the river", "chosen"),
    "context": pgettext_lazy("stage of the river", "handed over"),
    "used": pgettext_lazy("stage of the river", "used"),
}


@dataclass(frozen=True, slots=True)
class RiverStage:
    """A column of ``count`` topics at ``x``."""

    name: str
    words: str | Promise
    x: float
    count: int


@dataclass(frozen=True, slots=True)
class RiverLine:
    """A topic: its rank at each stage of the picture, None where it did not come, and its line through them.

    ``points`` are the places where it stood, in the picture's units. ``state`` is what became of it in the end.
    """

    id: str
    summary: str
    state: str
    href: str
    ranks: Sequence[int | None]
    points: Sequence[tuple[float, float]]

    @property
    def path(self) -> str:
        """Curves between the points; a topic that came no further than its first stage is a short line."""
        (x, y), *others = self.points
        drawn = [f"M{x} {y}"] if others else [f"M{x} {y}h6"]
        for to_x, to_y in others:
            middle = round((x + to_x) / 2, 1)
            drawn.append(f"C{middle} {y} {middle} {to_y} {to_x} {to_y}")
            x, y = to_x, to_y
        return "".join(drawn)

    @property
    def end(self) -> tuple[float, float]:
        return self.points[-1]

    @property
    def start(self) -> tuple[float, float]:
        return self.points[0]

    @property
    def first_rank(self) -> int | None:
        return next((rank for rank in self.ranks if rank is not None), None)

    @property
    def is_named(self) -> bool:
        """Whether its name stands at its end: of those that came further than the search."""
        return self.is_kept or self.state in ("read", "requested", "dropped")

    @property
    def is_kept(self) -> bool:
        return self.state in ("chosen", "instead")

    @property
    def name(self) -> str:
        line = " ".join(self.summary.split())
        return line if len(line) <= _LONGEST_NAME else f"{line[:_LONGEST_NAME].rstrip()}…"


@dataclass(frozen=True, slots=True)
class RankRiver:
    """``lines`` are drawn in this order, so that what was chosen lies above the rest; ``rows`` are those of the table,
    best first. ``below`` counts topics that were ranked and neither shown nor chosen."""

    stages: Sequence[RiverStage]
    lines: Sequence[RiverLine]
    rows: Sequence[RiverLine]
    below: int
    width: int = WIDTH

    @property
    def height(self) -> int:
        return TOP + ROW * max(stage.count for stage in self.stages) + ROW


def river(events: Sequence[Event], handed_over: str, used: Sequence[str]) -> RankRiver | None:
    """The topics that a run was shown or chose; None where its search found nothing.

    ``handed_over`` is the text of the topics in its context, ``used`` the ids that the assistant's answer used.
    """
    found = next((event for event in events if isinstance(event, CandidatesFound)), None)
    finished = events[-1] if isinstance(events[-1], RunFinished) else None
    chosen = [each.id for each in finished.selected] if finished else []
    ranked = found.candidates if found else ()
    topics = [each for each in ranked if each.shown or each.id in chosen]
    if not topics:
        return None
    states = states_of(events)
    entered = {id for id, head in _HEAD.findall(handed_over) if not _WITHOUT_MESSAGES.search(head)}
    orders = {
        "meaning": [each.id for each in sorted(topics, key=lambda each: each.vector_rank) if each.vector_rank],
        "search": [each.id for each in topics],
        "read": [id for id in _read(events) if id in {each.id for each in topics}],
        "chosen": chosen,
        "context": [id for id in chosen if id in entered],
        "used": [id for id in chosen if id in used],
    }
    orders = {name: order for name, order in orders.items() if order}
    lines = [_line(topic, states.get(topic.id, SHOWN), orders) for topic in topics]
    drawn = sorted(lines, key=lambda line: (line.is_kept, len(line.points)))
    xs = _columns(orders)
    stages = [RiverStage(name, STAGE_NAMES[name], xs[name], len(order)) for name, order in orders.items()]
    return RankRiver(stages, drawn, lines, len(ranked) - len(topics))


def states_of(events: Iterable[Event]) -> dict[str, str]:
    """What became of each topic in the end, by the last mark that it got."""
    return {id: state for event in events for id, state in event.marks().items()}


def _read(events: Iterable[Event]) -> list[str]:
    """The topics that were read, in the order of reading."""
    return list(dict.fromkeys(id for event in events for id, mark in event.marks().items() if mark == "read"))


def _columns(orders: Mapping[str, Sequence[str]]) -> dict[str, float]:
    step = (WIDTH - _LEFT - _RIGHT) / max(len(orders) - 1, 1)
    return {name: round(_LEFT + step * place, 1) for place, name in enumerate(orders)}


def _line(topic: Candidate, state: str, orders: Mapping[str, Sequence[str]]) -> RiverLine:
    xs = _columns(orders)
    places = {name: order.index(topic.id) for name, order in orders.items() if topic.id in order}
    true_ranks = {"meaning": topic.vector_rank, "search": topic.rank}
    ranks = [true_ranks.get(name, places[name] + 1) if name in places else None for name in orders]
    points = [(xs[name], float(TOP + ROW * place + ROW // 2)) for name, place in places.items()]
    number = parse_topic_id(topic.id)
    href = reverse("topic", args=[number]) if number and number > 0 else ""
    return RiverLine(topic.id, topic.summary, state, href, ranks, points)
