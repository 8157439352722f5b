"""How many topics the embedded scorer keeps: as many of the likeliest as promise the highest F1, or none.

Whether anything is relevant at all is judged first, for the question as a whole: by the best shown score, by the share
of the question that one place contains, and by its number of words, because a share means more for a long question. The
constants are a logistic regression of 760 questions over five public two-person conversations against 500 about
something else (from the other conversations, the demo memory, daily life), cross-validated by conversation. When 3 % of
the answerable ones are refused, so are 37 % of questions of other conversations, with the names changed to those of the
authors here, 72 % of those about something else altogether, and 66 % of such on the demo memory; the rules before
refused 34, 42 and 50 % at 4 %.

On another sample, over the same five conversations as the archive divides them, 28 % of 190 questions of other
conversations are refused, 33 % by the complete version before with its search; of 32 questions about something else,
asked of each of the five, 88 %, before 56 %. So it recognises another subject better, but not the same subject of other
people.

Since all passages of a topic add to its score (``engine.fusion``), scores are higher, and these constants refuse 2.5 %
of the answerable questions. With twice that gain they refuse 2 %; on one more sample 23 % of 300 of other conversations
and 45 % of 200 about something else. With -1.15 it is 3, 29 and 52 %, at F1 .716 instead of .718; but of the harder
questions about the demo memory 7 and 22 % instead of 5 and 13 % of the answerable ones in Russian and English, and no
further unanswerable one. With all constants fitted again it is 3, 30 and 56 %. The signals that would improve both are
not shown to the scorer: the rarity of the words in the whole memory and the cosine (3, 51 and 80 %); the agent's
coverage uses the first.

Compared with release 0.3.2 on the same questions, over two of the conversations as each version archives them: 39 % of
208 questions of other conversations and 60 % of 101 about something else are refused when 1.7 % of 231 answerable ones
are; by 0.3.2, 40 and 54 % when 2.2 % are. With -1.27 no further answerable one is refused here, and 44 and 64 % of the
others; with -0.96, 2.6, 54 and 72 %. So the signals are not weaker than before, and -1.45 was kept for the harder
questions, of which -1.3 refuses three more answerable English ones and only one more unanswerable one.

What others than the person whom the question names say of it is no answer, however much it is ("what did Anna paint",
where Boris painted). Of 210 answerable questions of those conversations with the name changed to that of the other
person, 1 % were refused; with the bound on what others may say more (``names.lead_of_others``, by words alone) it is
23 %, of the answerable ones 3.2 instead of 1.8 %, of 200 of other conversations 31 instead of 30 %. With .4 it is 30 %
and 4.5 %, with .5 18 % and 2.6 %. What is below the bound is said in the reason. Fitted again with the share of the
question that no topic read contains, and with the best cosine, the first constants refuse no more of other
conversations at 2 and 3 % of the answerable (.25 to .29 and .34 to .37 instead of .33 and .42), and of 30 unanswerable
Russian questions .03 to .30 where they refuse .20, with up to .17 instead of .04 of the answerable ones. So both were
left out; the share is contained in the best messages' already.

Of talk in another script than the question's, what lacks a name of the question that other such talk contains is not
chosen, and where the best topic shares one word of several with the question, the nearest talk in another script comes
before it. On the demo's questions (40 older ones, English, Russian) the F1 is .726, .459 and .545 instead of .713, .459
and .545; talk in one script is chosen as before. Not better: deviations of shared words among passages of the
question's script alone, in the search (.698, .436 and .561), and half of that (.703, .444 and .548).

In a small memory these constants refuse what is answered: a deviation among n passages is below the square root of n,
and a question of two words, of which the talk has one, counts as half unknown. So two more things are signs of an
answer. The best topic shares a word with the question, and is far before the next, as seldom happens by chance. Or the
whole memory is a few messages, of which a topic has half of the question's words. Of 360 questions in 17 languages,
each about one of 20 short talks of a language, 101 were refused and 65 are; of 110 unanswerable ones there 102 and 99.
In a memory of one to three such talks two thirds were refused, and a third is. None of the development set and of the
demo's questions is chosen otherwise.

A question in another language than the talk shares no word with it, and most such questions found nothing: there the
scores are of meaning alone, and the best one is far before the next when it is enough. Of 200 questions about those
talks in another language 174 were refused and 78 are, of 90 unanswerable ones 90 and 88; again none of the development
set and of the demo's is chosen otherwise.

Since a message that says "you" and not "I" is about the other of two people, the bound on what others may say more is
.25 and the least log-odds are -1.15: the figures are in ``docs/measurements.md``. Fewer topics than are read at most
are judged by their own scores, as the development sets in eight languages showed (``_leads_a_few``).

If anything is relevant, the first k topics with the highest expected F1 are kept. Tried, and not better: chances fitted
also on questions about something else, with an F1 of 1 for an empty choice when nothing contains an answer (8.6 % of
the answerable ones empty for as many refusals); as further signals the lead of the best, whether a judgement is asked
for, and the known share of the question. The mean of all scores refuses more (42, 82 and 73 %), but means nothing in a
memory of a few topics."""

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from memoryapp.engine.fusion import fused_score
from memoryapp.engine.offline.judging import Judged
from memoryapp.engine.parameters import USUAL_CERTAINTY
from memoryapp.engine.text.lexical import Floats, stems

