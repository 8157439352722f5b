"""Which passages say the same: a text that was forwarded, or posted in several chats, is to be found once.

Two passages are copies where the same letters and digits follow each other in the same words, whoever the lines are
by: case, punctuation, emoji, markup and what an address carries besides its place make no difference. Short texts are
no copies of each other, for "see you tomorrow then" is said on many days. Of several the original is the one that was
not forwarded, then the earliest.
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
    """What a passage says, as a ``key`` that its copies have too; empty where it is too short to have any.

    ``is_forwarded`` tells that each of its messages was, ``seconds`` since 1970 when the first was sent.
    """

    key: bytes
    is_forwarded: bool
    seconds: float


def key_of(text: str, labels: Collection[str]) -> bytes:
    """The key of a passage whose lines begin with one of the ``labels`` of who wrote them; empty for a short one."""
    lines = (_without_label(line, labels) for line in text.split("\n"))
    plain = " ".join(_WORD.findall(_ADDRESS.sub(_place, normal("\n".join(lines)))))
    return blake2b(plain.encode(), digest_size=_KEY_BYTES).digest() if len(plain) >= LEAST_CHARS else b""


def originals(ranked: Sequence[T], sayings: Mapping[T, Saying]) -> dict[T, T]:
    """The original of each that is a copy of another among the ``ranked``."""
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
    """An address without its protocol, its part and what only counts visitors."""
    place, _mark, query = address[0].partition("#")[0].partition("?")
    asked = [pair for pair in query.split("&") if not pair.startswith(_TRACKING)]
    return " ".join((place.partition("://")[2].removeprefix("www."), *asked))
