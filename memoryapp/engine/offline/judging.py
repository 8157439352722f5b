"""How the embedded scorer judges topics that it has read, by words and by the shown score, without any model.

Each topic gets a chance that it contains the answer; ``choosing`` then takes as many of the best as promise the highest
F1. The scorer takes the place of a remote model and sees no more than such a model would.

Measured on 760 questions over five public two-person conversations, cross-validated by conversation, F1 on whole
sessions / topics of the archive, always choosing: by score, its lead and words as before .705/.690, by these signals
.742/.727. The rank as an additional signal changes it by .001 either way.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from memoryapp.engine.fusion import fused_score, z_scores
from memoryapp.engine.offline.question_kinds import wants_judgement, wants_several
from memoryapp.engine.text.irregular import bases
from memoryapp.engine.text.languages import script_of
from memoryapp.engine.text.lexical import K1, B, Floats, idf, is_wide, stems, words
from memoryapp.engine.text.names import is_same_name, lead_of_others, names_in, one_named

# A message and its neighbours belong together: question, answer, reaction.
AROUND = 1

# What each of the ``signals`` adds to the log-odds that a topic contains an answer, by logistic regression.
_BIAS = -2.361
_WEIGHTS = np.array([0.085, 0.196, 0.097, 0.681, 0.435, -0.192, 0.244, 0.580, 0.229, -0.033])
# The first of a few similar topics must not count as a deviation ahead; scores of a search have a spread of 2 to 4.
_LEAST_SPREAD = 2.0

# The share of the query in the best messages of a topic, by its score; 600 topics of the questions above. With it the
# F1 of 13 questions about talk in the other language is .29 instead of .16 on the demo memory, of 116 others .60 as
# before.
_USUAL_SHARE = 0.05

# The score of a text that no search has scored.
_UNKNOWN_SCORE = 0.5


@dataclass(frozen=True, slots=True)
class JudgedTopic:
    """A topic with its shown score; it has no messages when it was not read. ``date`` is the day of its last message
    with one, as 2026-07-06, or empty."""

    id: str
    score: float
    authors: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    date: str = ""


@dataclass(frozen=True, slots=True)
class Judged:
    """A topic with its ``chance`` in (0, 1).

    ``terms`` is the number of the query's stems; ``shared`` are those that the topic contains, rarest first.
    ``together`` is the share of the query's words, by rarity, in its best three consecutive messages. ``telling`` lists
    the messages that share words with the query, best first. A ``foreign`` topic is written in another script than the
    query; it ``lacks_name`` if others like it contain a name of the query, and it does not. About the query and all
    topics read: ``named`` is the one author whom it names, ``by_others`` how much more of it somebody else says than
    the one named.
    """

    topic: JudgedTopic
    chance: float
    foreign: bool
    terms: int
    shared: tuple[str, ...]
    together: float
    telling: tuple[int, ...]
    lacks_name: bool = False
    named: str = ""
    by_others: float = 0.0


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Consecutive messages: how often they contain each of the query's stems, and how many stems they have in all."""

    counts: Mapping[str, int]
    stems: int
    messages: int = 1


@dataclass(frozen=True, slots=True)
class _Weights:
    """The query's stems with their idf over all messages read, and the mean number of stems in a message."""

    idf: Mapping[str, float]
    stems: float

    def weigh(self, run: _Stretch) -> float:
        """Returns BM25 of a run, as if it were a document among others of the same number of messages."""
        damping = K1 * (1 - B + B * run.stems / (self.stems * max(run.messages, 1)))
        return sum(self.idf[term] * n / (n + damping) for term, n in run.counts.items())

    def covered(self, run: _Stretch) -> float:
        """Returns the share of the query, by rarity, that a run contains."""
        whole = sum(self.idf.values())
        return sum(self.idf[term] for term in run.counts) / whole if whole else 0.0


