"""One order out of two signals: how near a passage is in meaning, and which words it shares.

Per query both are turned into z-scores over all the owner's passages, zeros included, and added; a topic
gets its best passage. Measured on 760 questions over five public two-person conversations (recall@5 /
recall@10 / MRR / F1 of keeping what lies within 1 of the best):

    topics            fused                    words alone              meaning alone
    whole sessions    .874 / .936 / .801 / .69 .863 / .926 / .781 / .68 .717 / .865 / .603 / .39
    ≤ 15 messages     .846 / .899 / .781 / .66 .837 / .895 / .757 / .65 .680 / .805 / .575 / .36
    ≤ 8 messages      .804 / .868 / .732 / .61 .793 / .853 / .707 / .60 .627 / .748 / .520 / .30

Adding a share of the second best passage, BM25 over whole topics or the words that other passages of the
topic add moved recall by at most .005 either way, so a topic stays explained by one passage. In a memory of
two languages, passages in the other script get the benefit of the doubt: six Russian questions about English
talk and the reverse went from recall@5 .33 to .67.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memoryapp.engine.lexical import Floats, Weighed

# A query of which a single word occurs, once, would otherwise lift that passage 20 deviations above all
# others; the floor is a share of what a match of all its words would weigh.
LEXICAL_FLOOR = 0.02
# What words would add to a passage in another script, had it been said in the query's, by its meaning.
FOREIGN_SHARE = 0.7
_FLAT = 1e-9

# ``fused`` of the best passage: median 10, 95 % above 4.8; of a query about something else about 3.
_MIDDLE = 6.0
_SLOPE = 4.0


@dataclass(frozen=True, slots=True)
class Best:
    """Topics by their best passage, best first; both arrays have shape (topics,). ``passages`` are positions."""

    topics: NDArray[np.int64]
    passages: NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class TopicPassages:
    """The passages of each topic, by position: those of ``topics[n]`` begin at ``starts[n]`` in ``places``.

    ``topics`` are ascending, each once.
    """

    topics: NDArray[np.int64]
    starts: NDArray[np.intp]
    places: NDArray[np.intp]

    @classmethod
    def of(cls, topics: NDArray[np.int64], places: NDArray[np.intp]) -> TopicPassages:
        """Out of pairs, in any order: the passage at that position is one of that topic's; both of shape (pairs,)."""
        order = np.argsort(topics, kind="stable")
        numbers, starts = np.unique(topics[order], return_index=True)
        return cls(numbers, starts, places[order])

    def best(self, values: Floats, most: int | None = None) -> Best:
        """The ``most`` topics with the highest passage, ties by number; without any value (NaN) a topic is left out.

        Of equal passages the first by position speaks for the topic.
        """
        if not len(self.topics):
            return Best(self.topics, self.starts)
        held = np.nan_to_num(values[self.places], nan=-np.inf)
        highest = np.maximum.reduceat(held, self.starts)
        sizes = np.diff(self.starts, append=len(held))
        equal = np.where(held == np.repeat(highest, sizes), self.places, len(values))
        order = np.argsort(-highest, kind="stable")
        order = order[highest[order] > -np.inf][:most]
        return Best(self.topics[order], np.minimum.reduceat(equal, self.starts)[order])


def fuse(cosine: Floats, words: Weighed, foreign: NDArray[np.bool_]) -> Floats:
    """Sum of both z-scores, shape (n,). A NaN cosine (no vector yet) counts as average.

    ``foreign`` marks passages in another script than the query's: they could not share its words.
    """
    meaning: Floats = np.nan_to_num(z_scores(cosine))
    shared = z_scores(words.total, LEXICAL_FLOOR * words.weight)
    fair = np.where(foreign, np.maximum(shared, FOREIGN_SHARE * meaning), shared)
    return meaning + fair


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