_MOST_CHOSEN = 5

# The constants of the log-odds that anything is relevant, and the least log-odds at which something is chosen.
_BIAS = -10.07
_BEST_FUSED = 0.293
_TOGETHER = 5.93
_TERMS = 3.09
_MOST_TERMS = 5
_LEAST_ODDS = -1.15
# How much more of the question somebody else may say than the person whom it names.
_MOST_BY_OTHERS = 0.25
# The least score of a topic in another script, or one that was not read, because words say nothing about it.
_LEAST_FUSED = 7.6
# A topic that contains less of the question than this, in a single word, may be about something else.
_MUCH = 0.5

# How far before the next the best topic is, in scores, where it stands out.
_FAR = 6.0
# The same where the best topic shares no word with the query, and its least score.
_FAR_IN_MEANING, _LEAST_MEANT = 3.4, 4.0
# The same among fewer topics than the scorer reads: the least sum of score, half the lead and the share of the question
# times this; in another language the least of score and twice the lead, which counts as this much for one that alone is
# near enough to be shown. What contains less of the question than a little shares a word with it by accident.
_A_FEW = 12
_LED_BY_WORDS, _LEAST_LED, _A_LITTLE = 5.0, 4.3, 0.09
_LEAST_LED_IN_MEANING, _ALONE = 6.0, 3.0
# What is a memory of a few messages.
_FEW_TOPICS, _FEW_MESSAGES, _HALF = 5, 20, 0.5
# Beyond these log-odds nothing is surer.
_MOST_ODDS = 20.0

# How many stems two topics on one subject share, and in how many topics read each of these is at most.
_SAME_SUBJECT, _FEW_HOLD = 2, 3


def choose(judged: Sequence[Judged], least: int = USUAL_CERTAINTY) -> list[Judged]:
    """Returns as many of the best as promise the highest F1; none below the ``least`` certainty."""
    if not judged or certainty(judged) < least:
        return []
    return _with_other_language(judged, likeliest([found for found in judged if not found.lacks_name]))


def certainty(judged: Sequence[Judged]) -> int:
    """How sure it is that the topics answer the question, in percent: the surest sign of several, and no more than what
    the one whom the question names says of it permits. 50 where the constants above were set."""
    if not judged:
        return 0
    signs = (_is_answered, _stands_out, _leads_a_few, _holds_half, _has_near)
    odds = max(sign(judged) for sign in signs)
    if judged[0].by_others > 0:
        odds = min(odds, _TOGETHER * (_MOST_BY_OTHERS - judged[0].by_others))
    # Down to the percent, so that what lies below the bound is below the least.
    return int(100 / (1 + math.exp(-max(-_MOST_ODDS, min(odds, _MOST_ODDS)))))


def _with_other_language(judged: Sequence[Judged], chosen: list[Judged]) -> list[Judged]:
    """What was chosen, after the nearest topic in another script, where the best of it shares a single word of several
    with the query, and the rarer ones stand in no topic of the query's script."""
    if not chosen or chosen[0].foreign or len(chosen[0].shared) != 1 or chosen[0].together >= _MUCH:
        return chosen
    near = max(filter(_is_near, judged), key=lambda found: found.topic.score, default=None)
    if near is None or not near.foreign:
        return chosen
    return [near, *(found for found in chosen if found is not near)][:_MOST_CHOSEN]


def latest_beside(judged: Sequence[Judged], chosen: Sequence[Judged]) -> tuple[Judged, tuple[str, ...]] | None:
    """The newest topic read that is later than the best one chosen and on the same subject, with the stems they share:
    two or more, each in few of the topics read. None where there is none."""
    best = chosen[0].topic if chosen else None
    if best is None or not best.date:
        return None
    stems_of = {found.topic.id: {*stems(" ".join(found.topic.texts))} for found in judged}
    held = Counter(stem for each in stems_of.values() for stem in each)
    own = {stem for stem in stems_of[best.id] if held[stem] <= _FEW_HOLD}
    later = [
        (found, tuple(sorted(own & stems_of[found.topic.id])))
        for found in judged
        if found.topic.date > best.date and len(own & stems_of[found.topic.id]) >= _SAME_SUBJECT
    ]
    return max(later, key=lambda each: each[0].topic.date, default=None)


