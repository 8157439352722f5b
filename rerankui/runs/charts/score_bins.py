"""How the scores of a run's candidates are spread, and where those stand that were read and chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from statistics import median

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from memoryapp.engine.candidates import Candidate

WIDTH, HEIGHT, BASE = 320, 132, 112
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


@dataclass(frozen=True, slots=True)
class ScoreBar:
    """The candidates of one ``group`` whose scores are between ``low`` and ``high``, in the picture's units."""

    group: str
    words: str | Promise
    count: int
    low: float
    high: float
    x: float
    y: float
    height: float
    width: float = round(WIDTH / _BINS - 1, 1)


@dataclass(frozen=True, slots=True)
class GroupScores:
    """The lowest, the middle and the highest score of the candidates of which the same became."""

    name: str
    words: str | Promise
    count: int
    lowest: float
    middle: float
    highest: float


@dataclass(frozen=True, slots=True)
class ScoreSpread:
    """One kind of score: its bars, and the same as numbers. ``low`` and ``high`` are the ends of the axis."""

    name: str
    words: str | Promise
    low: float
    high: float
    bars: Sequence[ScoreBar]
    groups: Sequence[GroupScores]
    width: int = WIDTH
    height: int = HEIGHT
    base: int = BASE


def spreads(ranked: Sequence[Candidate], states: Mapping[str, str]) -> list[ScoreSpread]:
    """One for each kind of score that tells the candidates apart."""
    groups = {topic.id: _group(topic, states) for topic in ranked}
    found = []
    for name, (words, score_of) in _MEASURES.items():
        scores = {topic.id: score_of(topic) for topic in ranked if score_of(topic) == score_of(topic)}
        if len(set(scores.values())) > 1:
            found.append(_spread(name, words, scores, groups))
    return found


def _group(topic: Candidate, states: Mapping[str, str]) -> str:
    return _GROUP_OF.get(states.get(topic.id, ""), "shown" if topic.shown else "below")


def _spread(name: str, words: str | Promise, scores: Mapping[str, float], groups: Mapping[str, str]) -> ScoreSpread:
    low, high = min(scores.values()), max(scores.values())
    counted = {group: [0] * _BINS for group in GROUPS}
    for id, score in scores.items():
        counted[groups[id]][min(int((score - low) / (high - low) * _BINS), _BINS - 1)] += 1
    most = max(map(sum, zip(*counted.values(), strict=True)))
    bars = [bar for place in range(_BINS) for bar in _bars(place, counted, most, low, high)]
    return ScoreSpread(name, words, low, high, bars, _groups(scores, groups))


def _bars(place: int, counted: Mapping[str, Sequence[int]], most: int, low: float, high: float) -> list[ScoreBar]:
    """The bars of one bin, standing on each other."""
    made, base, step = [], float(BASE), (high - low) / _BINS
    for group, counts in counted.items():
        if counts[place]:
            height = round(counts[place] / most * (BASE - 8), 1)
            base -= height
            edges = low + step * place, low + step * (place + 1)
            x = round(place * WIDTH / _BINS, 1)
            made.append(ScoreBar(group, GROUPS[group], counts[place], *edges, x, round(base, 1), height))
    return made


def _groups(scores: Mapping[str, float], groups: Mapping[str, str]) -> list[GroupScores]:
    listed = {name: sorted(score for id, score in scores.items() if groups[id] == name) for name in GROUPS}
    return [
        GroupScores(name, GROUPS[name], len(own), own[0], median(own), own[-1])
        for name, own in reversed(listed.items())
        if own
    ]
