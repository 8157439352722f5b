"""How far sources answer a question, from 0 to 1, and whether a text confirms a claim.

Coverage is the likelihood of an answer, estimated from two signals. By words: the largest share of the question's
stems, by their rarity in the whole memory, that one source contains. Words of every other message weigh nothing, and
words that the memory does not contain weigh most. By meaning: how many deviations the best passage is nearer than the
mean of the memory, because an answer may use other words or another language. Names of authors and dates do not count.

The weights are a logistic regression over the first five passages: of 760 questions over five public two-person
conversations against 676 that the memory does not answer (from the other conversations with the names changed, from the
demo memory, and the other way round), moved so that 2 % of the answerable ones are below one half. With the coverage of
what extracts quote, which is lower, a run refuses 5 % of 120 of them, 35 % of 80 questions of other conversations and
53 % of 60 about something else.

For the harder questions about the demo memory, on which nothing was fitted, no signal separates answerable from
unanswerable ones well. Alone, the share of words has an area under the curve of .58 in Russian and .57 in English, the
best cosine .62 and .62, the best score .60 and .54, the scorer's chance .55 and .50; the best of 1,400 sets of up to
four of fourteen signals, fitted in one language and tested in the other, .70 and .72. The reasons: their answers share
few words with them, and many of the unanswerable ones are about people and things in the memory. Also tried: the raw
cosine instead of deviations (53 and 81 % refused when 3 % of the answerable are, but it depends on the embedding
model), the best score, the number of words, the share that any source contains.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from memoryapp.engine.text.irregular import bases
from memoryapp.engine.text.lexical import normal, stems

# The log-odds of an answer: without any signal, what the whole share of words adds, and what a deviation adds.
_BIAS, _WORDS, _MEANING = -3.65, 7.7, 0.48

_FIGURE = re.compile(r"\d+(?:[.,:]\d+)*")
_CITED = re.compile(r"\[\d+(?:\s*,\s*\d+)*\]")


def terms_of(text: str) -> frozenset[str]:
    """Returns the stems of a text; irregular forms of a word become one."""
    return frozenset(bases(stems(text)))


def covered_share(weights: Mapping[str, float], known: frozenset[str]) -> float:
    """Returns the share of the terms, by weight, that are ``known``; 0 when there are no terms."""
    whole = sum(weights.values())
    return sum(weight for term, weight in weights.items() if term in known) / whole if whole else 0.0


def coverage(weights: Mapping[str, float], sources: Sequence[str], meaning: float) -> float:
    """Returns the coverage of a question, given as its terms with their rarity, by ``sources``; 0 without sources.

    ``meaning`` is what meaning adds to the score of the best passage.
    """
    if not sources:
        return 0.0
    by_words = max(covered_share(weights, terms_of(source)) for source in sources)
    return round(1 / (1 + math.exp(-(_BIAS + _WORDS * by_words + _MEANING * meaning))), 4)


def borne_out(claim: str, text: str) -> float:
    """Returns the share of a ``claim``'s stems that a ``text`` contains; 0 when a figure of it is missing."""
    bare = _CITED.sub(" ", claim)
    if not figures(bare) <= figures(text):
        return 0.0
    terms = terms_of(_FIGURE.sub(" ", bare))
    return len(terms & terms_of(text)) / len(terms) if terms else float(bool(figures(bare)))


def figures(text: str) -> frozenset[str]:
    """Returns the numbers in a text, without the separators that group their digits."""
    return frozenset(figure.replace(",", "").rstrip(".:") for figure in _FIGURE.findall(normal(text)))