def is_by_others(judged: Judged) -> bool:
    """Whether others than the person whom the question names say what it asks about."""
    return judged.by_others > _MOST_BY_OTHERS


def likeliest(judged: Sequence[Judged]) -> list[Judged]:
    """Returns as many of the best as promise the highest F1, whether any is relevant or not."""
    if not judged:
        return []
    chances = np.array([found.chance for found in judged])
    expected = [expected_f1(chances, k) for k in range(1, min(len(chances), _MOST_CHOSEN) + 1)]
    return list(judged[: int(np.argmax(expected)) + 1])


def expected_f1(chances: Floats, k: int) -> float:
    """Returns the expected F1 of the first ``k``; each contains an answer with its own chance, independently."""
    hits, missed = _count(chances[:k]), _count(chances[k:])
    hit, miss = np.arange(len(hits))[:, None], np.arange(len(missed))[None, :]
    return float((hits[:, None] * missed[None, :] * 2 * hit / (k + hit + miss)).sum())


def _count(chances: Floats) -> Floats:
    """Returns the probabilities that 0, 1, 2 … of these occur (Poisson binomial), shape (chances + 1,)."""
    likely = np.ones(1)
    for chance in chances.tolist():
        likely = np.convolve(likely, (1 - chance, chance))
    return likely


# How sure a sign is that the topics say anything about the question: log-odds, above 0 where it is one.


def _is_answered(judged: Sequence[Judged]) -> float:
    """By score and words."""
    best = max(fused_score(found.topic.score) for found in judged)
    together = max(found.together for found in judged)
    terms = math.log1p(min(judged[0].terms, _MOST_TERMS))
    return _BIAS + _BEST_FUSED * best + _TOGETHER * together + _TERMS * terms - _LEAST_ODDS


def _stands_out(judged: Sequence[Judged]) -> float:
    """By how far the best topic is before the next; alone, before the mean of all, which tells nothing of meaning."""
    best = max(judged, key=lambda found: found.topic.score)
    scores = sorted((fused_score(found.topic.score) for found in judged), reverse=True)
    lead = scores[0] - (scores[1] if len(scores) > 1 else 0.0)
    if best.shared:
        return _BEST_FUSED * (lead - _FAR)
    return _BEST_FUSED * min(lead - _FAR_IN_MEANING, scores[0] - _LEAST_MEANT) if len(scores) > 1 else -_MOST_ODDS


def _leads_a_few(judged: Sequence[Judged]) -> float:
    """Of a few topics, by how near the likeliest is, how far before the others, and how much of the question it
    contains; without the last where it is in another language."""
    best = judged[0]
    if len(judged) >= _A_FEW or not (best.apart or best.together >= _A_LITTLE):
        return -_MOST_ODDS
    score, *others = (fused_score(found.topic.score) for found in judged)
    lead = score - max(others) if others else 0.0
    if best.together >= _A_LITTLE:
        return _BEST_FUSED * (score + lead / 2 + _LED_BY_WORDS * best.together - _LEAST_LED)
    return _BEST_FUSED * (score + (2 * lead if others else _ALONE) - _LEAST_LED_IN_MEANING)


def _holds_half(judged: Sequence[Judged]) -> float:
    """Where the whole memory is a few messages, by whether a topic of it has half of the query's words."""
    messages = [len(found.topic.texts) for found in judged]
    is_small = len(judged) <= _FEW_TOPICS and all(messages) and sum(messages) <= _FEW_MESSAGES
    held = max((len(found.shared) / found.terms for found in judged if found.terms), default=0.0)
    return _TOGETHER * (held - _HALF) if is_small else -_MOST_ODDS


def _has_near(judged: Sequence[Judged]) -> float:
    """By the nearest topic of which words say nothing."""
    near = (fused_score(found.topic.score) for found in judged if _may_be_near(found))
    return _BEST_FUSED * (max(near, default=-_MOST_ODDS) - _LEAST_FUSED)


def _is_near(found: Judged) -> bool:
    return _may_be_near(found) and fused_score(found.topic.score) >= _LEAST_FUSED


def _may_be_near(found: Judged) -> bool:
    return not found.lacks_name and (found.foreign or not found.topic.texts)
