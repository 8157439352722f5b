"""What the summaries of topics say of a query's words.

A summary names a topic in words that nobody may have used in it, and names it as a whole where its passages tell one
thing each. So a topic whose summary says more of a query than any of its passages gains the difference. A summary made
of the topic's own sentences says hardly more than they do, and gains next to nothing.

A summary says a thing once, in a line or two: what counts is which of the query's words it holds, by their rarity
among the summaries, in deviations from all of them. Measured with the embedded sentence encoder, on summaries that
people wrote (demo) and on those of the embedded segmenter (development set), recall@5 / recall@10 / MRR:

                              without               with
    demo, Russian             .777 / .905 / .680    .799 / .928 / .709
    demo, English             .778 / .922 / .553    .822 / .922 / .620
    demo, forty older ones    .887 / .960 / .797    .921 / .952 / .809
    development, archive      .888 / .944 / .822    .892 / .944 / .821
    development, sessions     .895 / .951 / .827    .897 / .951 / .830

In the same order, left out: BM25 of summaries instead of rarity, .799 / .800 / .900 / .890 / .896 in recall@5. Words
added in any case (.3, and .6 of the summary's meaning), which counts what its own sentences say twice: .845 / .822 /
.896 / .889 / .896, MRR .706 / .594 / .844 / .814 / .816. Meaning and words of the summary as of a passage more, the
odds of both added: .845 / .822 / .929 / .891 / .899, MRR .702 / .603 / .826 / .827 / .833. That needs a vector more
for each topic, which every search compares, and which a planned change has not got when its effect is told. With the
topic's own vector in its place, that of summary and log: .822 / .800 / .929 / .890 / .896.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memoryapp.engine.fusion import LEXICAL_FLOOR, z_scores
from memoryapp.engine.text.lexical import Floats, Matches, held
from memoryapp.search.columns import Ids, positions
from memoryapp.search.words import one_term_each


@dataclass(frozen=True, slots=True)
class SummaryWords:
    """What the summary of each of the ``topics`` says of a query's words, in deviations, and whether it holds any.

    ``topics`` are ascending; all arrays have shape (topics,).
    """

    topics: Ids
    deviations: Floats
    holds_any: NDArray[np.bool_]

    @classmethod
    def of(
        cls,
        topics: Ids,
        wordings: Sequence[Mapping[str, Matches | None]],
        common: Collection[str] = (),
        weight: float = 1.0,
    ) -> SummaryWords:
        """Out of the summaries that hold each word of a query, by their position: in the wording that they say most of.

        The ``common`` terms of a large memory are left out, ``weight`` is what words count.
        """
        terms = [one_term_each(matches) for matches in wordings]
        said = [_said({term: each[term] for term in each if term not in common}, len(topics)) for each in terms]
        deviations = weight * np.max([deviations for deviations, _holds in said], axis=0)
        return cls(topics, deviations, np.any([holds for _deviations, holds in said], axis=0))

    def beyond(self, topics: Ids, passages: Floats) -> Floats:
        """What the summaries of these topics say beyond what words add to their ``passages``, shape (topics,)."""
        places, here = positions(self.topics, topics)
        lead = np.zeros(len(topics))
        lead[here] = np.where(self.holds_any[places], self.deviations[places] - passages[here], 0.0)
        return np.maximum(lead, 0.0)

    def speak(self, topics: Ids) -> NDArray[np.bool_]:
        """Which of these topics have a summary that holds a word of the query, shape (topics,)."""
        return np.isin(topics, self.topics[self.holds_any])


def holding(topics: Ids, ids: Ids) -> Matches | None:
    """Those of the ascending ``topics`` that are among the ``ids``, by their position; None where none is."""
    places, _here = positions(topics, np.sort(ids))
    return Matches(places, np.ones(len(places))) if len(places) else None


def _said(matches: Mapping[str, Matches | None], n: int) -> tuple[Floats, NDArray[np.bool_]]:
    total, weight = held(matches, n)
    return z_scores(total, LEXICAL_FLOOR * weight), total > 0
