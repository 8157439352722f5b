"""Memory index: the data of a whole memory that a search reads, apart from the words and vectors of its texts.

It consists of the passages, of the topics and active sessions that contain them, and of when they were said and by
whom.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memoryapp.engine.fusion import TopicPassages
from memoryapp.engine.text.copies import Saying
from memoryapp.engine.text.lexical import Floats
from memoryapp.search.columns import Ids, Positions, int64s, positions
from memoryapp.search.lifts import PassageOrigins
from memoryapp.sessions.active import ActiveTalk

# The number and the time of the last edit, and how often the active sessions have changed.
Version = tuple[int | None, datetime | None, int]
# Bytes that Python needs for the facts of a topic, without its summary; a Cyrillic character of that takes two bytes.
_FACTS = 500
_CHARACTER = 2
_SAYING = 250


@dataclass(frozen=True, slots=True)
class Passages:
    """Passages of an owner, by id. ``lengths`` are their numbers of words; every array has shape (n,)."""

    ids: Ids
    lengths: Floats
    wide: NDArray[np.bool_]

    @classmethod
    def of(cls, ids: bytes | None, lengths: bytes | None, wide: bytes | None) -> Passages:
        """Built from the columns of ``PASSAGES``."""
        counted = np.frombuffer(lengths or b"", ">i4").astype(np.float64)
        return cls._ordered(int64s(ids), counted, np.frombuffer(wide or b"", np.bool_))

    @classmethod
    def of_rows(cls, rows: Mapping[int, tuple[int, bool]]) -> Passages:
        """Built from the number of words and the script of each passage."""
        lengths, wide = [row[0] for row in rows.values()], [row[1] for row in rows.values()]
        return cls._ordered(np.array(list(rows), np.int64), np.array(lengths, np.float64), np.array(wide, np.bool_))

    @classmethod
    def _ordered(cls, ids: Ids, lengths: Floats, wide: NDArray[np.bool_]) -> Passages:
        order = np.argsort(ids, kind="stable")
        return cls(ids[order], lengths[order], wide[order])

    def without(self, others: Ids) -> Passages:
        kept = ~np.isin(self.ids, others)
        return Passages(self.ids[kept], self.lengths[kept], self.wide[kept])

    def joined(self, other: Passages) -> Passages:
        return self._ordered(
            np.concatenate((self.ids, other.ids)),
            np.concatenate((self.lengths, other.lengths)),
            np.concatenate((self.wide, other.wide)),
        )


@dataclass(frozen=True, slots=True)
class Messages:
    """Messages by id, each with its topic or session, the time in seconds since 1970, and whether the assistant wrote
    it; all arrays have shape (messages,)."""

    ids: Ids
    topics: Ids
    seconds: Floats
    by_assistant: NDArray[np.bool_]

    @classmethod
    def of(cls, row: Sequence[bytes | None]) -> Messages:
        """Built from the row of ``MESSAGES``."""
        seconds = np.frombuffer(row[2] or b"", ">f8").astype(np.float64)
        return cls._ordered(int64s(row[0]), int64s(row[1]), seconds, np.frombuffer(row[3] or b"", np.bool_))

    @classmethod
    def of_talk(cls, talk: ActiveTalk) -> Messages:
        """The messages of the active sessions."""
        return cls._ordered(
            np.array([message.id for message in talk.messages], np.int64),
            np.array([talk.session_of[message.id] for message in talk.messages], np.int64),
            np.array([message.sent_at.timestamp() for message in talk.messages], np.float64),
            np.array([message.role == "assistant" for message in talk.messages], np.bool_),
        )

    @classmethod
    def _ordered(cls, ids: Ids, topics: Ids, seconds: Floats, by_assistant: NDArray[np.bool_]) -> Messages:
        order = np.argsort(ids, kind="stable")
        return cls(ids[order], topics[order], seconds[order], by_assistant[order])

    def joined(self, other: Messages) -> Messages:
        if not len(other.ids):
            return self
        return self._ordered(
            np.concatenate((self.ids, other.ids)),
            np.concatenate((self.topics, other.topics)),
            np.concatenate((self.seconds, other.seconds)),
            np.concatenate((self.by_assistant, other.by_assistant)),
        )


# Pairs of a message and a passage that contains it, both of shape (pairs,).
Pairs = tuple[Ids, Ids]


@dataclass(frozen=True, slots=True)
class MessagesInPassages:
    """The messages that the passages contain, as far as they are in live topics or active sessions: one row for each
    message of each of ``passages`` passages. A row has the topic, the position of the passage, the time in seconds
    since 1970, and whether the assistant wrote it; all arrays have shape (rows,)."""

    passages: int
    topics: Ids
    places: Positions
    seconds: Floats
    by_assistant: NDArray[np.bool_]

    @classmethod
    def of(cls, ids: Ids, messages: Messages, pairs: Pairs) -> MessagesInPassages:
        """Built for the passages ``ids``, ascending."""
        of_messages, of_passages = pairs
        places, known = positions(ids, of_passages)
        at, here = positions(messages.ids, of_messages[known])
        return cls(len(ids), messages.topics[at], places[here], messages.seconds[at], messages.by_assistant[at])

    def origins(self, authors: Sequence[str] = ()) -> PassageOrigins:
        """The time and the author of each passage."""
        return PassageOrigins.of(self.passages, self.places, self.seconds, self.by_assistant, authors)


@dataclass(frozen=True, slots=True)
class Archive:
    """What an edit alone changes: the passages, messages and authors of the topics. Passages of active sessions are
    not in it."""

    passages: Passages
    messages: Messages
    pairs: Pairs
    authors: tuple[str, ...]

    @property
    def size(self) -> int:
        """In bytes."""
        parts = (self.passages, self.messages)
        arrays: int = sum(getattr(each, name).nbytes for each in parts for name in each.__slots__)
        return arrays + sum(column.nbytes for column in self.pairs)


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """What a candidate shows about its topic, apart from scores."""

    id: int
    summary: str
    date: str
    message_count: int
    size_chars: int

    @property
    def columns(self) -> tuple[str, int, int, str]:
        """The values in the order of a candidate's columns."""
        return self.date, self.message_count, self.size_chars, self.summary


