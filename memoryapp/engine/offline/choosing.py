"""How many topics the embedded scorer keeps: as many of the likeliest as promise the highest F1, or none.

Whether anything is relevant at all is judged first, of the question as a whole: by the best shown score, by the share
of the question that is said in one place, and by how many words it has, for of a long question a share says more. The
constants are a logistic regression of 760 questions over five public two-person conversations against 500 about
something else (of the other conversations, of the demo memory, of daily life), with conversations held out against each
other. Where nothing is found for 3 % of the answerable ones, nothing is found for 37 % of questions of other
conversations, with the names changed to those who speak here, for 72 % of those about something else altogether, and
for 66 % of such on the demo memory; the rules before found nothing for 34, 42 and 50 % at 4 %.

On another draw, over the same five conversations as the archive cuts them: nothing for 28 % of 190 questions of other
conversations, where the whole version before, with its search, found nothing for 33 %; and for 88 % of 32 questions
about something else, asked of each of the five, 56 % before. So it tells another matter better, but not the same matter
of other people.

Since topics gain by their whole talk (``engine.fusion``) scores are higher, and these constants refuse 2.5 % of the
answerable questions. With twice that gain they refuse 2 %; on one more draw 23 % of 300 of other conversations and 45 %
of 200 about something else. At -1.15 instead it is 3, 29 and 52 %, at F1 .716 instead of .718; but of the harder
questions about the demo memory 7 and 22 % instead of 5 and 13 % of the answerable ones in Russian and English, and no
unanswerable one more. All constants fitted anew, 3, 30 and 56 %. What would win both is not shown to the scorer: the
rarity of the words in the whole memory and the cosine (3, 51 and 80 %); the agent's coverage weighs the first.

Beside release 0.3.2, over two of the conversations as each archives them, asked the same: 39 % of 208 questions of
other conversations and 60 % of 101 about something else are refused where 1.7 % of 231 answerable ones are; there 40
and 54 % where 2.2 % are. At -1.27 no answerable one more is refused here, and 44 and 64 % of the others; at -0.96 2.6,
54 and 72 %. So it is not the signs that refuse less than they did, and -1.45 was left for the harder questions, of
which -1.3 refuses three answerable English ones more and a single unanswerable one.

Of what is relevant the first k are kept whose expected F1 is highest. Tried, and no better: chances fitted on questions
about something else too, with an empty choice worth an F1 of 1 where nothing holds an answer (8.6 % of the answerable
ones empty for as many refusals); as further signals the lead of the best, whether a judgement is asked, and what share
of the question is known at all. The mean of all scores refuses more (42, 82 and 73 %), and says nothing of a memory of
a few topics.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from memoryapp.engine.fusion import fused_score
from memoryapp.engine.offline.judging import Judged
from memoryapp.engine.text.lexical import Floats

_MOST_CHOSEN = 5

# The log-odds that anything is relevant, and the least at which something is chosen.
_BIAS = -10.07
_BEST_FUSED = 0.293
_TOGETHER = 5.93
_TERMS = 3.09
_MOST_TERMS = 5
_LEAST_ODDS = -1.45
# Words say nothing of a topic in another script, or of one that was not read: then the score alone has to be as high.
_LEAST_FUSED = 7.6


def choose(judged: Sequence[Judged]) -> list[Judged]:
    """As many of the best as promise the highest F1, none when nothing is relevant."""
    if not judged or not (_is_answered(judged) or any(map(_is_near, judged))):
        return []
    return likeliest(judged)


def likeliest(judged: Sequence[Judged]) -> list[Judged]:
    """As many of the best as promise the highest F1, whether any is relevant or not."""
    if not judged:
        return []
    chances = np.array([found.chance for found in judged])
    expected = [expected_f1(chances, k) for k in range(1, min(len(chances), _MOST_CHOSEN) + 1)]
    return list(judged[: int(np.argmax(expected)) + 1])


def expected_f1(chances: Floats, k: int) -> float:
    """The expected F1 of keeping the first ``k``, each holding an answer with its own chance, independently."""
    hits, missed = _count(chances[:k]), _count(chances[k:])
    hit, miss = np.arange(len(hits))[:, None], np.arange(len(missed))[None, :]
    return float((hits[:, None] * missed[None, :] * 2 * hit / (k + hit + miss)).sum())


def _count(chances: Floats) -> Floats:
    """How likely 0, 1, 2 … of these come true (Poisson binomial), shape (chances + 1,)."""
    likely = np.ones(1)
    for chance in chances.tolist():
        likely = np.convolve(likely, (1 - chance, chance))
    return likely


def _is_answered(judged: Sequence[Judged]) -> bool:
    """Whether anything at all is said about the question, as far as its words tell."""
    best = max(fused_score(found.topic.score) for found in judged)
    together = max(found.together for found in judged)
    terms = math.log1p(min(judged[0].terms, _MOST_TERMS))
    return _BIAS + _BEST_FUSED * best + _TOGETHER * together + _TERMS * terms >= _LEAST_ODDS


def _is_near(found: Judged) -> bool:
    return (found.foreign or not found.topic.texts) and fused_score(found.topic.score) >= _LEAST_FUSED
