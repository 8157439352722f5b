"""Messages and topics as values of the engine, without rows or settings."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from memoryapp.engine.json_values import Code


@dataclass(frozen=True, slots=True)
class MessageContent:
    """One message. ``role`` is user, assistant, peer or system."""

    id: int
    role: str
    author: str
    sent_at: datetime
    text: str
    forwarded_from: str = ""
    username: str = ""
    session: str = ""


@dataclass(frozen=True, slots=True)
class Where:
    """Which messages a search may use to find something; without any value, all of them.

    ``since`` and ``until`` are days such as ``2023-05-01`` in UTC, both included; empty is no bound. ``channels`` are
    names or numbers of chats, ``authors`` names of people: a message must match one of each, whatever the case.
    ``never_topics`` and ``never_people`` are the numbers of those that somebody decided never to recall. ``as_of`` is a
    moment (ISO 8601): the topics are those that were live then. A topic must contain each of the ``must_phrases``; what
    contains one of the ``should_phrases`` ranks higher. Words of a phrase may have other endings."""

    since: Code = ""
    until: Code = ""
    channels: tuple[str, ...] = ()
    authors: tuple[str, ...] = ()
    never_topics: tuple[int, ...] = ()
    never_people: tuple[int, ...] = ()
    as_of: Code = ""
    must_phrases: tuple[str, ...] = ()
    should_phrases: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether anything is restricted at all."""
        return self.has_filters or bool(self.never_topics or self.must_phrases)

    @property
    def has_filters(self) -> bool:
        """Whether somebody restricted the messages of this one search; what is never recalled holds for all of them."""
        return bool(self.since or self.until or self.channels or self.authors)

    def parts(self) -> int:
        """How many of the restrictions are set."""
        return sum(map(bool, (self.since, self.until, self.channels, self.authors, self.must_phrases)))

    def words(self) -> str:
        """The restrictions as they may be typed: ``since:2023-05-01 author:"Anna Petrova"``."""
        days = [("since", self.since), ("until", self.until)]
        names = [("channel", each) for each in self.channels] + [("author", each) for each in self.authors]
        names += [("must", each) for each in self.must_phrases]
        written = (f'"{value}"' if " " in value else value for _name, value in (*days, *names))
        return " ".join(f"{name}:{value}" for (name, _), value in zip((*days, *names), written, strict=True) if value)

    def over(self, other: Where) -> Where:
        """This restriction, with the values of ``other`` where this one sets none."""
        return Where(
            self.since or other.since,
            self.until or other.until,
            self.channels or other.channels,
            self.authors or other.authors,
            tuple(dict.fromkeys((*self.never_topics, *other.never_topics))),
            tuple(dict.fromkeys((*self.never_people, *other.never_people))),
            self.as_of or other.as_of,
            tuple(dict.fromkeys((*self.must_phrases, *other.must_phrases))),
            tuple(dict.fromkeys((*self.should_phrases, *other.should_phrases))),
        )


ANYWHERE = Where()


@dataclass(frozen=True, slots=True)
class AtHand:
    """What the caller of a recall has in its own window, by number and by text: it need not be found again."""

    messages: tuple[int, ...] = ()
    texts: tuple[str, ...] = ()

    def with_text(self, text: str) -> AtHand:
        return AtHand(self.messages, tuple(dict.fromkeys((*self.texts, text))))


@dataclass(frozen=True, slots=True)
class TopicContent:
    """A topic with its messages in order; ``size_chars`` counts characters of their texts. An active session, whose
    messages are in no topic yet, has a number below 0: see ``topic_id``."""

    id: int
    summary: str
    started_at: datetime
    size_chars: int
    messages: tuple[MessageContent, ...]


# Characters of a summary that a model writes.
LONGEST_SUMMARY = 500


@dataclass(frozen=True, slots=True)
class TopicDraft:
    """A topic as a cutter proposes it: a summary and the ids of its messages, in order."""

    summary: str
    messages: tuple[int, ...]


# Handed over with every recall, or with none.
RecallMode = Literal["pinned", "never"]


