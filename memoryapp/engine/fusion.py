"""Combines two signals into one order: how near a passage is in meaning, and which words it shares with the query.

For each query, both become z-scores over all passages of the owner, zeros included, and are added, meaning times 1.2. A
topic has the score of its best passage. ``search.lifts`` adds dates and the like to the sum. Measured on the
development set, 760 questions over five public English two-person conversations, with the embedded sentence encoder;
the weights were chosen on it, so other conversations may gain less (recall@5 / recall@10 / MRR):

    topics            1 : 1, whole question   this, matter of the question   with dates and irregular forms
    whole sessions    .874 / .936 / .799      .878 / .940 / .797             .900 / .949 / .829
    of the archive    .866 / .921 / .793      .869 / .932 / .787             .888 / .944 / .821

A topic's best passage gains half of the mean of what meaning adds to all passages of the topic (``lifts``); this helps
questions in other words than the messages. With none, half and the whole of that mean, in recall@5 / recall@10 / MRR
and F1 of the embedded scorer's choice:

    demo, Russian             .777 / .837 / .657  .50   .777 / .883 / .677  .51   .799 / .883 / .672  .53
    demo, English             .733 / .900 / .533  .35   .778 / .922 / .545  .35   .778 / .900 / .562  .39
    demo, forty older ones    .887 / .944 / .822  .69   .887 / .960 / .797  .71   .887 / .977 / .810  .70
    development, sessions     .899 / .949 / .830  .738  .895 / .951 / .827  .730  .896 / .953 / .824  .723
    development, archive      .888 / .944 / .822  .726  .888 / .944 / .822  .722  .887 / .943 / .817  .718

The whole harms long topics of two people, which are about many subjects, more than half of it does. This was chosen
with these questions in view, among some sixty variants, so the gains are optimistic. Questions that are still missed
share no word with their answers, and other passages are nearer. Not better in both languages: less weight for words
relative to the whole weight of a question (Russian up, English down), meaning times 1.4 to 2, other weights for another
script, words found anywhere in a topic, its second best passage.

Tried on the same set, each alone, and left out (gains on topics of the archive in recall@5 / recall@10 / MRR): BM25
over 4-grams times .3 (+.005/+.004/+.006), over bigrams (+.004/0/+.004), over whole topics times .5
(+.002/+.007/+.008), the best sentence's cosine (+.001/+.003/+.005), a second embedder (+.005 to +.01, at 131 ms a
passage instead of 7.5). No gain: relevance feedback (RM3), a boost for people who are named, smoothing over neighbours,
the mean of the best three passages, neighbouring topics, soft matches of words, splitting questions at "and", MMR and
buckets of time.

In a memory of two languages, passages in another script than the query count as if they shared words with it, by their
meaning: for six Russian questions about English messages and the reverse, recall@5 rose from .33 to .67."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from memoryapp.engine.text.lexical import Floats, Weighed

# If a single word of a query occurs, and only once, that passage would otherwise be 20 deviations above all others. The
# floor is a share of the weight of a match of all words.
LEXICAL_FLOOR = 0.02
# The weight of a deviation in meaning relative to one in words.
MEANING = 1.2
# What words add to a passage in another script than the query's, as a share of its deviation in meaning.
FOREIGN_SHARE = 0.7
# The share of the mean over all its passages that a topic gains.
WHOLE_TALK = 0.5
_FLAT = 1e-9

# ``fused`` of the best passage on the development set: median 12, 95 % above 7; for questions about something else,
# about 7.
_USUAL_BEST = 12.0
_MIDDLE = 7.0
_SLOPE = 5.0


# Combines cosines and words into one score; the third argument marks texts in another script. See ``fuse``.
Fusion = Callable[[Floats, Weighed, NDArray[np.bool_]], Floats]


@dataclass(frozen=True, slots=True)
class Best:
    """Topics by their best passage, best first; all arrays have shape (topics,). ``passages`` are positions; ``lifts``
    is what the whole topic added to their values, by part."""

    topics: NDArray[np.int64]
    passages: NDArray[np.intp]
    lifts: Mapping[str, Floats]


@dataclass(frozen=True, slots=True)
class TopicPassages:
    """The passages of each topic, by position: those of ``topics[n]`` begin at ``starts[n]`` in ``places``. ``topics``
    are ascending, each once, and so are the places of each."""

    topics: NDArray[np.int64]
    starts: NDArray[np.intp]
    places: NDArray[np.intp]

    @classmethod
    def of(cls, topics: NDArray[np.int64], places: NDArray[np.intp]) -> TopicPassages:
        """Groups pairs of a topic and the position of one of its passages, in any order; both of shape (pairs,). A pair
        that is given twice, for two messages of a passage, is kept once."""
        order = np.lexsort((places, topics))
        topics, places = topics[order], places[order]
        first = np.ones(len(topics), np.bool_)
        first[1:] = (topics[1:] != topics[:-1]) | (places[1:] != places[:-1])
        numbers, starts = np.unique(topics[first], return_index=True)
        return cls(numbers, starts, places[first])

    def without(self, places: NDArray[np.intp]) -> TopicPassages:
        return self._kept(~np.isin(self.places, places))

    def only(self, places: NDArray[np.intp]) -> TopicPassages:
        """The same with the passages at these positions alone."""
        return self._kept(np.isin(self.places, places))

    def but(self, topics: Sequence[int]) -> TopicPassages:
        """The same without these topics."""
        return self._kept(~np.isin(self._topic_of_places(), topics)) if len(topics) else self

    def _kept(self, kept: NDArray[np.bool_]) -> TopicPassages:
        return TopicPassages.of(self._topic_of_places()[kept], self.places[kept])

    def _topic_of_places(self) -> NDArray[np.int64]:
        return np.repeat(self.topics, np.diff(np.append(self.starts, len(self.places))))

    def lifts(self, values: Floats) -> Floats:
        """Returns half of the mean over the n passages of each topic, times (n - 1) / n, shape (topics,). So a topic of
        a single passage gains nothing."""
        if not len(self.topics):
            return np.zeros(0)
        counts = np.diff(np.append(self.starts, len(self.places)))
        mean: Floats = np.add.reduceat(values[self.places], self.starts) / counts
        return WHOLE_TALK * mean * (1 - 1 / counts)

    def highest(self, values: Floats) -> Floats:
        """Returns the highest value among the passages of each topic, shape (topics,)."""
        return np.maximum.reduceat(values[self.places], self.starts) if len(self.topics) else np.zeros(0)

    def best(self, values: Floats, most: int | None = None, lifts: Mapping[str, Floats] = MappingProxyType({})) -> Best:
        """Returns the ``most`` topics with the highest passage, ties by number; topics with only NaN are left out.
        ``lifts``, of shape (topics,) each, are added to the value of each topic. Of equal passages of a topic, the
        first by position is returned."""
        passage_values, order = self._ordered(values, sum(lifts.values(), np.zeros(len(self.topics))))
        ends = np.append(self.starts[1:], len(self.places))
        # Places ascend within a topic, so argmax returns the first of equal ones.
        within = [int(passage_values[self.starts[at] : ends[at]].argmax()) for at in order[:most].tolist()]
        passages = self.places[self.starts[order[:most]] + np.array(within, np.intp)]
        return Best(self.topics[order[:most]], passages, {part: adds[order[:most]] for part, adds in lifts.items()})

    def nearest(self, values: Floats) -> NDArray[np.int64]:
        """Returns all topics in the order of ``best``."""
        return self.topics[self._ordered(values, np.zeros(len(self.topics)))[1]]

    def _ordered(self, values: Floats, lift: Floats) -> tuple[Floats, NDArray[np.intp]]:
        """Returns the value of each place, -inf for NaN, and the positions of the topics in ``topics``, best first."""
        passage_values: Floats = np.where(np.isnan(values), -np.inf, values)[self.places]
        if not len(self.topics):
            return passage_values, np.zeros(0, np.intp)
        highest = np.maximum.reduceat(passage_values, self.starts) + lift
        order = np.argsort(-highest, kind="stable")
        return passage_values, order[highest[order] > -np.inf]


@dataclass(frozen=True, slots=True)
class Sum:
    """The sum of both ``parts``, each times a weight; other values in deviations may be added to it."""

    meaning: float = 1.0
    words: float = 1.0

    def __call__(self, cosine: Floats, words: Weighed, foreign: NDArray[np.bool_]) -> Floats:
        """Shape (n,)."""
        meaning, shared = self.weighed(cosine, words, foreign)
        return meaning + shared

    def weighed(self, cosine: Floats, words: Weighed, foreign: NDArray[np.bool_]) -> tuple[Floats, Floats]:
        """Returns what meaning and words add, both of shape (n,)."""
        meaning, shared = parts(cosine, words, foreign)
        return self.meaning * meaning, self.words * shared


fuse = Sum()


@dataclass(frozen=True, slots=True)
class ReciprocalRanks:
    """Each of both orders gives its first ``depth`` texts 1 / (k + rank), times a weight. Texts without a vector, or
    without a word of the query, have no rank in that order. The result is scaled: a text that is first in both gets the
    usual score of the best text in deviations."""

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
    """Returns what meaning and words add, in deviations, both of shape (n,). A NaN cosine (no vector yet) counts as
    average. ``foreign`` marks passages in another script than the query's, which cannot share its words."""
    near: Floats = np.nan_to_num(z_scores(cosine))
    shared = z_scores(words.total, LEXICAL_FLOOR * words.weight)
    fair: Floats = np.where(foreign, np.maximum(shared, FOREIGN_SHARE * near), shared)
    return MEANING * near, fair