def judge(query: str, topics: Sequence[JudgedTopic], candidates: int = 0) -> list[Judged]:
    """Returns all ``topics``, likeliest first; ties keep their order. ``candidates`` is the number they come from."""
    read = _Reading.of(query, topics)
    odds = _BIAS + signals(query, topics, read, max(candidates, len(topics))) @ _WEIGHTS
    by_others, has_names = read.by_others, read.has_foreign_names
    judged = [
        replace(
            _judged(topic, runs, read.weights, 1 / (1 + math.exp(-value)), other),
            lacks_name=has_names and other and not read.has_name(runs),
            named=read.named,
            by_others=by_others,
        )
        for topic, runs, value, other in zip(topics, read.runs, odds.tolist(), read.foreign, strict=True)
    ]
    return sorted(judged, key=lambda found: -found.chance)


def signals(query: str, topics: Sequence[JudgedTopic], read: _Reading, candidates: int) -> Floats:
    """Returns the signals of whether a topic contains an answer, shape (topics, 10), in the order of ``_WEIGHTS``.

    The fused score and its lead; the lead of the topic's words; the share of the query in its best consecutive
    messages; whether several things are asked for, alone and times the lead; whether a judgement is asked for; the
    score as deviations from the others; the lead of the words of the one person named; the log of the number of
    candidates.
    """
    n = len(topics)
    fused = np.array([fused_score(topic.score) for topic in topics], dtype=np.float64)
    lead = leads(fused)
    # A topic in another script cannot share words but names, so without these it gets no lead and no lag by words, and
    # the share of the query that is usual for its score.
    is_apart = np.array(read.foreign, np.bool_) & (not read.has_foreign_names)
    ahead = np.where(is_apart, 0.0, leads(read.words))
    usual = np.clip(_USUAL_SHARE * fused, 0.0, 1.0)
    together = np.where(read.foreign, np.maximum(usual, read.together), read.together)
    several, judgement = float(wants_several(query)), float(wants_judgement(query))
    columns = (
        fused,
        lead,
        ahead,
        together,
        np.full(n, several),
        several * lead,
        np.full(n, judgement),
        z_scores(fused, _LEAST_SPREAD),
        leads(read.spoken(query)),
        np.full(n, math.log(max(candidates, 1))),
    )
    return np.stack(columns, axis=1)


def answer_chances(query: str, texts: Sequence[str]) -> list[float]:
    """Returns how likely each text answers the query, in (0, 1) and in their order, by words alone."""
    judged = judge(query, [JudgedTopic(str(place), _UNKNOWN_SCORE, texts=(text,)) for place, text in enumerate(texts)])
    chances = {found.topic.id: found.chance for found in judged}
    return [chances[str(place)] for place in range(len(texts))]


def leads(values: Floats) -> Floats:
    """Returns the distance of each value to the best other one; zero for a single value."""
    if len(values) < 2:
        return np.zeros(len(values))
    second, best = np.sort(values)[-2:].tolist()
    ahead: Floats = np.where(values == best, values - second, values - best)
    return ahead


@dataclass(frozen=True, slots=True)
class _Reading:
    """The words of the topics read, compared with the query: a list of runs for each topic, a run for each message.

    ``words`` is the BM25 of each topic, ``together`` the share of the query in its best consecutive messages, both of
    shape (topics,). ``names`` are the stems of names in the query, if a topic in another script was read. ``named`` is
    the one author whom the query names, or empty.
    """

    topics: Sequence[JudgedTopic]
    runs: Sequence[Sequence[_Stretch]]
    weights: _Weights
    words: Floats
    together: Floats
    foreign: Sequence[bool]
    names: Collection[str]
    named: str

    @classmethod
    def of(cls, query: str, topics: Sequence[JudgedTopic]) -> _Reading:
        terms = _terms(query, topics)
        foreign = [bool(topic.texts) and _is_foreign(" ".join(topic.texts), query) for topic in topics]
        names = _names(query, terms) if any(foreign) else dict[str, str]()
        runs = [
            [_one(text, terms, names if other else {}) for text in topic.texts]
            for topic, other in zip(topics, foreign, strict=True)
        ]
        weights = _weights(terms, [run for of_topic in runs for run in of_topic])
        return cls(
            topics,
            runs,
            weights,
            words=np.array([weights.weigh(_joined(of_topic)) for of_topic in runs], dtype=np.float64),
            together=np.array([_together(of_topic, weights) for of_topic in runs], dtype=np.float64),
            foreign=foreign,
            names=frozenset(names.values()),
            named=one_named(query, (author for topic in topics for author in topic.authors)),
        )

    @property
    def has_foreign_names(self) -> bool:
        """Whether a topic in another script contains a name of the query."""
        return any(other and self.has_name(runs) for runs, other in zip(self.runs, self.foreign, strict=True))

    def has_name(self, runs: Sequence[_Stretch]) -> bool:
        return any(not run.counts.keys().isdisjoint(self.names) for run in runs)

    def spoken(self, query: str) -> Floats:
        """Returns BM25 of the messages of the one author whom the query names, shape (topics,); zeros when it does not
        name exactly one."""
        if not self.named:
            return np.zeros(len(self.topics))
        by_named = [
            [run for run, author in zip(runs, topic.authors, strict=False) if author == self.named]
            for topic, runs in zip(self.topics, self.runs, strict=True)
        ]
        return np.array([self.weights.weigh(_joined(runs)) for runs in by_named], dtype=np.float64)

    @property
    def by_others(self) -> float:
        """How much more of the query the best message of another person says than the best of the one who is named;
        0 when the query does not name exactly one."""
        shares = (
            (author, text, self.weights.covered(run))
            for topic, runs in zip(self.topics, self.runs, strict=True)
            for author, text, run in zip(topic.authors, topic.texts, runs, strict=False)
        )
        return lead_of_others(self.named, shares)


