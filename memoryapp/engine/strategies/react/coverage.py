"""How far sources answer a question, from 0 to 1, and whether a claim is borne out by a text.

Coverage is how likely anything answers, as far as two signs tell. By words: the share of the question's stems, by their
rarity in the whole memory, that one source holds; words that stand in every other message say nothing, and what the
memory holds nowhere weighs most. By meaning: how many deviations the best passage lies nearer than the memory's mean,
for an answer may be put in other words or in another language. Neither names of who speaks nor dates count.

The weights are a logistic regression of 760 questions over five public two-person conversations against 676 that the
memory asked does not answer (of the other conversations with the names changed, and of the demo memory, and the other
way round) over the first five passages, moved so that 2 % of the answerable ones lie below one half. By what extracts
quote, which is less, a run refuses 5 % of 120 of them, 35 % of 80 questions of other conversations and 53 % of 60 about
something else.

Of the harder questions about the demo memory, for which nothing was fitted, no sign tells the answerable from the
unanswerable well: alone the share of words has an area under the curve of .58 in Russian and .57 in English, the best
cosine .62 and .62, the best score .60 and .54, the scorer's chance .55 and .50; the best of 1,400 sets of up to four of
fourteen signs, fitted in one language and tested in the other, .70 and .72. For their answers share few words with
them, and many of the unanswerable ones are about people and things of the memory. Also tried: the raw cosine instead of
deviations (53 and 81 % refused where 3 % of the answerable are, but it hangs on the embedding model), the best score,
the number of words, the share that any source holds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from memoryapp.engine.text.irregular import bases
from memoryapp.engine.text.lexical import normal, stems

# The log-odds of an answer: what they are without any sign, what the share of the words adds, and a deviation.
_BIAS, _WORDS, _MEANING = -3.65, 7.7, 0.48

_FIGURE = re.compile(r"\d+(?:[.,:]\d+)*")
_CITED = re.compile(r"\[\d+(?:\s*,\s*\d+)*\]")


def terms_of(text: str) -> frozenset[str]:
    """The stems of a text, irregular forms as one."""
    return frozenset(bases(stems(text)))


def covered_share(weights: Mapping[str, float], known: frozenset[str]) -> float:
    """The share of the terms by weight that are ``known``; 0 where there are none."""
    whole = sum(weights.values())
    return sum(weight for term, weight in weights.items() if term in known) / whole if whole else 0.0


def coverage(weights: Mapping[str, float], sources: Sequence[str], meaning: float) -> float:
    """The coverage of a question, given as its terms with their rarity, by ``sources``; 0 without any.

    ``meaning`` is what that part adds to the score of the best passage.
    """
    if not sources:
        return 0.0
    by_words = max(covered_share(weights, terms_of(source)) for source in sources)
    return round(1 / (1 + math.exp(-(_BIAS + _WORDS * by_words + _MEANING * meaning))), 4)


def borne_out(claim: str, text: str) -> float:
    """How far a ``text`` says what a ``claim`` says: the share of its stems, 0 where a figure of it is missing."""
    bare = _CITED.sub(" ", claim)
    if not figures(bare) <= figures(text):
        return 0.0
    terms = terms_of(_FIGURE.sub(" ", bare))
    return len(terms & terms_of(text)) / len(terms) if terms else float(bool(figures(bare)))


def figures(text: str) -> frozenset[str]:
    """The numbers in a text, without what groups their digits."""
    return frozenset(figure.replace(",", "").rstrip(".:") for figure in _FIGURE.findall(normal(text)))
