"""How the embedded scorer judges topics it has read, by words and by the shown score, without any model.

Each topic gets a chance that it holds the answer; then as many of the best are kept as promise the highest
F1. The scorer stands where a remote model stands and sees what that would see, no more.

Measured with conversations held out against each other, 760 questions over five public two-person
conversations, F1 on whole sessions / topics of ≤ 15 / ≤ 8 messages: the shown score alone .690/.667/.617,
with the words of the topics read .703/.681/.632, all fourteen signals that were tried .705/.684/.632. Of 40
questions about something else 79 % find nothing; so do 4 % of the answerable ones, which costs .007.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from memoryapp.engine.lexical import K1, B, Floats, idf, is_wide, stems
from memoryapp.engine.scoring import fused_score

# A message and its neighbours are one thought: question, answer, reaction.
AROUND = 1

# log-odds = bias + what each signal adds, by logistic regression on the questions named above. A lead is
# the distance to the best other topic; for all but the best it is negative.
_BIAS = -2.6
_FUSED = 0.26
_FUSED_LEAD = 0.18
_WORDS_LEAD = 0.41

# Nothing is relevant when few of the query's words occur together (by weight) and the best score stays
# below: what the nearest passage to a question about something else reaches by meaning alone, or with
# an accidental word.
_FEW_WORDS = 0.3
_NO_WORDS = 0.05
_LEAST_FUSED = 4.5
_LEAST_FUSED_WITH_WORDS = 6.0
# In another script meaning counts for words too, see ``scoring.FOREIGN_SHARE``.
_LEAST_FUSED_FOREIGN = 6.8

_MOST_CHOSEN = 4


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic and the score it was shown with; no messages when it was not read."""

    id: str
    score: float
    authors: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Judged:
    """A topic with its ``chance`` in (0, 1).

    ``shared`` are the query's stems it holds, the rarest first; ``together`` is the share of the query's
    words, by rarity, that its best three messages in a row hold; ``telling`` lists its messages by what
    they share with the query, the best first, those that share nothing left out. A ``foreign`` topic is
    written in another script than the query.
    """

    topic: Topic
    chance: float
    foreign: bool
    shared: tuple[str, ...]
    together: float
    telling: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Run:
    """Messages in a row: how often they hold each of the query's stems, how many stems they have in all."""

    counts: Mapping[str, int]
    stems: int
    messages: int = 1


@dataclass(frozen=True, slots=True)
class _Weights:
    """The query's stems with their idf over all messages read, and how many stems a message has on average."""

    idf: Mapping[str, float]
    stems: float

    def weigh(self, run: _Run) -> float:
        """BM25 of a run, as if it were one document among others as long."""
        damping = K1 * (1 - B + B * run.stems / (self.stems * max(run.messages, 1)))
        return sum(self.idf[term] * n / (n + damping) for term, n in run.counts.items())

    def covered(self, run: _Run) -> float:
        """The share of the query, by rarity, that a run holds."""
        whole = sum(self.idf.values())
        return sum(self.idf[term] for term in run.counts) / whole if whole else 0.0


def judge(query: str, topics: Sequence[Topic]) -> list[Judged]:
    """All ``topics``, the likeliest first; ties keep their order."""
    terms = _terms(query, topics)
    told = [[_one(text, terms) for text in topic.texts] for topic in topics]
    weights = _weights(terms, [run for runs in told for run in runs])
    words = np.array([weights.weigh(_joined(runs)) for runs in told], dtype=np.float64)
    fused = np.array([fused_score(topic.score) for topic in topics], dtype=np.float64)
    # A topic in another script could not share words: it is neither ahead nor behind for that.
    foreign = [bool(topic.texts) and is_wide(" ".join(topic.texts)) != is_wide(query) for topic in topics]
    ahead = np.where(foreign, 0.0, leads(words))
    odds = _BIAS + _FUSED * fused + _FUSED_LEAD * leads(fused) + _WORDS_LEAD * ahead
    judged = [
        _judged(topic, runs, weights, 1 / (1 + math.exp(-value)), other)
        for topic, runs, value, other in zip(topics, told, odds.tolist(), foreign, strict=True)
    ]
    return sorted(judged, key=lambda found: -found.chance)


def choose(judged: Sequence[Judged]) -> list[Judged]:
    """As many of the best as promise the highest F1, none when nothing is relevant."""
    if not any(map(_is_relevant, judged)):
        return []
    chances = np.array([found.chance for found in judged])
    # Of k chosen topics the expected F1 is 2 * hits / (k + all that hold an answer).
    answers = max(float(chances.sum()), 1.0)
    expected = 2 * np.cumsum(chances) / (np.arange(1, len(judged) + 1) + answers)
    return list(judged[: int(np.argmax(expected[:_MOST_CHOSEN])) + 1])


def leads(values: Floats) -> Floats:
    """The distance of each value to the best other one; zero for a single value."""
    if len(values) < 2:
        return np.zeros(len(values))
    second, best = np.sort(values)[-2:].tolist()
    ahead: Floats = np.where(values == best, values - second, values - best)
    return ahead


def _is_relevant(found: Judged) -> bool:
    if found.together >= _FEW_WORDS:
        return True
    if found.foreign:
        least = _LEAST_FUSED_FOREIGN
    else:
        least = _LEAST_FUSED if found.together < _NO_WORDS else _LEAST_FUSED_WITH_WORDS
    return fused_score(found.topic.score) >= least


def _terms(query: str, topics: Sequence[Topic]) -> frozenset[str]:
    """The query's stems, without names of who speaks: those stand in every head and say nothing of the talk."""
    names = {stem for author in {name for topic in topics for name in topic.authors} for stem in stems(author)}
    terms = frozenset(stems(query))
    return terms - names or terms


def _one(text: str, terms: Collection[str]) -> _Run:
    said = stems(text)
    return _Run(Counter(stem for stem in said if stem in terms), len(said))


def _joined(runs: Sequence[_Run]) -> _Run:
    counts: Counter[str] = Counter()
    for run in runs:
        counts.update(run.counts)
    return _Run(counts, sum(run.stems for run in runs), sum(run.messages for run in runs))


def _weights(terms: Iterable[str], messages: Sequence[_Run]) -> _Weights:
    holding = Counter(term for run in messages for term in run.counts)
    mean = sum(run.stems for run in messages) / max(len(messages), 1)
    # Sorted, for the order of a set differs from process to process and sums of floats with it.
    return _Weights({term: idf(len(messages), holding[term]) for term in sorted(terms)}, max(mean, 1.0))


def _judged(topic: Topic, runs: Sequence[_Run], weights: _Weights, chance: float, foreign: bool) -> Judged:
    windows = [_joined(runs[max(0, at - AROUND) : at + AROUND + 1]) for at in range(len(runs))]
    # The neighbours decide between messages that share the same word.
    worth = [weights.weigh(run) + weights.weigh(window) for run, window in zip(runs, windows, strict=True)]
    held = _joined(runs).counts
    return Judged(
        topic=topic,
        chance=chance,
        foreign=foreign,
        shared=tuple(sorted(held, key=lambda term: (-weights.idf[term], term))),
        together=max(map(weights.covered, windows), default=0.0),
        telling=tuple(sorted((at for at, run in enumerate(runs) if run.counts), key=lambda at: -worth[at])),
    )
