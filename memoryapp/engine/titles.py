"""A title for a topic without a chat model: its most telling sentences, as they were said.

Telling is what lies near to the mean of all sentences and far from small talk, holds many words that carry
meaning, and above all words that the talk comes back to. With an assistant only what the user said is
considered, for a topic is what was asked, and the sentence that opened it has an advantage.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from memoryapp.engine.embeddings import Embedder, Vectors
from memoryapp.engine.lexical import Floats, clean, stems
from memoryapp.engine.memory import MessageContent

UNTITLED = "General conversation"

_MOST_SENTENCES = 60
_LEAST_STEMS = 3
_SENTENCE_CHARS = 90
_SAME = 0.6
_SEPARATOR = " · "

# What each quality is worth beside the cosine to the mean; chosen by reading titles of real talk.
_SMALL_TALK_COST = 0.8
_FULL_STEMS, _FULL_WORTH = 10, 0.3
_RECURRING_STEMS, _RECURRING_WORTH = 4, 0.3
_OPENING_WORTH = 0.2

_SMALL_TALK = (
    "That sounds great!",
    "Wow, that is awesome, congratulations!",
    "Thank you so much for your support, I really appreciate it.",
    "It feels great to help people and inspire others.",
    "Keep going, you will do well, I am proud of you.",
    "I had an amazing time, it was so special and fun.",
    "How are you doing, what is new?",
    "Good luck, let me know how it goes.",
    "Это здорово, поздравляю!",
    "Спасибо большое, очень помогло.",
    "Хорошо, понятно, так и сделаю.",
    "Как дела, что нового?",
)

_SENTENCE = re.compile(r"(?<=[.!?…])\s+|\n+")
# What reads badly in a title: media markers, addresses, code, list marks.
_CLUTTER = re.compile(r"```.*?(?:```|$)|\[[^\[\]]*+\]|https?://\S+|[*_`#>]+", re.DOTALL)


async def title(messages: Sequence[MessageContent], embedder: Embedder) -> str:
    """One line of at most two sentences. Raises EmbeddingError."""
    sentences = _sentences(messages)
    if not sentences:
        return _shortened(next((text for m in messages if (text := _plain(m.text))), "")) or UNTITLED
    vectors = await embedder.embed([*_SMALL_TALK, *sentences])
    small_talk, said = vectors[: len(_SMALL_TALK)], vectors[len(_SMALL_TALK) :]
    worth = _nearness(said, small_talk) + _wording(sentences)
    return _SEPARATOR.join(_shortened(sentences[at]) for at in sorted(_best_two(worth, said)))


def _sentences(messages: Sequence[MessageContent]) -> list[str]:
    """What may stand in a title, in order, evenly thinned out when there is much."""
    has_assistant = any(message.role == "assistant" for message in messages)
    asked = [message for message in messages if message.role == "user"] if has_assistant else list(messages)
    said = [_plain(part) for message in asked for part in _SENTENCE.split(_CLUTTER.sub(" ", message.text))]
    telling = list(dict.fromkeys(sentence for sentence in said if len(set(stems(sentence))) >= _LEAST_STEMS))
    return telling[:: len(telling) // _MOST_SENTENCES + 1]


def _plain(text: str) -> str:
    return " ".join(_CLUTTER.sub(" ", clean(text)).split()).strip("-–—•· ")


def _nearness(said: Vectors, small_talk: Vectors) -> Floats:
    mean = said.mean(axis=0)
    central = said @ mean / max(float(np.linalg.norm(mean)), 1e-9)
    near: Floats = (central - _SMALL_TALK_COST * (said @ small_talk.T).max(axis=1)).astype(np.float64)
    return near


def _wording(sentences: Sequence[str]) -> Floats:
    held = [set(stems(sentence)) for sentence in sentences]
    recurring = {stem for stem, times in Counter(stem for one in held for stem in one).items() if times > 1}
    full = [min(len(one), _FULL_STEMS) / _FULL_STEMS for one in held]
    back = [min(len(one & recurring), _RECURRING_STEMS) / _RECURRING_STEMS for one in held]
    worth = _FULL_WORTH * np.array(full) + _RECURRING_WORTH * np.array(back)
    worth[0] += _OPENING_WORTH
    return worth


def _best_two(worth: Floats, vectors: Vectors) -> list[int]:
    """Positions of the best sentence and of the next best that says something else."""
    order = np.argsort(-worth, kind="stable").tolist()
    first = order[0]
    other = next((at for at in order[1:] if float(vectors[at] @ vectors[first]) < _SAME), None)
    return [first] if other is None else [first, other]


def _shortened(sentence: str) -> str:
    if len(sentence) <= _SENTENCE_CHARS:
        return sentence.rstrip(".")
    return sentence[:_SENTENCE_CHARS].rsplit(" ", 1)[0].rstrip(".,;:!?-– ") + "…"
