"""A summary for a topic without a chat model: what it is about, who says what, and when.

``Charity race, mental health — Melanie: ran a charity race for mental health last Saturday (25 May 2023)``. The
heading holds the terms that are frequent in the topic and rare in the rest of the memory (tf-idf over the owner's
messages). The most telling sentences follow, each with its speaker in place of "I" and without greetings. Where an
assistant takes part, only the user's messages count: the topic is what the user asked.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np

from memoryapp.engine.embeddings import Embedder, Vectors
from memoryapp.engine.memory import MessageContent
from memoryapp.engine.text import leads
from memoryapp.engine.text.languages import general, script_of
from memoryapp.engine.text.lexical import Floats, idf, stems
from memoryapp.engine.text.scripts import WORD
from memoryapp.engine.text.terms import common, is_oblique, likeness_of_a_noun
from memoryapp.engine.text.titles import SMALL_TALK, nearness, plain, sentences_of

# Words the summary of some messages, without a chat model.
Summarise = Callable[[Sequence[MessageContent]], Awaitable[str]]

_DASH = " — "
_MOST_SENTENCES = 60
_LEAST_STEMS = 3
_SENTENCE_CHARS = 100
_HEADING_TERMS, _HEADING_CHARS = 3, 60
_SAME = 0.6
# The weight of each quality beside the cosine to the mean; chosen by reading summaries of real talk.
_TERMS_WORTH, _TERMS_COUNTED = 0.9, 5
_OPENING_WORTH = 0.15
_ACT_WORTH = 0.3
_PROPER = 1.3
_IN_SENTENCES = 1.3
# Below one, so that a stem of one message weighs less than half of a stem of two.
_ONCE = 0.5
_PHRASE = 0.8
_OBLIQUE = 0.7
_APOSTROPHE = re.compile("['’]")
_WORD = re.compile(rf"{WORD.pattern}(?:['’-]{WORD.pattern})*")

_ENGLISH_MONTHS = "January February March April May June July August September October November December"
_RUSSIAN_MONTHS = "января февраля марта апреля мая июня июля августа сентября октября ноября декабря"


@dataclass(frozen=True, slots=True)
class StemFrequencies:
    """The words of a memory: in how many of ``messages`` (all, or a sample) each stem occurs."""

    holding: Mapping[str, int] = field(default_factory=dict)
    messages: int = 0

    def rarity(self, stem: str) -> float:
        """The idf of the stem; 1 for every stem while nothing is known of the memory."""
        return idf(self.messages, self.holding.get(stem, 0)) if self.messages else 1.0


def background(texts: Iterable[str]) -> StemFrequencies:
    holding: Counter[str] = Counter()
    count = 0
    for text in texts:
        holding.update(set(stems(plain(text))))
        count += 1
    return StemFrequencies(holding, count)


@dataclass(frozen=True, slots=True)
class _Sentence:
    """A sentence as it reads after its speaker's name; ``is_act`` is true when it is about the speaker."""

    speaker: str
    text: str
    is_act: bool
    stems: frozenset[str]


async def summary(messages: Sequence[MessageContent], embedder: Embedder, memory: StemFrequencies | None = None) -> str:
    """One line: heading, at most two sentences with their speakers, the day. Raises EmbeddingError."""
    subject = _subject_messages(messages)
    weights = _weights(subject, memory or StemFrequencies())
    best = await _best(list(_sentences(subject)), weights, embedder)
    heading = ", ".join(_terms(subject, weights, frozenset().union(*(sentence.stems for sentence in best))))
    statements = _joined(best) or ", ".join(_speakers(subject) if heading else ())
    if not heading and not statements:
        return _shortened(next((text for m in messages if (text := plain(m.text))), "")) or general(messages)
    line = _DASH.join(filter(None, (heading[:1].upper() + heading[1:], statements)))
    return f"{line} ({_day(messages[0].sent_at, line)})"


def heading(summary: str) -> str:
    """The short title of a summary: its terms if there are any, otherwise the summary without its day."""
    terms, dash, rest = summary.partition(_DASH)
    return terms if dash and rest and len(terms) <= _HEADING_CHARS + 1 else _shortened(summary)


