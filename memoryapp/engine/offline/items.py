"""How the embedded scorer selects people and files: by the words of their lines, always with the same result.

A person is selected when the query names them, in any grammatical case of a Russian name, or when their line contains
most of the query. A file is selected when its name, keywords or entities share a word with the query and its whole line
contains half of it, or when the query refers to it and it was sent in this conversation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from memoryapp.engine.offline.file_references import refers_to
from memoryapp.engine.text.lexical import normal, stems, words
from memoryapp.engine.text.lines import NOT_ANALYSED
from memoryapp.engine.text.names import forms

_MOST = 3
_PERSON_SHARE = 0.6
_FILE_SHARE = 0.5
# One shared word may be a coincidence; the score must then be high as well.
_LEAST_SCORE = 0.5

_LINE = re.compile(
    r"^\[(?P<id>(?P<kind>Person|Artifact):\d+)\] \((?:(?P<score>\d\.\d\d)|in this conversation)\) (?P<text>.*)$",
    re.MULTILINE,
)
# "Петров (@petrov) (aka Петя, Pete) [Work_Inner]": everything before the circle is a name.
_CIRCLE = re.compile(r"(?<!\s)\s*+\[[^\[\]]*+\]$")
_TYPE = re.compile(r'^(?P<type>[^:]*): "(?P<name>.*)"$')

Why = Literal["named", "known", "described", "here"]


@dataclass(frozen=True, slots=True)
class KnownItem:
    """A person or a file as its line describes it: ``names`` are what it is called, ``known`` is the whole description.

    ``file_type`` and ``file_name`` belong to a file, as they are written.
    """

    id: str
    score: float
    names: tuple[str, ...]
    known: str
    in_session: bool = False
    file_type: str = ""
    file_name: str = ""


@dataclass(frozen=True, slots=True)
class ItemChoice:
    """A selected item: the reason, and the words of the query that led to it."""

    item: KnownItem
    why: Why
    words: tuple[str, ...] = ()


def people_in(lines: str) -> list[KnownItem]:
    """The people of a list of candidate lines."""
    return [_person(found) for found in _LINE.finditer(lines) if found["kind"] == "Person"]


def files_in(lines: str) -> list[KnownItem]:
    """The files of a list of candidate lines."""
    return [_file(found) for found in _LINE.finditer(lines) if found["kind"] == "Artifact"]


def choose_people(query: str, people: Sequence[KnownItem]) -> list[ItemChoice]:
    """The people that the query is about, those it names first; equal ones keep their order."""
    terms = _terms(query)
    named = [ItemChoice(each, "named", called) for each in people if (called := _called(query, each.names))]
    known = [
        ItemChoice(each, "known", shared)
        for each in people
        if not _called(query, each.names) and len(shared := _shared(terms, each.known)) >= 2
        if len(shared) >= _PERSON_SHARE * len(terms)
    ]
    return [*named, *_by_words(known)][:_MOST]


def choose_files(query: str, files: Sequence[KnownItem]) -> list[ItemChoice]:
    """The files that may contain the answer: those the query refers to first, then by shared words; equal ones keep
    their order."""
    terms = _terms(query)
    here = [each for each in files if each.in_session and refers_to(query, each.file_type, each.file_name)]
    described = [
        ItemChoice(each, "described", shared)
        for each in files
        if each not in here and _shared(terms, " ".join(each.names))
        if len(shared := _shared(terms, each.known)) >= _FILE_SHARE * len(terms)
        if len(shared) > 1 or each.score >= _LEAST_SCORE
    ]
    return [*(ItemChoice(each, "here") for each in here), *_by_words(described)][:_MOST]


def _person(found: re.Match[str]) -> KnownItem:
    head, *parts = found["text"].split(" | ")
    return KnownItem(found["id"], float(found["score"] or 0), tuple(words(_CIRCLE.sub("", head))), _joined(parts[1:]))


def _file(found: re.Match[str]) -> KnownItem:
    head, *parts = found["text"].split(" | ")
    named = _TYPE.match(head)
    file_type, file_name = (named["type"], named["name"]) if named else ("", head)
    name = " ".join(words(file_name)) if named else head
    # Keywords and entities precede the summary; a file is named only by them and its file name.
    called = [part for part in parts[:2] if part != NOT_ANALYSED][: max(len(parts) - 1, 0)]
    return KnownItem(
        id=found["id"],
        score=float(found["score"] or 0),
        names=(name, *called),
        known=_joined([name, *parts]),
        in_session=found["score"] is None,
        file_type=file_type,
        file_name=file_name,
    )


def _joined(parts: Iterable[str]) -> str:
    return " ".join(part for part in parts if part != NOT_ANALYSED)


def _terms(query: str) -> dict[str, str]:
    """The stems of the query with the words as they were written, in order."""
    return {stem: word for word in reversed(words(query)) for stem in stems(word)}


def _shared(terms: dict[str, str], text: str) -> tuple[str, ...]:
    present = set(stems(text))
    return tuple(dict.fromkeys(word for stem, word in reversed(terms.items()) if stem in present))


def _called(query: str, names: Sequence[str]) -> tuple[str, ...]:
    """The words of the query that are one of the names."""
    return tuple(
        dict.fromkeys(word for word in words(query) if any(is_name(normal(word), normal(name)) for name in names))
    )


def is_name(word: str, name: str) -> bool:
    """Whether ``word`` is ``name`` in one of its cases: "Петрове" and "Петров", "Маше" and "Маша"."""
    return len(name) > 1 and word in forms(name)


def _by_words(kept: Iterable[ItemChoice]) -> list[ItemChoice]:
    return sorted(kept, key=lambda each: (-len(each.words), -each.item.score))
