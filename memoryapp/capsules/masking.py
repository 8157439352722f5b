"""Masks personal data in a capsule: names of the people in the memory, telephone and other long numbers, addresses of
mail and of the web.

Each letter and digit becomes a dot, so that texts keep their length and excerpts their places. A name is masked with
its endings in Russian. Postal addresses and names that the memory does not list are not recognised.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import phonenumbers

from memoryapp.capsules.capsule import Capsule
from memoryapp.engine.events import from_payload, to_payload
from memoryapp.models import ChatUser, Message, Person
from memoryapp.runs.followers import StoredEvent

DOT = "•"
SHORTEST_NAME = 3
MOST_NAMES = 2_000
_WORD_CHARACTER = re.compile(r"\w")
_ADDRESS = re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4}|\bhttps?://[^\s<>\"']{1,2000}", re.I)
_NUMBER = re.compile(r"(?<![\w.:-])\d{6,30}(?![\w:-])|(?<!\w)\d{4}(?:[ -]\d{4}){2,4}(?!\w)")
_BETWEEN_WORDS = re.compile(r"[\W_]+")
_CYRILLIC = re.compile(r"[а-яё]", re.I)
_ENDING = re.compile(r"[аяоеийьыу]$", re.I)
# The keys of payloads whose texts are codes; everything else may quote people.
_CODES = frozenset(("kind", "strategy", "model", "profile", "role", "status", "stage", "outcome"))


def masked(capsule: Capsule, owner: ChatUser) -> Capsule:
    """The capsule without personal data, and how much of it was masked."""
    counts: Counter[str] = Counter()
    mask = _masker(_names(owner), counts)
    events = [
        StoredEvent(item.seq, item.at, from_payload(item.event.kind, _walk(to_payload(item.event), mask)))
        for item in capsule.events
    ]
    talks = {
        id: [replace(message, author=mask(message.author), text=mask(message.text)) for message in talk]
        for id, talk in capsule.talks.items()
    }
    user, query = mask(capsule.user), mask(capsule.query)
    found = {kind: counts[kind] for kind in ("names", "numbers", "addresses")}
    return replace(capsule, user=user, query=query, events=events, talks=talks, masked=found)


def _names(owner: ChatUser) -> list[str]:
    """The words of all names in the memory, the longest first."""
    people = Person.objects.filter(owner=owner).order_by("-mention_count", "pk")
    rows = people.values_list("display_name", "username", "aliases")[:MOST_NAMES]
    authors = Message.objects.of(owner).exclude(role="assistant").order_by().values_list("author", flat=True).distinct()
    texts = [owner.name, str(owner), *authors[:MOST_NAMES]]
    for name, username, aliases in rows:
        texts += [name, username, *(alias for alias in aliases if isinstance(alias, str))]
    words = {word for text in texts for word in _BETWEEN_WORDS.split(text) if len(word) >= SHORTEST_NAME}
    return sorted((word for word in words if not word.isdigit()), key=len, reverse=True)


def _masker(names: Iterable[str], counts: Counter[str]) -> Callable[[str], str]:
    """A function that masks a text and counts what it masks."""
    stems = [_stem(name) for name in names]
    ends = {True: r"\w{0,3}\b", False: r"\b"}
    of_names = re.compile("|".join(rf"\b{re.escape(stem)}{ends[bends]}" for stem, bends in stems), re.I)

    def counted(kind: str) -> Callable[[re.Match[str]], str]:
        def dots(found: re.Match[str]) -> str:
            counts[kind] += 1
            return _WORD_CHARACTER.sub(DOT, found[0])

        return dots

    def mask(text: str) -> str:
        text = _ADDRESS.sub(counted("addresses"), text)
        text = _without_telephones(text, counts)
        text = _NUMBER.sub(counted("numbers"), text)
        return of_names.sub(counted("names"), text) if stems else text

    return mask


def _stem(name: str) -> tuple[str, bool]:
    """What all forms of a name begin with, and whether other letters may follow, as they do in Russian."""
    bends = bool(_CYRILLIC.search(name))
    stem = _ENDING.sub("", name) if bends else name
    return (stem if len(stem) >= SHORTEST_NAME else name), bends


def _without_telephones(text: str, counts: Counter[str]) -> str:
    if not any(letter.isdigit() for letter in text):
        return text
    for found in phonenumbers.PhoneNumberMatcher(text, "RU", leniency=phonenumbers.Leniency.VALID):
        counts["numbers"] += 1
        text = text[: found.start] + _WORD_CHARACTER.sub(DOT, found.raw_string) + text[found.end :]
    return text


def _walk(value: Any, mask: Callable[[str], str], key: str = "") -> Any:
    """The payload with every text masked that may quote somebody; words of the query are keys under ``terms``."""
    if isinstance(value, str):
        return value if key in _CODES else mask(value)
    if isinstance(value, Mapping):
        is_words = key == "terms"
        return {
            mask(name) if is_words else name: _walk(each, mask, key if is_words else name)
            for name, each in value.items()
        }
    return [_walk(each, mask, key) for each in value] if isinstance(value, list) else value