@dataclass(frozen=True, slots=True)
class MemoryIndex:
    """An owner's passages and the live topics and active sessions that contain them, as of ``version``.

    ``origins`` are when the passages were said and by whom, ``active`` are the active sessions, and ``active_passages``
    the messages of their passages. ``facts`` are known for topics that a search has found, ``sayings`` for passages;
    ``IndexCache.learn`` adds more.
    """

    version: Version
    archive: Archive
    active: ActiveTalk
    passages: Passages
    topics: TopicPassages
    origins: PassageOrigins
    active_passages: Mapping[int, frozenset[int]] = field(default_factory=dict)
    facts: dict[int, TopicFacts] = field(default_factory=dict)
    sayings: dict[int, Saying] = field(default_factory=dict)

    def active_within(self, messages: AbstractSet[int]) -> list[int]:
        """The passages of active sessions that contain none but these messages."""
        return [id for id, own in self.active_passages.items() if own <= messages] if messages else []

    @property
    def size(self) -> int:
        """The size in bytes."""
        parts = self.passages, self.topics
        arrays: int = sum(getattr(each, name).nbytes for each in parts for name in each.__slots__)
        facts = sum(_FACTS + _CHARACTER * len(topic.summary) for topic in self.facts.values())
        active = _SAYING * len(self.active.messages)
        return arrays + self.archive.size + self.origins.size + facts + active + _SAYING * len(self.sayings)


def build_index(version: Version, archive: Archive, talk: ActiveTalk, rows: Sequence[Sequence[Any]]) -> MemoryIndex:
    """An index of the archive and of the active sessions, whose passages are the ``rows`` of ``active.PASSAGES``."""
    here = [row for row in rows if row[3] in talk.session_of]
    known = archive.passages.joined(Passages.of_rows({id: (length, wide) for id, length, wide, _message in here}))
    messages = archive.messages.joined(Messages.of_talk(talk))
    fresh = np.array([(message, id) for id, _length, _wide, message in here], np.int64).reshape(-1, 2)
    of_messages, of_passages = archive.pairs
    if len(fresh):
        archived = ~np.isin(of_messages, fresh[:, 0])
        of_messages = np.concatenate((of_messages[archived], fresh[:, 0]))
        of_passages = np.concatenate((of_passages[archived], fresh[:, 1]))
    contained = MessagesInPassages.of(known.ids, messages, (of_messages, of_passages))
    authors = dict.fromkeys((*archive.authors, *(message.author for message in talk.messages if message.author)))
    grouped = TopicPassages.of(contained.topics, contained.places)
    within: dict[int, set[int]] = {}
    for id, _length, _wide, message in here:
        within.setdefault(id, set()).add(message)
    frozen = {id: frozenset(numbers) for id, numbers in within.items()}
    return MemoryIndex(version, archive, talk, known, grouped, contained.origins(list(authors)), frozen)
