"""Sentences of talk without clutter, and their distance from small talk."""

from __future__ import annotations

import re

import numpy as np

from memoryapp.engine.embeddings import Vectors
from memoryapp.engine.storable import storable
from memoryapp.engine.text.lexical import Floats
from memoryapp.engine.text.sentences import sentences

_SMALL_TALK_COST = 0.8

SMALL_TALK = (
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

# Parts that read badly in a title: marks of media, addresses, code, list marks.
_CLUTTER = re.compile(r"```.*?(?:```|$)|\[[^\[\]]*+\]|https?://\S+|[*_`#>]+", re.DOTALL)


def sentences_of(text: str) -> list[str]:
    """The sentences of a message in the form in which a summary may contain them, in order."""
    return [found for part in sentences(_CLUTTER.sub(" ", text)) if (found := plain(part))]


def plain(text: str) -> str:
    return " ".join(_CLUTTER.sub(" ", storable(text)).split()).strip("-–—•· ")


def nearness(vectors: Vectors, small_talk: Vectors) -> Floats:
    """How near each sentence is to the mean of all, and how far from small talk, shape (n,)."""
    mean = vectors.mean(axis=0)
    central = vectors @ mean / max(float(np.linalg.norm(mean)), 1e-9)
    near: Floats = (central - _SMALL_TALK_COST * (vectors @ small_talk.T).max(axis=1)).astype(np.float64)
    return near
