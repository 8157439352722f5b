"""One order out of two signals: how near a passage is in meaning, and which words it shares.

Per query both are turned into z-scores over all the owner's passages, zeros included, and added, meaning times 1.2; a
topic gets its best passage. ``search.lifts`` adds dates and the like to the sum. Measured on the development set, 760
questions over five public English two-person conversations, with the embedded sentence encoder; the weights were chosen
on it, so that other talk may gain less (recall@5 / recall@10 / MRR):

    topics            1 : 1, whole question   this, matter of the question   with dates and irregular forms
    whole sessions    .874 / .936 / .799      .878 / .940 / .797             .900 / .949 / .829
    of the archive    .866 / .921 / .793      .869 / .932 / .787             .888 / .944 / .821

A topic's best passage gains half of what its whole talk says, the mean of what meaning adds to its passages
(``lifts``), for questions in other words than the messages. With none, half and the whole of it, in recall@5 /
recall@10 / MRR and F1 of the embedded scorer's choice:

    demo, Russian             .777 / .837 / .657  .50   .777 / .883 / .677  .51   .799 / .883 / .672  .53
    demo, English             .733 / .900 / .533  .35   .778 / .922 / .545  .35   .778 / .900 / .562  .39
    demo, forty older ones    .887 / .944 / .822  .69   .887 / .960 / .797  .71   .887 / .977 / .810  .70
    development, sessions     .899 / .949 / .830  .738  .895 / .951 / .827  .730  .896 / .953 / .824  .723
    development, archive      .888 / .944 / .822  .726  .888 / .944 / .822  .722  .887 / .943 / .817  .718

The whole costs long topics of two people, which are many matters, more than half of it does. All was chosen with these
questions in view, among some sixty variants, so the gains flatter it. What is still missed there shares no word with
its answer, and other passages lie nearer. No better on both: words counted less beside a question's whole weight
(Russian up, English down), meaning times 1.4 to 2, other weights for another script, words found anywhere in a topic,
its second best passage.

Tried on the same set, and left out, each alone (gains on topics of the archive in recall@5 / recall@10 / MRR): BM25
over 4-grams times .3 (+.005/+.004/+.006), over bigrams (+.004/0/+.004), over whole topics times .5
(+.002/+.007/+.008), the best sentence's cosine (+.001/+.003/+.005), a second embedder (+.005 to +.01, at 131 ms a
passage instead of 7.5). No gain at all: relevance feedback (RM3), a boost for who is named, smoothing over neighbours,
the mean of the best three passages, neighbouring topics, soft matches of words, splitting questions at "and", MMR and
buckets of time.

In a memory of two languages, passages in the other script get the benefit of the doubt: six Russian questions about
English talk and the reverse went from recall@5 .33 to .67.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from memoryapp.engine.text.lexical import Floats, Weighed

# A query of which a single word occurs, once, would otherwise lift that passage 20 deviations above all
# others; the floor is a share of what a match of all its words would weigh.
LEXICAL_FLOOR = 0.02
# What a deviation in meaning counts beside one in words.
MEANING = 1.2
# What words would add to a passage in another script, had it been said in the query's, by its meaning.
FOREIGN_SHARE = 0.7
# How much of what its whole talk says a topic gains.
WHOLE_TALK = 0.5
_FLAT = 1e-9

# ``fused`` of the best passage on the development set: median 12, 95 % above 7; of a question about something else
# about 7.
_USUAL_BEST = 12.0
_MIDDLE = 7.0
_SLOPE = 5.0


# One order out of cosines, words, and which texts are in another script than the query; see ``fuse``.
Fusion = Callable[[Floats, Weighed, NDArray[np.bool_]], Floats]


@dataclass(frozen=True, slots=True)
class Best:
    """Topics by their best passage, best first; all arrays have shape (topics,).

    ``passages`` are positions, ``lifts`` what was added to them for the sake of the whole topic, by part.
    """

    topics: NDArray[np.int64]
    passages: NDArray[np.intp]
    lifts: Mapping[str, Floats]


@dataclass(frozen=True, slots=True)
class TopicPassages:
    """The passages of each topic, by position: those of ``topics[n]`` begin at ``starts[n]`` in ``places``.

    ``topics`` are ascending, each once, and so are the places of each.
    """

    topics: NDArray[np.int64]
    starts: NDArray[np.intp]
    places: NDArray[np.intp]

    @classmethod
    def of(cls, topics: NDArray[np.int64], places: NDArray[np.intp]) -> TopicPassages:
        """Out of pairs, in any order: the passage at that position is one of that topic's; both of shape (pairs,).

        A passage of two messages of a topic comes twice and is kept once.
        """
        order = np.lexsort((places, topics))
        topics, places = topics[order], places[order]
        first = np.ones(len(topics), np.bool_)
        first[1:] = (topics[1:] != topics[:-1]) | (places[1:] != places[:-1])
        numbers, starts = np.unique(topics[first], return_index=True)
        return cls(numbers, starts, places[first])

    def lifts(self, values: Floats) -> Floats:
        """Half of what the whole of a topic says: of the mean over its n passages times (n - 1) / n, shape (topics,).

        So a topic of one passage, which speaks for itself, gains nothing.
        """
        if not len(self.topics):
            return np.zeros(0)
        counts = np.diff(np.append(self.starts, len(self.places)))
        mean: Floats = np.add.reduceat(values[self.places], self.starts) / counts
        return WHOLE_TALK * mean * (1 - 1 / counts)

    def highest(self, values: Floats) -> Floats:
        """The highest value among the passages of each topic, shape (topics,)."""
        return np.maximum.reduceat(values[self.places], self.starts) if len(self.topics) else np.zeros(0)

    def best(self, values: Floats, most: int | None = None, lifts: Mapping[str, Floats] = MappingProxyType({})) -> Best:
        """The ``most`` topics with the highest passage, ties by number; without any value (NaN) a topic is left out.

        What ``lifts`` have for a topic, shape (topics,) each, is added to its passage. Of equal passages the first by
        position speaks for the topic.
        """
        passage_values, order = self._ordered(values, sum(lifts.values(), np.zeros(len(self.topics))))
        ends = np.append(self.starts[1:], len(self.places))
        # Places ascend within a topic, so the first of equal ones is the one that speaks.
        within = [int(passage_values[self.starts[at] : ends[at]].argmax()) for at in order[:most].tolist()]
        passages = self.places[self.starts[order[:most]] + np.array(within, np.intp)]
        return Best(self.topics[order[:most]], passages, {part: adds[order[:most]] for part, adds in lifts.items()})

    def nearest(self, values: Floats) -> NDArray[np.int64]:
        """All topics in the order of ``best``."""
        return self.topics[self._ordered(values, np.zeros(len(self.topics)))[1]]

    def _ordered(self, values: Floats, lift: Floats) -> tuple[Floats, NDArray[np.intp]]:
        """The value of each place, -inf for NaN, and where the topics stand in ``topics``, the best first."""
        passage_values: Floats = np.where(np.isnan(values), -np.inf, values)[self.places]
        if not len(self.topics):
            return passage_values, np.zeros(0, np.intp)
        highest = np.maximum.reduceat(passage_values, self.starts) + lift
        order = np.argsort(-highest, kind="stable")
        return passage_values, order[highest[order] > -np.inf]


@dataclass(frozen=True, slots=True)
class Sum:
    """Both ``parts`` times a weight each, added; what else counts in deviations may be added to it."""

    meaning: float = 1.0
    words: float = 1.0

    def __call__(self, cosine: Floats, words: Weighed, foreign: NDArray[np.bool_]) -> Floats:
        """Shape (n,)."""
        meaning, shared = self.weighed(cosine, words, foreign)
        return meaning + shared

    def weighed(self, cosine: Floats, words: Weighed, foreign: NDArray[np.bool_]) -> tuple[Floats, Floats]:
        """What meaning and words add, both of shape (n,)."""
        meaning, shared = parts(cosine, words, foreign)
        return self.meaning * meaning, self.words * shared


fuse = Sum()


@dataclass(frozen=True, slots=True)
class ReciprocalRanks:
    """Each order by itself gives a text 1 / (k + its rank there), times a weight, as far as its first ``depth`` texts.

    Texts without a vector, or without a word of the query, have no rank there. Scaled so that a text that is first by
    both weighs as much as the best usually does in deviations.
    """

    k: int = 60
    depth: int = 50
    meaning: float = 1.0
    words: float = 1.0

    def __call__(self, cosine: Floats, words: Weighed, foreign: NDArray[np.bool_]) -> Floats:
        """Shape (n,)."""
        shared = np.where(words.total > 0, words.total, np.nan)
        whole = (self.meaning + self.words) / (self.k + 1)
        fused: Floats = self.meaning * self._shares(cosine) + self.words * self._shares(shared)
        return fused * (_USUAL_BEST / whole)

    def _shares(self, values: Floats) -> Floats:
        order = descending(values)[: self.depth]
        order = order[~np.isnan(values[order])]
        shares = np.zeros(len(values))
        shares[order] = 1 / (self.k + 1 + np.arange(len(order)))
        return shares


def parts(cosine: Floats, words: Weighed, foreign: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """What meaning and words add, in deviations, both of shape (n,). A NaN cosine (no vector yet) counts as average.

    ``foreign`` marks passages in another script than the query's: they could not share its words.
    """
    near: Floats = np.nan_to_num(z_scores(cosine))
    shared = z_scores(words.total, LEXICAL_FLOOR * words.weight)
    fair: Floats = np.where(foreign, np.maximum(shared, FOREIGN_SHARE * near), shared)
    return MEANING * near, fair


def z_scores(values: Floats, floor: float = 0.0) -> Floats:
    """Deviations from the mean, NaN where ``values`` is; all zero when nothing differs.

    ``floor`` is the least standard deviation to divide by.
    """
    known = values[~np.isnan(values)]
    if not len(known):
        return values
    spread = max(float(known.std()), floor)
    deviations: Floats = (values - known.mean()) / (spread if spread > _FLAT else 1.0)
    return deviations


def shown_scores(fused: Floats) -> Floats:
    """``fused`` mapped into (0, 1), rising; two digits tell 0.2 apart around a good match. Same shape."""
    scores: Floats = 1 / (1 + np.exp((_MIDDLE - np.clip(fused, -100.0, 100.0)) / _SLOPE))
    return scores


def fused_score(shown: float) -> float:
    """The ``fused`` behind a shown score, as far as its two digits tell."""
    inside = min(max(shown, 0.005), 0.995)
    return _MIDDLE + _SLOPE * math.log(inside / (1 - inside))


def descending(values: Floats) -> NDArray[np.intp]:
    """Positions of ``values``, highest first, NaN last, ties by position."""
    return np.argsort(np.where(np.isnan(values), np.inf, -values), kind="stable")
