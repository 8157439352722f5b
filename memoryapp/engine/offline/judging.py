"""How the embedded scorer judges topics that it has read, by words and by the shown score, without any model.

Each topic gets a chance that it contains the answer; ``choosing`` then takes as many of the best as promise the highest
F1. The scorer takes the place of a remote model and sees no more than such a model would.

Measured on 760 questions over five public two-person conversations, cross-validated by conversation, F1 on whole
sessions / topics of the archive, always choosing: by score, its lead and words as before .705/.690, by these signals
.742/.727. The rank as an additional signal changes it by .001 either way."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from memoryapp.engine.beside import table_beside
from memoryapp.engine.fusion import fused_score, z_scores
from memoryapp.engine.text.languages import language, script_of
from memoryapp.engine.text.lexical import (
    K1,
    B,
    Floats,
    asks_elsewhere,
    bases,
    idf,
    is_alike,
    is_wide,
    normal,
    stems,
    words,
)
from memoryapp.engine.text.names import is_same_name, kin_asked, lead_of_others, names_in, one_named

# The kind of thing that a question asks for, as far as its words show it, and whether a sentence contains such a
# thing.
#
# "How long" asks for a duration, "кто" for a person, "why" for a reason. A sentence contains what is asked for if it
# has a figure or a word of that kind that is not in the question: a question about Monday already knows Monday. There
# is no expression for places, because nearly every sentence has a preposition.

_WORDS = table_beside(__file__)
_UNITS, _COUNTED, _DAYS, _PEOPLE = ("|".join(_WORDS[name]) for name in ("units", "counted", "days", "people"))
# A name inside a sentence, where a capital letter does not merely begin the sentence.
_NAME = re.compile(r"(?<=[^\W\d_][ ,«“\"(]|[,;:] )([A-ZА-ЯЁ][^\W\d_]+)")
# So many first letters identify a name in every grammatical case.
_STEM_CHARS = 4


_ASKED = {kind: re.compile(rf"\b(?:{'|'.join(each)})\b") for kind, each in _WORDS["asked"].items()}
_HOLDING: Mapping[str, re.Pattern[str]] = {
    "clock": re.compile(
        r"\d{1,2}[:.]\d\d|\d\s?[ap]\.?m\b|o.clock|\bnoon|midnight|полдень|полноч\w+|\d (?:час|утра|вечера|ночи)"
    ),
    "duration": re.compile(
        rf"(?:\d|\b(?:{_COUNTED}|an?|несколько|пар[уа]))[\s-]?(?:{_UNITS})\b|полчаса|полгода|полтора\b"
    ),
    "money": re.compile(
        r"[$€£¥₽]\s?\d|\d\s?(?:k|к|тыс\w*|млн|миллион\w*|руб\w*|долл\w*|евро|[ий]ен\w?)\b|\bтысяч\w*"
        r"|\d\s?(?:dollars?|euros?|pounds?|thousand|million)\b"
    ),
    "share": re.compile(r"\d\s?%|percent|процент|\d[.,]\d"),
    "day": re.compile(rf"\b(?:{_DAYS})\b|\b(?:19|20)\d\d\b|\b\d{{1,2}}[./-]\d\d?\b|\b\d{{1,2}}(?:st|nd|rd|th|-?го)\b"),
    "person": re.compile(rf"\b(?:{_PEOPLE})\b"),
    "reason": re.compile(
        r"\b(?:because|since|so that|due to|otherwise|or else|too \w+|can.?t|cannot"
        r"|потому|поэтому|так как|чтобы|иначе|из-за|ведь|поскольку|причин\w*|слишком|нельзя)\b|[:;]|—"
    ),
    "figure": re.compile(rf"\d|\b(?:{_COUNTED})\b"),
}


def kind_asked_for(question: str) -> str:
    """The kind that a question names first; of two at one place, the more specific one. Empty when it names none."""
    text = normal(question)
    places = [(found.start(), number) for number, each in enumerate(_ASKED.values()) if (found := each.search(text))]
    return list(_ASKED)[min(places)[1]] if places else ""


def holds(kind: str, sentence: str, question: str) -> bool:
    """Whether a ``sentence`` contains a thing of this kind that is not in the ``question``."""
    known = normal(question)
    things = [each[0] for each in _HOLDING[kind].finditer(normal(sentence))]
    names = [normal(name)[:_STEM_CHARS] for name in _NAME.findall(sentence)] if kind == "person" else []
    return any(each not in known for each in (*things, *names))


# What kind of answer a question wants, as far as its words show: several things, a judgement, or what is true now.

# "What books", "which of the cities", "how many", "list": the answer is in more than one place.
_SEVERAL = re.compile(
    r"\b(?:(?:what|which)(?: \w+)? (?!(?:is|was|does|has|this|his|its|us)\b)\w+[^s\W]s|how many|how often"
    r"|list|both|in common|(?:what|which|who|where) (?:all|else)|all (?:the|of)|different|each)\b"
    r"|\b(?:как(?:ие|их|им|ими)|сколько|перечисли\w*|списк?\w{0,2}|все|всех|оба|обе|обоих|кто (?:еще|все)|чем еще)\b"
)
_JUDGEMENT = re.compile(r"\b(?:would|likely|might|could|probably|considered|likelihood)\b|\b(?:бы|вероятно|наверное)\b")

_NOW = re.compile(
    r"\b(?:now|still|nowadays|current|currently|at the moment|these days|latest|jetzt|derzeit|aktuell|maintenant"
    r"|actuellement|ahora|actualmente|adesso|attualmente|agora|teraz|obecnie|зараз|тепер)\b"
    r"|\b(?:сейчас|теперь|нынешн\w*|текущ\w*|до сих пор|на данный момент)\b"
)
# What changes in a life, asked for in the present tense.
_STATE = re.compile(
    r"\b(?:rent|address|job|phone|number|price|salary|cost|costs|live|lives|living|work|works|working|pay|pays)\b"
    r"|\b(?:аренд\w*|адрес\w*|телефон\w*|цен[ауы]|зарплат\w*|стоит|живет|живу|живешь|живут|работает|работаю|платит|плачу)\b"
)
_PRESENT = re.compile(r"\b(?:is|are|am|does|do|has|have|what s|where s)\b|[а-я]")
_PAST = re.compile(
    r"\b(?:was|were|did|had|ago|last|first|before|used to|yesterday|earlier|when|back then|(?:19|20)\d\d|january"
    r"|february|march|april|june|july|august|september|october|november|december)\b"
    r"|\b(?:был[аои]?|раньше|вчера|назад|прошл\w*|когда|тогда|сначала|перв\w*|\w{3,}(?:ал|ил|ел|ял)[аои]?)\b"
)


def wants_present(question: str) -> bool:
    """Whether what is true now is asked for: "now", "сейчас", or a state such as the rent in the present tense."""
    plain = normal(question)
    if _PAST.search(plain):
        return False
    return bool(_NOW.search(plain) or (_STATE.search(plain) and _PRESENT.search(plain)))


def wants_several(question: str) -> bool:
    """Whether several things are asked for: "what books", "how many", "какие"."""
    return bool(_SEVERAL.search(normal(question)))


def wants_judgement(question: str) -> bool:
    """Whether a judgement is asked for that nobody may have said: "would", "likely", "мог бы"."""
    return bool(_JUDGEMENT.search(normal(question)))


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

# The languages whose words search and scorer stem by rules of their own, and what of a topic shows its language.
_STEMMED = frozenset({"en", "ru"})
_LANGUAGE_CHARS = 500

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
    query, one that is ``apart`` in another language; it ``lacks_name`` if others like it contain a name of the query,
    and it does not, or if the query is about "my brother" and it speaks of none. About the query and all topics read:
    ``named`` is the one author whom it names, ``other`` who else says most of it, and ``by_others`` how much more than
    the one named."""

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
    other: str = ""
    apart: bool = False


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
    (by_others, author), has_names, elsewhere = read.by_others, read.has_foreign_names, asks_elsewhere(query)
    kin = kin_asked(query)
    judged = [
        replace(
            _judged(topic, runs, read.weights, 1 / (1 + math.exp(-value)), other),
            lacks_name=(has_names and other and not read.has_name(runs))
            or (not other and bool(kin and topic.texts) and kin.isdisjoint(words(normal(" ".join(topic.texts))))),
            named=read.named,
            by_others=by_others,
            other=author,
            apart=other or (bool(topic.texts) and read.stemmed == elsewhere),
        )
        for topic, runs, value, other in zip(topics, read.runs, odds.tolist(), read.foreign, strict=True)
    ]
    return sorted(judged, key=lambda found: -found.chance)


