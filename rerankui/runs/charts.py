"""Pictures of runs, drawn by the server; each says the same as the table behind it."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from math import ceil, exp, floor, log, log10
from operator import attrgetter
from statistics import median, quantiles
from typing import Any
from zlib import crc32

from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from memoryapp.engine.candidates import Candidate
from memoryapp.engine.events import CandidatesFound, Event, RunFinished
from memoryapp.engine.memory import parse_topic_id
from memoryapp.insight.browsing.usage import STAGES, Cost, RunTimes, stages
from memoryapp.insight.compare.comparison import SHOWN
from memoryapp.models import Run

# The rank river of a run: where each candidate stood at every stage, and after which one it was lost.
#
# A column is a stage, and contains the topics that reached it in the order that it gave them. A topic is a line
# through its columns.

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
class RiverLine:
    """A topic: its rank at each stage of the picture, None where it did not come, and its line through them. ``points``
    are the places where it stood, in the picture's units. ``state`` is what became of it in the end."""

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


def river(events: Sequence[Event], handed_over: str, used: Sequence[str]) -> dict[str, Any] | None:
    """The topics that a run was shown or chose; None where its search found nothing. ``handed_over`` is the text of the
    topics in its context, ``used`` the ids that the assistant's answer used. ``lines`` are drawn in this order, so that
    what was chosen lies above the rest; ``rows`` are those of the table, best first. ``below`` counts topics that were
    ranked and neither shown nor chosen."""
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
    return {
        "stages": [
            {"name": name, "words": STAGE_NAMES[name], "x": xs[name], "count": len(order)}
            for name, order in orders.items()
        ],
        "lines": drawn,
        "rows": lines,
        "below": len(ranked) - len(topics),
        "width": WIDTH,
        "height": TOP + ROW * max(map(len, orders.values())) + ROW,
    }


def states_of(events: Iterable[Event]) -> dict[str, str]:
    """What became of each topic in the end, by the last mark that it got."""
    return {id: state for event in events for id, state in event.marks().items()}


def _read(events: Iterable[Event]) -> list[str]:
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


# How the scores of a run's candidates are spread, and where those stand that were read and chosen.

BINS_WIDTH, HEIGHT, BASE = 320, 132, 112
_BINS = 24
# What became of a topic in the end, from the ground up; ``below`` was ranked and not shown.
GROUPS: Mapping[str, str | Promise] = {
    "below": pgettext_lazy("candidates", "below"),
    "shown": pgettext_lazy("candidate", "not opened"),
    "read": pgettext_lazy("candidate", "read"),
    "dropped": pgettext_lazy("candidate", "read, not chosen"),
    "chosen": pgettext_lazy("candidate", "chosen"),
}
_GROUP_OF = {"chosen": "chosen", "instead": "chosen", "read": "read", "requested": "read", "dropped": "dropped"}
_MEASURES: Mapping[str, tuple[str | Promise, Callable[[Candidate], float]]] = {
    "cosine": (_("Similarity in meaning (cosine)"), attrgetter("cosine")),
    "bm25": (_("Words in common (BM25)"), attrgetter("bm25")),
    "fused": (_("Both together: what it was ranked by"), attrgetter("fused")),
}


def spreads(ranked: Sequence[Candidate], states: Mapping[str, str]) -> list[dict[str, Any]]:
    """One for each kind of score that tells the candidates apart; ``low`` and ``high`` are the ends of the axis."""
    groups = {topic.id: _group(topic, states) for topic in ranked}
    found = []
    for name, (words, score_of) in _MEASURES.items():
        scores = {topic.id: score_of(topic) for topic in ranked if score_of(topic) == score_of(topic)}
        if len(set(scores.values())) > 1:
            low, high = min(scores.values()), max(scores.values())
            counted = {group: [0] * _BINS for group in GROUPS}
            for id, score in scores.items():
                counted[groups[id]][min(int((score - low) / (high - low) * _BINS), _BINS - 1)] += 1
            most = max(map(sum, zip(*counted.values(), strict=True)))
            bars = [bar for place in range(_BINS) for bar in _bars(place, counted, most, low, high)]
            found.append(
                {
                    "name": name,
                    "words": words,
                    "low": low,
                    "high": high,
                    "bars": bars,
                    "groups": _groups(scores, groups),
                    "width": BINS_WIDTH,
                    "height": HEIGHT,
                    "base": BASE,
                }
            )
    return found


def _group(topic: Candidate, states: Mapping[str, str]) -> str:
    return _GROUP_OF.get(states.get(topic.id, ""), "shown" if topic.shown else "below")


def _bars(place: int, counted: Mapping[str, Sequence[int]], most: int, low: float, high: float) -> list[dict[str, Any]]:
    """The bars of one bin, standing on each other: the candidates of a group whose scores are between ``low`` and
    ``high``, in the picture's units."""
    made, base, step = [], float(BASE), (high - low) / _BINS
    at = {"x": round(place * BINS_WIDTH / _BINS, 1), "width": round(BINS_WIDTH / _BINS - 1, 1)}
    at |= {"low": low + step * place, "high": low + step * (place + 1)}
    for group, counts in counted.items():
        if counts[place]:
            height = round(counts[place] / most * (BASE - 8), 1)
            base -= height
            bar = {"group": group, "words": GROUPS[group], "count": counts[place], "y": round(base, 1)}
            made.append({**bar, **at, "height": height})
    return made


def _groups(scores: Mapping[str, float], groups: Mapping[str, str]) -> list[dict[str, Any]]:
    listed = {name: sorted(score for id, score in scores.items() if groups[id] == name) for name in GROUPS}
    return [
        {
            "name": name,
            "words": GROUPS[name],
            "count": len(own),
            "lowest": own[0],
            "middle": median(own),
            "highest": own[-1],
        }
        for name, own in reversed(listed.items())
        if own
    ]


