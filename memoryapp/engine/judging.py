"""How the embedded scorer judges topics it has read, without any model.

Each topic gets a chance that it holds an answer, from what search said of it (the shown score) and from
the words of its messages; then as many of the best are kept as promise the highest F1. Nothing else is
known here: the scorer stands where a remote model stands, and sees what that would see.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from memoryapp.engine.lexical import B, K1, idf, stems
from memoryapp.engine.scoring import fused_score

# A message and its neighbours are one thought: question, answer, reaction.
_AROUND = 1
# What another person says about the one asked for counts this much of what the person says.
_OTHER_VOICE = 0.6


@dataclass(frozen=True, slots=True)
class Said:
    """A message as it was read: ``whole`` with its head, as an excerpt quotes it."""

    author: str
    text: str
    whole: str


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic that was read, with the score it was shown with."""

    id: str
    score: float
    messages: tuple[Said, ...]


@dataclass(frozen=True, slots=True)
class Judged:
    """A topic with its ``chance`` in (0, 1), the stems it shares with the query, the best first, and its
    messages that share any, the best first."""

    topic: Topic
    chance: float
    shared: tuple[str, ...]
    telling: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Weights:
    """The query's stems with their idf over all messages read, and the average message's length."""

    idf: Mapping[str, float]
    length: float

    def weigh(self, counts: Mapping[str, int], length: int, messages: int = 1) -> float:
        damping = K1 * (1 - B + B * length / (self.length * messages))
        return sum(rare * n / (n + damping) for term, rare in self.idf.items() if (n := counts.get(term, 0)))


@dataclass(frozen=True, slots=True)
class _Signals:
    fused: float
    coverage: float
    voice: float
    window: float


def judge(query: str, topics: Sequence[Topic]) -> list[Judged]:
    """All ``topics``, the likeliest first; ties keep their order."""
    counts = {topic.id: [Counter(stems(said.text)) for said in topic.messages] for topic in topics}
    weights = _weights(list(dict.fromkeys(stems(query))), [c for listed in counts.values() for c in listed])
    signals = [_signals(topic, counts[topic.id], weights, set(stems(query))) for topic in topics]
    judged = [
        _judged(topic, counts[topic.id], weights, chance)
        for topic, chance in zip(topics, _chances(signals), strict=True)
    ]
    return sorted(judged, key=lambda found: -found.chance)


def _weights(terms: Sequence[str], messages: Sequence[Counter[str]]) -> _Weights:
    holding = Counter(term for counts in messages for term in terms if term in counts)
    mean = sum(counts.total() for counts in messages) / max(len(messages), 1)
    return _Weights({term: idf(len(messages), holding[term]) for term in terms}, max(mean, 1.0))


def _signals(topic: Topic, counts: Sequence[Counter[str]], weights: _Weights, terms: Collection[str]) -> _Signals:
    every = sum(counts, Counter[str]())
    whole = sum(weights.idf.values()) or 1.0
    named = [bool(_names(said.author) & set(terms)) for said in topic.messages]
    alone = [weights.weigh(c, c.total()) for c in counts]
    return _Signals(
        fused=fused_score(topic.score),
        coverage=sum(rare for term, rare in weights.idf.items() if term in every) / whole,
        voice=max((w if own else w * _OTHER_VOICE for w, own in zip(alone, named, strict=True)), default=0.0),
        window=max((_window(counts, at, weights) for at in range(len(counts))), default=0.0),
    )


def _names(author: str) -> set[str]:
    return set(stems(author))


def _window(counts: Sequence[Counter[str]], at: int, weights: _Weights) -> float:
    around = sum(counts[max(0, at - _AROUND) : at + _AROUND + 1], Counter[str]())
    return weights.weigh(around, around.total(), 2 * _AROUND + 1)


def _chances(signals):
    raise NotImplementedError


def _judged(topic: Topic, counts: Sequence[Counter[str]], weights: _Weights, chance: float) -> Judged:
    raise NotImplementedError