def signals(query: str, topics: Sequence[JudgedTopic], read: _Reading, candidates: int) -> Floats:
    """Returns the signals of whether a topic contains an answer, shape (topics, 10), in the order of ``_WEIGHTS``.

    The fused score and its lead; the lead of the topic's words; the share of the query in its best consecutive
    messages; whether several things are asked for, alone and times the lead; whether a judgement is asked for; the
    score as deviations from the others; the lead of the words of the one person named; the log of the number of
    candidates."""
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
    shape (topics,). ``stemmed`` says whether their language has a stemmer here. ``names`` are the stems of names in the
    query, if a topic in another script was read. ``named`` is the one author whom the query names, or empty."""

    topics: Sequence[JudgedTopic]
    runs: Sequence[Sequence[_Stretch]]
    weights: _Weights
    words: Floats
    together: Floats
    foreign: Sequence[bool]
    stemmed: bool
    names: Collection[str]
    named: str

    @classmethod
    def of(cls, query: str, topics: Sequence[JudgedTopic]) -> _Reading:
        terms = _terms(query, topics)
        whole = [" ".join(topic.texts) for topic in topics]
        foreign = [bool(text) and _is_foreign(text, query) for text in whole]
        # A talk of two sentences does not show its language; a whole memory does.
        stemmed = language(" ".join(text[:_LANGUAGE_CHARS] for text in whole)) in _STEMMED
        forms = [_forms(terms, "" if stemmed else text) for text in whole]
        names = _names(query, terms) if any(foreign) else dict[str, str]()
        runs = [
            [_one(text, own, names if other else {}) for text in topic.texts]
            for topic, own, other in zip(topics, forms, foreign, strict=True)
        ]
        weights = _weights(terms, [run for of_topic in runs for run in of_topic])
        return cls(
            topics,
            runs,
            weights,
            words=np.array([weights.weigh(_joined(of_topic)) for of_topic in runs], dtype=np.float64),
            together=np.array([_together(of_topic, weights) for of_topic in runs], dtype=np.float64),
            foreign=foreign,
            stemmed=stemmed,
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
        """BM25 of the messages of the one author whom the query names, shape (topics,); zeros without one."""
        if not self.named:
            return np.zeros(len(self.topics))
        by_named = [
            [run for run, author in zip(runs, topic.authors, strict=False) if author == self.named]
            for topic, runs in zip(self.topics, self.runs, strict=True)
        ]
        return np.array([self.weights.weigh(_joined(runs)) for runs in by_named], dtype=np.float64)

    @property
    def by_others(self) -> tuple[float, str]:
        """How much more of the query the best message about another person says than the best about the one who is
        named, and who says most of it beside them; 0 and empty when the query does not name exactly one."""
        shares = [
            (author, text, self.weights.covered(run))
            for topic, runs in zip(self.topics, self.runs, strict=True)
            for author, text, run in zip(topic.authors, topic.texts, runs, strict=False)
        ]
        others = [(share, author) for author, _text, share in shares if self.named and author not in ("", self.named)]
        return lead_of_others(self.named, shares), max(others)[1] if others else ""


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


def _forms(terms: Collection[str], text: str) -> Mapping[str, str]:
    """The stems that stand for a term of the query: the term, and in a ``text`` whose language is stemmed here by the
    rules of another one, what begins like it."""
    forms = {term: term for term in terms}
    for stem in {*bases(stems(text))} - forms.keys():
        if like := next((term for term in sorted(terms) if is_alike(stem, term)), ""):
            forms[stem] = like
    return forms


def _one(text: str, forms: Mapping[str, str], names: Mapping[str, str]) -> _Stretch:
    """``forms`` maps stems to the query's; ``names`` are those that the text may contain in another script."""
    found = bases(stems(text))
    same = [stem for word in words(text) for name, stem in names.items() if is_same_name(name, word)] if names else []
    return _Stretch(Counter([*(forms[stem] for stem in found if stem in forms), *same]), len(found))


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
