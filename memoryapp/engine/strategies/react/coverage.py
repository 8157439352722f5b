"""How far sources answer a question, from 0 to 1, and whether a text confirms a claim.

Coverage is the likelihood of an answer, estimated from two signals. By words: the largest share of the question's
stems, by their rarity in the whole memory, that one source contains. Words of every other message weigh nothing, and
words that the memory does not contain weigh most. By meaning, because an answer may use other words or another
language: the cosine of the best passage beside that of a usual answer, which is known for the embedded model; for other
models, how many deviations the best passage is nearer than the mean of the memory. Names of authors and dates do not
count.

The weights are logistic regressions, with the coverage of what extracts quote: of 760 questions over five public
two-person conversations against 500 of the other conversations with the names changed and 355 about something else,
those of the demo memory. Cross-validated by conversation, the shares refused of both where 2, 3, 5 and 10 % of the
answerable are:

    words and deviations                       .17/.34   .29/.59   .48/.79   .63/.90
    words and cosine                           .23/.44   .36/.66   .52/.81   .73/.95
    words, cosine, unknown words               .28/.54   .40/.68   .55/.82   .75/.96
    words, deviations, unknown words           .21/.42   .37/.68   .50/.81   .66/.93
    cosine and unknown words                   .35/.60   .46/.71   .54/.79
    lower deviations of the best, unknown      .31/.56   .38/.68   .48/.74
    all of 23 signals                          .33/.67   .46/.78   .61/.87   .78/.95

The cosine replaced deviations, for as many constants. At the point chosen, 2.6 % of the answerable questions are
refused, 32 % of those of other conversations and 60 % of those about something else; before 3.0, 28 and 58 %. Of the
harder questions about the demo memory, on which nothing was fitted, .14 and .13 of the answerable in Russian and in
English (before .20 and .33), and .21 and .36 of 14 unanswerable each (before .29 and .43). Where 3.0 % are refused, it
is .20 and .24, .36 and .36.

Unknown words (the share, by rarity, of those that no passage contains) would add a third constant; with the cosine
alone they would no longer ask what the sources say. A deviation depends less on the model, but several passages near
the question widen the spread that it is measured by; the spread of the lower half alone (root mean square below the
median) needs all cosines of a search. Added to the first row, no gain that lasts over 2, 3, 5 and 10 %: the kind of
thing that is asked for, the lead of the best topic, the best score, the scorer's chance, the number of words. On the
demo memory no signal separates answerable from unanswerable questions well, because half of the unanswerable ones are
about people and things in it: the area under the curve is .57 in Russian and .55 in English for words and deviations,
.59 and .55 with the cosine, .63 and .57 with unknown words too, .66 and .57 with all signals.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from memoryapp.engine.text.irregular import bases
from memoryapp.engine.text.lexical import normal, stems
from memoryapp.engine.text.negation import Signed, signed_sentences

# The log-odds of an answer: without any signal, what the whole share of words adds, and what meaning adds: the usual
# cosine, or a deviation.
_BY_COSINE = (-2.95, 5.3, 3.49)
_BY_DEVIATIONS = (-3.65, 7.7, 0.48)

_FIGURE = re.compile(r"\d+(?:[.,:]\d+)*")
_CITED = re.compile(r"\[\d+(?:\s*,\s*\d+)*\]")


def terms_of(text: str) -> frozenset[str]:
    """Returns the stems of a text; irregular forms of a word become one."""
    return frozenset(bases(stems(text)))


def covered_share(weights: Mapping[str, float], known: frozenset[str]) -> float:
    """Returns the share of the terms, by weight, that are ``known``; 0 when there are no terms."""
    whole = sum(weights.values())
    return sum(weight for term, weight in weights.items() if term in known) / whole if whole else 0.0


def coverage(weights: Mapping[str, float], sources: Sequence[str], deviations: float, nearness: float = 0.0) -> float:
    """Returns the coverage of a question, given as its terms with their rarity, by ``sources``; 0 without sources.

    ``deviations`` is what meaning adds to the score of the best passage; ``nearness`` is that of ``Found``, and counts
    instead if it is known.
    """
    if not sources:
        return 0.0
    by_words = max(covered_share(weights, terms_of(source)) for source in sources)
    bias, words, meaning = _BY_COSINE if nearness else _BY_DEVIATIONS
    odds = bias + words * by_words + meaning * (nearness or deviations)
    return round(1 / (1 + math.exp(-odds)), 4)


def borne_out(claim: str, text: str) -> float:
    """Returns the share of a ``claim``'s stems that a ``text`` contains with the same negations.

    It is 0 when a figure of the claim is missing, and when the sentences that share most words with it say the
    opposite.
    """
    bare = _CITED.sub(" ", claim)
    if not figures(bare) <= figures(text):
        return 0.0
    wanted = frozenset[Signed]().union(*signed_sentences(_FIGURE.sub(" ", bare)))
    if not wanted:
        return float(bool(figures(bare)))
    stated = signed_sentences(text)
    if _contradicted(wanted, stated):
        return 0.0
    return len(wanted & frozenset[Signed]().union(*stated)) / len(wanted)


def _contradicted(wanted: frozenset[Signed], stated: Sequence[frozenset[Signed]]) -> bool:
    """Whether all sentences that share the most stems with the claim negate one that it affirms, or affirm one that it
    negates."""
    terms = {term for term, _negated in wanted}
    shared = [len(terms & {term for term, _negated in sentence}) for sentence in stated]
    most = max(shared, default=0)
    nearest = [sentence for sentence, count in zip(stated, shared, strict=True) if count == most > 0]
    return bool(nearest) and all(_opposes(sentence, wanted) for sentence in nearest)


def _opposes(sentence: frozenset[Signed], wanted: frozenset[Signed]) -> bool:
    return any((term, not negated) in sentence and (term, negated) not in sentence for term, negated in wanted)


def figures(text: str) -> frozenset[str]:
    """Returns the numbers in a text, without the separators that group their digits."""
    return frozenset(figure.replace(",", "").rstrip(".:") for figure in _FIGURE.findall(normal(text)))
