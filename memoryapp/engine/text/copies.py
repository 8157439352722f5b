"""Copies: passages that say the same. A text that was forwarded, or posted in several chats, should be found once.

Two passages are copies if they have the same letters and digits in the same words, whoever wrote the lines: case,
punctuation, emoji, markup and the parameters of addresses do not matter. Short texts are never copies, because "see you
tomorrow then" is said on many days. The original is the passage that was not forwarded; of several, the earliest.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TypeVar

from memoryapp.engine.text.lexical import normal

LEAST_CHARS = 40
_KEY_BYTES = 8
_ADDRESS = re.compile(r"https?://\S+")
_TRACKING = ("utm_", "fbclid=", "gclid=", "yclid=")
_WORD = re.compile(r"[^\W_]+")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Saying:
    """The content of a passage, as a ``key`` that its copies share; empty when it is too short to have copies.

    ``is_forwarded`` is true when each of its messages was forwarded; ``seconds`` since 1970 is the time of the first
    one.
    """

    key: bytes
    is_forwarded: bool
    seconds: float


def key_of(text: str, labels: Collection[str]) -> bytes:
    """The key of a passage whose lines begin with one of the ``labels`` of their authors; empty for a short passage."""
    lines = (_without_label(line, labels) for line in text.split("\n"))
    plain = " ".join(_WORD.findall(_ADDRESS.sub(_place, normal("\n".join(lines)))))
    return blake2b(plain.encode(), digest_size=_KEY_BYTES).digest() if len(plain) >= LEAST_CHARS else b""


def originals(ranked: Sequence[T], sayings: Mapping[T, Saying]) -> dict[T, T]:
    """The original of each passage among ``ranked`` that is a copy of another one."""
    groups: defaultdict[bytes, list[T]] = defaultdict(list)
    for each in ranked:
        if (saying := sayings.get(each)) and saying.key:
            groups[saying.key].append(each)
    found: dict[T, T] = {}
    for group in (each for each in groups.values() if len(each) > 1):
        original = min(group, key=lambda each: (sayings[each].is_forwarded, sayings[each].seconds))
        found |= {each: original for each in group if each != original}
    return found


def _without_label(line: str, labels: Collection[str]) -> str:
    return next((line[len(label) + 2 :] for label in labels if line.startswith(f"{label}: ")), line)


def _place(address: re.Match[str]) -> str:
    """An address without its protocol, its fragment and the parameters that only count visitors."""
    place, _mark, query = address[0].partition("#")[0].partition("?")
    asked = [pair for pair in query.split("&") if not pair.startswith(_TRACKING)]
    return " ".join((place.partition("://")[2].removeprefix("www."), *asked))