def z_scores(values: Floats, floor: float = 0.0) -> Floats:
    """Returns the deviations from the mean, NaN for NaN; all zero when all values are equal. ``floor`` is the least
    standard deviation to divide by."""
    known = values[~np.isnan(values)]
    if not len(known):
        return values
    spread = max(float(known.std()), floor)
    deviations: Floats = (values - known.mean()) / (spread if spread > _FLAT else 1.0)
    return deviations


def by_meaning(cosine: Floats, words: Weighed, foreign: object) -> Floats:
    """The order by cosine alone, where a passage without a vector has the average. Without any vector, by words."""
    if np.isnan(cosine).all():
        return z_scores(words.total)
    meaning: Floats = np.nan_to_num(z_scores(cosine))
    return meaning


def shown_scores(fused: Floats) -> Floats:
    """Maps ``fused`` into (0, 1), rising, in the same shape; near a good match two digits distinguish 0.2."""
    scores: Floats = 1 / (1 + np.exp((_MIDDLE - np.clip(fused, -100.0, 100.0)) / _SLOPE))
    return scores


def fused_score(shown: float) -> float:
    """Returns the ``fused`` of a shown score, to the precision of its two digits."""
    inside = min(max(shown, 0.005), 0.995)
    return _MIDDLE + _SLOPE * math.log(inside / (1 - inside))


def descending(values: Floats) -> NDArray[np.intp]:
    """Returns the positions of ``values``, highest first, NaN last, ties by position."""
    return np.argsort(np.where(np.isnan(values), np.inf, -values), kind="stable")