def _is_foreign(text: str, query: str) -> bool:
    """Whether a text and a query cannot share words, because they are written in two scripts."""
    if is_wide(text) != is_wide(query):
        return True
    return is_wide(query) and script_of(text) != script_of(query)


def _windows(runs: Sequence[_Stretch]) -> list[_Stretch]:
    return [_joined(runs[max(0, at - AROUND) : at + AROUND + 1]) for at in range(len(runs))]


def _together(runs: Sequence[_Stretch], weights: _Weights) -> float:
    return max(map(weights.covered, _windows(runs)), default=0.0)


def _terms(query: str, topics: Sequence[JudgedTopic]) -> frozenset[str]:
    """Returns the query's stems without those of authors' names, which every topic contains; all if none remain."""
    names = {stem for author in {name for topic in topics for name in topic.authors} for stem in stems(author)}
    terms = frozenset(bases(stems(query)))
    return terms - names or terms


def _names(query: str, terms: Collection[str]) -> Mapping[str, str]:
    """Maps the names in a query to their stems."""
    return {name: stem for name in names_in(query) for stem in stems(name) if stem in terms}


def _one(text: str, terms: Collection[str], names: Mapping[str, str]) -> _Stretch:
    """``names`` are those that the text may contain in another script."""
    found = bases(stems(text))
    same = [stem for word in words(text) for name, stem in names.items() if is_same_name(name, word)] if names else []
    return _Stretch(Counter([*(stem for stem in found if stem in terms), *same]), len(found))


def _joined(runs: Sequence[_Stretch]) -> _Stretch:
    counts: Counter[str] = Counter()
    for run in runs:
        counts.update(run.counts)
    return _Stretch(counts, sum(run.stems for run in runs), sum(run.messages for run in runs))


def _weights(terms: Iterable[str], messages: Sequence[_Stretch]) -> _Weights:
    holding = Counter(term for run in messages for term in run.counts)
    mean = sum(run.stems for run in messages) / max(len(messages), 1)
    # Sorted, because the order of a set, and with it a sum of floats, differs between processes.
    return _Weights({term: idf(len(messages), holding[term]) for term in sorted(terms)}, max(mean, 1.0))


def _judged(topic: JudgedTopic, runs: Sequence[_Stretch], weights: _Weights, chance: float, foreign: bool) -> Judged:
    windows = _windows(runs)
    # The neighbours decide between messages that share the same words.
    worth = [weights.weigh(run) + weights.weigh(window) for run, window in zip(runs, windows, strict=True)]
    counts = _joined(runs).counts
    return Judged(
        topic=topic,
        chance=chance,
        foreign=foreign,
        terms=len(weights.idf),
        shared=tuple(sorted(counts, key=lambda term: (-weights.idf[term], term))),
        together=_together(runs, weights),
        telling=tuple(sorted((at for at, run in enumerate(runs) if run.counts), key=lambda at: -worth[at])),
    )
