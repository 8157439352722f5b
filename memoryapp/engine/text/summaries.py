"""A summary for a topic without a chat model: who says what, and when.

``Melanie: ran a charity race for mental health last Saturday (25 May 2023)``. The most telling sentences are those with
the terms that are frequent in the topic and rare in the rest of the memory (tf-idf over the owner's messages), each
with its speaker in place of "I" and without greetings. They are phrases of the messages, because a list of terms says
little to people. Where an assistant takes part, only the user's messages count: the topic is what the user asked.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice

import numpy as np

from memoryapp.engine.embeddings import Embedder, Vectors
from memoryapp.engine.memory import MessageContent
from memoryapp.engine.text import leads
from memoryapp.engine.text.languages import general, script_of
from memoryapp.engine.text.lexical import Floats, idf, stems
from memoryapp.engine.text.scripts import WORD, beginning
from memoryapp.engine.text.terms import common
from memoryapp.engine.text.titles import SMALL_TALK, nearness, plain, sentences_of

# Words the summary of some messages, without a chat model.
Summarise = Callable[[Sequence[MessageContent]], Awaitable[str]]

_MOST_SENTENCES = 60
_LEAST_STEMS = 3
_SENTENCE_CHARS = 100
_SAME = 0.6
# The weight of each quality beside the cosine to the mean; chosen by reading summaries of real talk.
_TERMS_WORTH, _TERMS_COUNTED = 0.9, 5
_OPENING_WORTH = 0.15
_ACT_WORTH = 0.3
_NAMED_WORTH = 0.35
# Below one, so that a stem of one message weighs less than half of a stem of two.
_ONCE = 0.5
# A name or a day says what a talk is about; a capital letter at the beginning of a sentence says nothing.
_NAMED = re.compile(r"(?<=\w[ ,])[A-ZА-ЯЁ][a-zа-яё]{2}|\d")
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
    """One line: at most two sentences with their speakers, the more telling one first, and the day.

    Raises EmbeddingError.
    """
    subject = _subject_messages(messages)
    weights = _weights(subject, memory or StemFrequencies())
    sentences = list(_sentences(subject)) or _whole_sentences(subject, weights)
    line = _joined(await _best(sentences, weights, embedder))
    if not line:
        return _shortened(next((text for m in messages if (text := plain(m.text))), "")) or general(messages)
    return f"{line[:1].upper()}{line[1:]} ({_day(messages[0].sent_at, line)})"


def _subject_messages(messages: Sequence[MessageContent]) -> list[MessageContent]:
    """The user's messages; without an assistant, those of all people."""
    has_assistant = any(message.role == "assistant" for message in messages)
    return [message for message in messages if message.role == "user" or (not has_assistant and message.role == "peer")]


def _names(messages: Iterable[MessageContent]) -> set[str]:
    """The speakers' names in lower case, each part alone."""
    return {part.lower() for name in {message.author for message in messages} for part in _WORD.findall(name)}


def _weights(messages: Sequence[MessageContent], memory: StemFrequencies) -> dict[str, float]:
    """The weight of each stem: the number of messages that contain it, times its rarity in the rest of the memory."""
    names = _names(messages)
    times = Counter(stem for message in messages for stem in set(stems(plain(message.text))))
    return {
        stem: math.log(_ONCE + count) * memory.rarity(stem)
        for stem, count in times.items()
        if stem not in common() and not stem[:1].isdecimal() and not leads.is_of(stem, names)
    }


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


def _whole_sentences(messages: Sequence[MessageContent], weights: Mapping[str, float]) -> list[_Sentence]:
    """Where no sentence stands alone, the first ones as they were said, if they have a term of the topic."""
    found = (
        _Sentence(message.author, text, is_act=False, stems=frozenset(stems(text)))
        for message in messages
        for text in sentences_of(message.text)
    )
    return list(
        islice((each for each in found if len(each.stems) > 1 and each.stems & weights.keys()), _MOST_SENTENCES)
    )


async def _best(sentences: Sequence[_Sentence], weights: Mapping[str, float], embedder: Embedder) -> list[_Sentence]:
    """The best sentence and the next best that differs from it."""
    if not sentences:
        return []
    texts = [*SMALL_TALK, *(sentence.text for sentence in sentences)]
    vectors = await embedder.embed(embedder.profile.as_passages(texts))
    small_talk, sentence_vectors = vectors[: len(SMALL_TALK)], vectors[len(SMALL_TALK) :]
    worth = nearness(sentence_vectors, small_talk) + _wording(sentences, weights)
    return [sentences[at] for at in _best_two(worth, sentence_vectors)]


def _wording(sentences: Sequence[_Sentence], weights: Mapping[str, float]) -> Floats:
    most = sum(sorted(weights.values(), reverse=True)[:_TERMS_COUNTED]) or 1.0
    worth = np.zeros(len(sentences))
    for at, sentence in enumerate(sentences):
        weightiest = sorted((weights.get(stem, 0.0) for stem in sentence.stems), reverse=True)[:_TERMS_COUNTED]
        worth[at] = _TERMS_WORTH * sum(weightiest) / most + _ACT_WORTH * sentence.is_act
        worth[at] += _NAMED_WORTH * bool(_NAMED.search(sentence.text))
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
    return beginning(sentence, _SENTENCE_CHARS).rstrip(".,;:!?-– 。！？；，、।۔") + "…"


def _day(at: datetime, text: str) -> str:
    """``25 May 2023``, in Russian where the text is; ``2023-05-25`` in any other script."""
    script = script_of(text)
    if script not in ("LATIN", "CYRILLIC", ""):
        return f"{at:%Y-%m-%d}"
    months = _RUSSIAN_MONTHS if script == "CYRILLIC" else _ENGLISH_MONTHS
    return f"{at.day} {months.split()[at.month - 1]} {at.year}"