def _subject_messages(messages: Sequence[MessageContent]) -> list[MessageContent]:
    """The user's messages; without an assistant, those of all people."""
    has_assistant = any(message.role == "assistant" for message in messages)
    return [message for message in messages if message.role == "user" or (not has_assistant and message.role == "peer")]


def _speakers(messages: Iterable[MessageContent]) -> list[str]:
    return list(dict.fromkeys(message.author for message in messages if message.author))


def _names(messages: Iterable[MessageContent]) -> set[str]:
    """The speakers' names in lower case, each part alone."""
    return {part.lower() for name in _speakers(messages) for part in _WORD.findall(name)}


# Terms


def _weights(messages: Sequence[MessageContent], memory: StemFrequencies) -> dict[str, float]:
    """The weight of each stem: the number of messages that contain it, times its rarity in the rest of the memory."""
    names = _names(messages)
    times = Counter(stem for message in messages for stem in set(stems(plain(message.text))))
    return {
        stem: math.log(_ONCE + count) * memory.rarity(stem)
        for stem, count in times.items()
        if stem not in common() and not stem[:1].isdecimal() and not leads.is_of(stem, names)
    }


@dataclass(slots=True)
class _Term:
    """A word, or two consecutive words, as written: its forms with their counts, and its weight."""

    forms: Counter[str] = field(default_factory=Counter)
    messages: set[int] = field(default_factory=set)
    is_proper: bool = False

    def form(self) -> str:
        """The spelling of the term: a name with its capital letter, otherwise the form that reads best alone."""
        forms = sorted(self.forms, key=lambda form: (is_oblique(form), -self.forms[form], form))
        return next((form for form in forms if form[:1].isupper()), forms[0]) if self.is_proper else forms[0]


def _terms(messages: Sequence[MessageContent], weights: Mapping[str, float], chosen_stems: frozenset[str]) -> list[str]:
    """The terms of the heading, best first; none shares a word with a better one.

    ``chosen_stems`` are those of the sentences that follow the heading; terms made of them are preferred.
    """
    found = _found(messages, weights)
    worth = {
        key: _worth(key, term, weights) * (_IN_SENTENCES if chosen_stems.issuperset(key) else 1)
        for key, term in found.items()
    }
    ranked = sorted(found, key=lambda key: (-worth[key], key))
    chosen: list[str] = []
    used: set[str] = set()
    for key in ranked:
        form = found[key].form()
        fits = len(", ".join([*chosen, form])) <= _HEADING_CHARS
        if len(chosen) < _HEADING_TERMS and fits and not used & set(key):
            chosen.append(form)
            used |= set(key)
    return chosen


def _worth(key: tuple[str, ...], term: _Term, weights: Mapping[str, float]) -> float:
    worth = sum(weights[stem] for stem in key) * (_PHRASE if len(key) > 1 else 1.0)
    form = term.form()
    likeness = likeness_of_a_noun(form.split()[-1]) * (_OBLIQUE if is_oblique(form) else 1.0)
    return worth * likeness * (_PROPER if term.is_proper else 1.0)


def _found(messages: Sequence[MessageContent], weights: Mapping[str, float]) -> dict[tuple[str, ...], _Term]:
    """Words, and pairs of words that occur together in more than one message."""
    found: dict[tuple[str, ...], _Term] = {}
    for number, message in enumerate(messages):
        for sentence in sentences_of(message.text):
            _gather(number, sentence, weights, found)
    return {key: term for key, term in found.items() if len(key) == 1 or len(term.messages) > 1}


def _gather(number: int, sentence: str, weights: Mapping[str, float], found: dict[tuple[str, ...], _Term]) -> None:
    before: tuple[str, str, int] | None = None
    for place, match in enumerate(_WORD.finditer(sentence)):
        # The first part of a contraction: "family's"; but "weren't" names no subject.
        word = "" if match[0].endswith(("n't", "n’t")) else _APOSTROPHE.split(match[0])[0]
        known = [stem for stem in stems(word)[:1] if stem in weights and len(word) > 2]
        if not known:
            before = None
            continue
        is_proper = place > 0 and word[0].isupper()
        _count(found, (known[0],), word, number, is_proper)
        if before and before[2] + 1 == match.start() and before[0] != known[0]:
            _count(found, (before[0], known[0]), f"{before[1]} {word}", number, is_proper)
        before = (known[0], word, match.end())


