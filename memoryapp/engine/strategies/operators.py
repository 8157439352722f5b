"""Filters that a person types into a query: ``since:2023-09-01 until:2023-10 author:"Anna Petrova" channel:news``. They
are taken as they are written: a day, a month or a year in digits, and names of people and chats. A month or a year
stands for all its days. The words for them are English and Russian."""

import re
from calendar import monthrange
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from memoryapp.engine.memory import ANYWHERE, MOST_PHRASES, Where
from memoryapp.engine.text.lexical import stems

_WORDS: Mapping[str, str] = {
    "since": "since after с после",
    "until": "until before до",
    "channels": "channel chat канал чат",
    "authors": "author from автор от",
    "must_phrases": "must должно",
    "should_phrases": "should лучше",
}
_FIELD = {word: field for field, line in _WORDS.items() for word in line.split()}
_OPERATOR = re.compile(
    rf"(?<!\w)({'|'.join(_FIELD)}):(\"[^\"]{{1,100}}\"|«[^»]{{1,100}}»|[^\s\"«]{{1,100}})", re.IGNORECASE
)
_DATE = re.compile(r"(\d{4})(?:-(\d\d?)(?:-(\d\d?))?)?")
_DOTTED = re.compile(r"(?:(\d\d?)\.)?(\d\d?)\.(\d{4})")
_MOST_NAMES = 10


@dataclass(frozen=True, slots=True)
class TypedQuery:
    """``text`` is the query without the operators that were read, ``where`` what they say. ``unread`` are those with a
    date that is none; they stay in the text."""

    text: str
    where: Where = ANYWHERE
    unread: tuple[str, ...] = ()


def typed(query: str) -> TypedQuery:
    """Reads the operators in a query. A query of operators alone keeps them as its text."""
    found: dict[str, list[str]] = {field: [] for field in _WORDS}
    unread: list[str] = []

    def read(operator: re.Match[str]) -> str:
        field, value = _FIELD[operator[1].lower()], operator[2].strip('"«»,;').strip()
        value = _day(value, is_last=field == "until") if field in ("since", "until") else value
        (found[field] if value else unread).append(value or operator[0])
        return " " if value else operator[0]

    text = " ".join(_OPERATOR.sub(read, query).split())
    where = Where(
        since=max(found["since"], default=""),
        until=min(found["until"], default=""),
        channels=_names(found["channels"]),
        authors=_names(found["authors"]),
        must_phrases=_phrases(found["must_phrases"]),
        should_phrases=_phrases(found["should_phrases"]),
    )
    return (
        TypedQuery(text or query, where, tuple(unread))
        if where != ANYWHERE
        else TypedQuery(query, unread=tuple(unread))
    )


def _names(found: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(found))[:_MOST_NAMES]


def _phrases(found: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(stems, found)))[:MOST_PHRASES]


def _day(text: str, *, is_last: bool) -> str:
    """The first or the last day that ``2023``, ``2023-09``, ``2023-09-01`` or ``01.09.2023`` names; else empty."""
    if whole := _DATE.fullmatch(text):
        parts = whole[1], whole[2], whole[3]
    elif dotted := _DOTTED.fullmatch(text):
        parts = dotted[3], dotted[2], dotted[1]
    else:
        return ""
    year, month, day = (int(part) if part else 0 for part in parts)
    try:
        month = month or (12 if is_last else 1)
        return date(year, month, day or (monthrange(year, month)[1] if is_last else 1)).isoformat()
    except ValueError:
        return ""
