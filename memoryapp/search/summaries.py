"""The words of a query in the summaries of topics.

A summary may name a topic in words that nobody used in it, and it covers the whole topic, while each passage covers one
part. So a topic gains by how much more of the query its summary says than the best of its passages. A summary made of
the topic's own sentences says hardly more than they do, and gains next to nothing.

A summary says each thing once, in a line or two. So what counts is which of the query's words it contains, weighed by
their rarity among the summaries, in standard deviations over all summaries. Measured with the embedded sentence
encoder, on summaries written by people (demo) and by the embedded segmenter (development set), recall@5 / recall@10 /
MRR:

                              without               with
    demo, Russian             .777 / .905 / .680    .799 / .928 / .709
    demo, English             .778 / .922 / .553    .822 / .922 / .620
    demo, forty older ones    .887 / .960 / .797    .921 / .952 / .809
    development, archive      .888 / .944 / .822    .892 / .944 / .821
    development, sessions     .895 / .951 / .827    .897 / .951 / .830

The variants were compared with the demo questions in view, so their gains are flattered. Variants that were not
adopted, in the same order, recall@5:

- BM25 of the summaries instead of rarity: .799 / .800 / .900 / .890 / .896.
- Words of the summary (.3) and its meaning (.6) added in any case, which counts the topic's own sentences twice:
  .845 / .822 / .896 / .889 / .896, and MRR falls on the development set (.814 and .816).
- Meaning and words of the summary as one more passage, with the odds of both added: .845 / .822 / .929 / .891 / .899 in
  one setting. In 34 others like it recall@5 over all 129 questions of the demo memory moves by -.016 to +.008, on the
  development set by -.010 to +.002. It needs one more vector for each topic, which every search compares, and which a
  planned change does not have when its effect is shown.
- The same with the topic's own vector, that of summary and log: .822 / .800 / .929 / .890 / .896.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memoryapp.engine.fusion import LEXICAL_FLOOR, z_scores
from memoryapp.engine.text.lexical import Floats, Matches, rarities
from memoryapp.search.columns import Ids, positions
from memoryapp.search.words import one_term_each


@dataclass(frozen=True, slots=True)
class SummaryWords:
    """For the summary of each of the ``topics``: how much of the query it says, in standard deviations, and whether it
    contains any of its words.

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
        """From the summaries with each word, by position, for each wording of the query; the better wording counts.

        The ``common`` terms of a large memory are left out. ``weight`` is the weight of words in the fusion.
        """
        terms = [one_term_each(matches) for matches in wordings]
        found = [_of_wording({term: each[term] for term in each if term not in common}, len(topics)) for each in terms]
        deviations = weight * np.max([deviations for deviations, _holds in found], axis=0)
        return cls(topics, deviations, np.any([holds for _deviations, holds in found], axis=0))

    def beyond(self, topics: Ids, passages: Floats) -> Floats:
        """How much more the summaries of these topics say than words add to their ``passages``, shape (topics,)."""
        places, here = positions(self.topics, topics)
        lead = np.zeros(len(topics))
        lead[here] = np.where(self.holds_any[places], self.deviations[places] - passages[here], 0.0)
        return np.maximum(lead, 0.0)

    def speak(self, topics: Ids) -> NDArray[np.bool_]:
        """Which of these topics have a summary with a word of the query, shape (topics,)."""
        return np.isin(topics, self.topics[self.holds_any])


def _of_wording(matches: Mapping[str, Matches | None], n: int) -> tuple[Floats, NDArray[np.bool_]]:
    total, weight = rarities(matches, n)
    return z_scores(total, LEXICAL_FLOOR * weight), total > 0