@dataclass(frozen=True, slots=True)
class Decided:
    """A topic, person or fact of which somebody decided how it is recalled; ``kind`` is Topic, Person or Fact."""

    kind: str
    number: int
    recall: RecallMode

    @property
    def id(self) -> str:
        return item_id(self.kind, self.number)


@dataclass(frozen=True, slots=True)
class Background:
    """What a model may know before it reads, as lines of text.

    ``profile`` is what is known about the user, ``inner_circle`` the people closest to them, ``recent_topics`` the
    latest topics, newest first, ``messages`` the end of the running conversation, oldest first. ``decided`` is what
    people decided to hand over with every recall, or with none."""

    profile: str
    inner_circle: tuple[str, ...]
    recent_topics: tuple[str, ...]
    messages: tuple[MessageContent, ...]
    decided: tuple[Decided, ...] = ()

    @property
    def never(self) -> tuple[str, ...]:
        """What is never recalled, by id."""
        return tuple(each.id for each in self.decided if each.recall == "never")

    def numbers(self, kind: str, recall: RecallMode) -> tuple[int, ...]:
        """The numbers of the topics, people or facts that are pinned, or never recalled."""
        return tuple(each.number for each in self.decided if each.kind == kind and each.recall == recall)


ReadTopics = Callable[[Sequence[int]], Awaitable[Sequence[TopicContent]]]

# How many phrases a search takes, and how many characters each of them has.
MOST_PHRASES, LONGEST_PHRASE = 5, 100
# The same in one line.
LONGEST_PHRASES = MOST_PHRASES * (LONGEST_PHRASE + 2)
_BETWEEN_PHRASES = re.compile(r"[,;\n]")


def phrases_in(text: str) -> tuple[str, ...]:
    """The phrases in a text, between commas, semicolons or lines; each once, without quotation marks around it."""
    written = (" ".join(each.split()).strip('"«»“”„') for each in _BETWEEN_PHRASES.split(text))
    return tuple(dict.fromkeys(filter(None, written)))


_ID = re.compile(
    r"^\s*+\[?\s*+(?:(?P<kind>topic|session|person|artifact)\s*+:)?\s*+(?P<number>\d{1,40})(?:\.0+)?\s*+\]?\s*+$", re.I
)


def item_id(kind: str, number: int) -> str:
    """``Topic:42``, ``Session:17``, ``Person:5`` or ``Artifact:123``: an item's name outside the database."""
    return f"{kind}:{number}"


def parse_item_id(value: object, kind: str = "Topic") -> tuple[str, int] | None:
    """``("Person", 5)`` for ``Person:5`` in any spelling. A bare number is of ``kind``; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    match = _ID.match(str(value))
    return ((match["kind"] or kind).capitalize(), int(match["number"])) if match else None


# The name of a document of another program's memory begins so; its own id follows.
_DOCUMENT = "Document:"


def document_id(name: str) -> str:
    """``Document:a7``: what a foreign memory found, which is in no table of this one."""
    return _DOCUMENT + name


def parse_document_id(id: str) -> str:
    """The document's own id; empty for anything of this memory."""
    return id.removeprefix(_DOCUMENT) if id.startswith(_DOCUMENT) else ""


def is_talk(id: str) -> bool:
    """Whether the id is a topic's, an active session's, or a foreign document's: what runs rank together."""
    return bool(parse_document_id(id)) or parse_topic_id(id) is not None


def topic_id(number: int) -> str:
    """``Topic:42``; ``Session:17`` for -17, the active session that begins with message 17."""
    return item_id("Topic", number) if number >= 0 else item_id("Session", -number)


def parse_topic_id(value: object) -> int | None:
    """The number in ``42``, ``42.0``, ``"42"``, ``"topic:42"`` or ``"[Topic:42]"``; None for anything else. That of an
    active session is below 0: -17 for ``Session:17``."""
    named = parse_item_id(value)
    if named is None or named[0] not in ("Topic", "Session"):
        return None
    return named[1] if named[0] == "Topic" else -named[1]


def topic_number(id: str) -> int:
    """The 42 of ``Topic:42``, for an id that the program made."""
    number = parse_topic_id(id)
    if number is None:
        raise ValueError(f"{id} is no topic id")
    return number


def is_session(id: str) -> bool:
    """Whether the id that the program made names an active session."""
    return id.startswith("Session:")