# The times of each stage over many runs: a point a run on one axis, and those that took unusually long by name.

STRIPS_WIDTH, STRIP_HEIGHT = 1000, 56
_STRIPS_LEFT, _STRIPS_RIGHT = 10, 10
_LEAST = 0.0005
# Of one stage; the longest of them.
MOST_OUTLIERS = 8
# Fewer runs show no usual time that another could be far from.
_ENOUGH = 8
NAMES: Mapping[str, str | Promise] = {
    "enrich": pgettext_lazy("stage", "enrich"),
    "search": pgettext_lazy("stage", "search"),
    "turn": pgettext_lazy("stage", "turns of the model"),
    "rest": pgettext_lazy("stage", "everything else"),
    "whole": pgettext_lazy("stage", "the whole run"),
}


@dataclass(frozen=True, slots=True)
class StagePoint:
    """A run's time of one stage: its place in the picture, and the run."""

    run: Run
    seconds: float
    x: float
    y: float


def stage_strips(runs: Sequence[RunTimes]) -> dict[str, Any] | None:
    """All stages on one axis, whose ``ticks`` are powers of ten with their places."""
    found = {stage: [(each.run, each.seconds[stage]) for each in runs if stage in each.seconds] for stage in STAGES}
    found = {stage: times for stage, times in found.items() if any(seconds >= _LEAST for _run, seconds in times)}
    if not found:
        return None
    every = [max(seconds, _LEAST) for times in found.values() for _run, seconds in times]
    low, high = floor(log10(min(every))), max(ceil(log10(max(every))), floor(log10(min(every))) + 1)
    axis = _Axis(low, high)
    ticks = [(10.0**power, axis.x(10.0**power)) for power in range(low, high + 1)]
    return {
        "strips": [_strip(stage, times, axis) for stage, times in found.items()],
        "ticks": ticks,
        "width": STRIPS_WIDTH,
    }


@dataclass(frozen=True, slots=True)
class _Axis:
    low: int
    high: int

    def x(self, seconds: float) -> float:
        share = (log10(max(seconds, _LEAST)) - self.low) / (self.high - self.low)
        return round(_STRIPS_LEFT + max(share, 0.0) * (STRIPS_WIDTH - _STRIPS_LEFT - _STRIPS_RIGHT), 1)


def _strip(stage: str, times: Sequence[tuple[Run, float]], axis: _Axis) -> dict[str, Any]:
    """``points`` are ordinary runs, ``outliers`` those far from what is usual there, longest first. ``box`` is where
    the middle half of the runs lies, as x and width."""
    seconds = sorted(taken for _run, taken in times)
    cuts = quantiles(seconds, n=100, method="inclusive") if len(seconds) > 1 else [seconds[0]] * 99
    edge = _edge(cuts[24], cuts[49], cuts[74]) if len(seconds) >= _ENOUGH else float("inf")
    # Each run has its own height, so that equal times do not hide each other.
    places = [StagePoint(run, took, axis.x(took), 8 + crc32(run.pk.bytes) % (STRIP_HEIGHT - 16)) for run, took in times]
    far = sorted((point for point in places if point.seconds > edge), key=lambda point: -point.seconds)
    outliers = far[:MOST_OUTLIERS]
    named = {point.run.pk for point in outliers}
    start, end = axis.x(cuts[24]), axis.x(cuts[74])
    return {
        "name": stage,
        "words": NAMES[stage],
        "points": [point for point in places if point.run.pk not in named],
        "outliers": outliers,
        "count": len(places),
        "median": cuts[49],
        "p95": cuts[94],
        "longest": seconds[-1],
        "box": (start, max(round(end - start, 1), 2.0)),
        "median_x": axis.x(cuts[49]),
        "p95_x": axis.x(cuts[94]),
        "height": STRIP_HEIGHT,
    }


def _edge(low: float, middle: float, high: float) -> float:
    """From here on a time is unusual: Tukey's fence on the axis as drawn, and at least twice the median."""
    lower, upper = log(max(low, _LEAST)), log(max(high, _LEAST))
    return max(exp(upper + 1.5 * (upper - lower)), 2 * middle)


# What each day cost, by stage, as bars.

BAR_HEIGHT, STEP = 96, 10


def cost_bars(costs: Sequence[Cost], today: date, days: int) -> dict[str, Any]:
    """Days, oldest first; ``stages`` are those that cost anything, and ``total`` is of all days, in dollars. ``costs``
    are days that cost anything, in any order; the others are empty in the picture."""
    by_day = {cost.day: cost for cost in costs}
    most = max((cost.total for cost in costs), default=0.0)
    calendar = [today - timedelta(days=back) for back in reversed(range(days))]
    bars = [_day(place, day, by_day.get(day), most) for place, day in enumerate(calendar)]
    paid = [stage for place, stage in enumerate(stages()) if any(cost.dollars[place] for cost in costs)]
    sums = {"total": sum(cost.total for cost in costs), "most": most}
    return {"days": bars, "stages": paid, **sums, "height": BAR_HEIGHT, "width": len(bars) * STEP}


def _day(place: int, day: date, cost: Cost | None, most: float) -> dict[str, Any]:
    """A day's bar; each of its ``parts`` is a stage with top and height, in the picture's units."""
    parts, base = [], float(BAR_HEIGHT)
    for stage, dollars in cost.named if cost else ():
        if dollars:
            height = max(round(dollars / most * (BAR_HEIGHT - 4), 1), 0.5)
            base -= height
            parts.append((stage, round(base, 1), height))
    return {"day": day, "total": cost.total if cost else 0.0, "x": place * STEP, "parts": parts, "width": STEP}