def _count(found: dict[tuple[str, ...], _Term], key: tuple[str, ...], form: str, number: int, is_proper: bool) -> None:
    term = found.setdefault(key, _Term())
    term.forms[form if is_proper or form[1:] != form[1:].lower() else form.lower()] += 1
    term.messages.add(number)
    term.is_proper = term.is_proper or is_proper


# Sentences


def _sentences(messages: Sequence[MessageContent]) -> Iterator[_Sentence]:
    """The sentences that a summary may contain, in order; of many, every n-th, so that they cover the whole topic."""
    names = _names(messages)
    has_peers = any(message.role == "peer" for message in messages)
    found: list[_Sentence] = []
    for message in messages:
        for text in sentences_of(message.text):
            led = leads.statement_of(text, names, questions=not has_peers)
            if led is None:
                continue
            sentence_stems = frozenset(stems(led.text))
            if len(sentence_stems) >= _LEAST_STEMS:
                found.append(_Sentence(message.author, led.text, led.is_own, sentence_stems))
    yield from found[:: len(found) // _MOST_SENTENCES + 1]


async def _best(sentences: Sequence[_Sentence], weights: Mapping[str, float], embedder: Embedder) -> list[_Sentence]:
    """The best sentence and the next best that differs from it, in the order of the messages."""
    if not sentences:
        return []
    texts = [*SMALL_TALK, *(sentence.text for sentence in sentences)]
    vectors = await embedder.embed(embedder.profile.as_passages(texts))
    small_talk, sentence_vectors = vectors[: len(SMALL_TALK)], vectors[len(SMALL_TALK) :]
    worth = nearness(sentence_vectors, small_talk) + _wording(sentences, weights)
    return [sentences[at] for at in sorted(_best_two(worth, sentence_vectors))]


def _wording(sentences: Sequence[_Sentence], weights: Mapping[str, float]) -> Floats:
    most = sum(sorted(weights.values(), reverse=True)[:_TERMS_COUNTED]) or 1.0
    worth = np.zeros(len(sentences))
    for at, sentence in enumerate(sentences):
        weightiest = sorted((weights.get(stem, 0.0) for stem in sentence.stems), reverse=True)[:_TERMS_COUNTED]
        worth[at] = _TERMS_WORTH * sum(weightiest) / most + _ACT_WORTH * sentence.is_act
    worth[0] += _OPENING_WORTH
    return worth


def _best_two(worth: Floats, vectors: Vectors) -> list[int]:
    order = np.argsort(-worth, kind="stable").tolist()
    first = order[0]
    other = next((at for at in order[1:] if float(vectors[at] @ vectors[first]) < _SAME), None)
    return [first] if other is None else [first, other]


def _joined(sentences: Sequence[_Sentence]) -> str:
    """The sentences, each after its speaker, unless the one before has the same speaker."""
    parts: list[str] = []
    before = ""
    for sentence in sentences:
        is_named = sentence.speaker and sentence.speaker != before
        parts.append(f"{sentence.speaker}: {_shortened(sentence.text)}" if is_named else _shortened(sentence.text))
        before = sentence.speaker
    return "; ".join(parts)


def _shortened(sentence: str) -> str:
    if len(sentence) <= _SENTENCE_CHARS:
        return sentence.rstrip(".!;,: 。！；，、।۔")
    return sentence[:_SENTENCE_CHARS].rsplit(" ", 1)[0].rstrip(".,;:!?-– 。！？；，、।۔") + "…"


def _day(at: datetime, text: str) -> str:
    """``25 May 2023``, in Russian where the text is; ``2023-05-25`` in any other script."""
    script = script_of(text)
    if script not in ("LATIN", "CYRILLIC", ""):
        return f"{at:%Y-%m-%d}"
    months = _RUSSIAN_MONTHS if script == "CYRILLIC" else _ENGLISH_MONTHS
    return f"{at.day} {months.split()[at.month - 1]} {at.year}"
