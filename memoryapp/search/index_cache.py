"""Index cache: the data of a whole memory that a search reads and only an edit changes, kept between searches.

New passages come with the edit that archives their messages, and a message changes its topic only in an edit. Edits are
numbered while nobody else changes the owner's topics. So each search asks for the owner's last edit, and its number
tells whether the cached data are still valid. Topics never change, so their facts are kept as well. When a chat user is
erased, the process that erases forgets the user at once; other processes do so with their next search, which also asks
for the last erasure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from threading import Lock
from typing import Any
from weakref import WeakSet

import numpy as np
from cachetools import LRUCache
from django.dispatch import receiver
from numpy.typing import NDArray
from psycopg import AsyncConnection

from memoryapp.chat_users import erased
from memoryapp.engine.fusion import TopicPassages
from memoryapp.engine.text.copies import Saying
from memoryapp.engine.text.lexical import Floats
from memoryapp.operations.database import SqlStatement, together
from memoryapp.search.columns import Ids, Positions, int64s, positions
from memoryapp.search.lifts import PassageOrigins

# Bytes that one process keeps, for all owners together.
MOST = 100_000_000
# Bytes that Python needs for the facts of a topic, without its summary; a Cyrillic character of that takes two bytes.
_FACTS = 500
_CHARACTER = 2
_SAYING = 250

# The time is compared too: when a database is restored from a backup, numbers are assigned again.
LAST_EDIT = "SELECT id, at FROM memoryapp_topicedit WHERE owner_id = %(owner)s ORDER BY id DESC LIMIT 1"
LAST_ERASURE = "SELECT max(id), greatest(max(cut_at), max(ended_at)) FROM memoryapp_erasure"
PASSAGES = """
SELECT string_agg(int8send(id), ''::bytea), string_agg(int4send(term_count), ''::bytea),
       string_agg(boolsend(is_wide), ''::bytea)
FROM memoryapp_passage WHERE owner_id = %(owner)s
"""
# A message refers only to a live topic, so the table of topics need not be read.
MESSAGES = """
SELECT string_agg(int8send(id), ''::bytea), string_agg(int8send(topic_id), ''::bytea),
       string_agg(float8send(date_part('epoch', sent_at)), ''::bytea),
       string_agg(boolsend(role = 'assistant'), ''::bytea)
FROM memoryapp_message WHERE owner_id = %(owner)s AND topic_id IS NOT NULL
"""
# Read separately from the messages: joining 300,000 of them takes the database longer than reading both.
MESSAGES_OF = """
SELECT string_agg(int8send(message_id), ''::bytea), string_agg(int8send(passage_id), ''::bytea)
FROM memoryapp_passagemessage WHERE owner_id = %(owner)s
"""
# Everybody who speaks in the memory. Beyond some hundred people, names are no reason to leave words out of a query.
AUTHORS = """
SELECT array_agg(author) FROM (
    SELECT DISTINCT author FROM memoryapp_message
    WHERE owner_id = %(owner)s AND topic_id IS NOT NULL AND author <> '' LIMIT 500
) AS authors
"""


Edit = tuple[int, datetime] | None
Erasure = tuple[int | None, datetime | None]


@dataclass(frozen=True, slots=True)
class Passages:
    """All passages of an owner, by id. ``lengths`` are their numbers of words; every array has shape (n,)."""

    ids: Ids
    lengths: Floats
    wide: NDArray[np.bool_]

    @classmethod
    def of(cls, ids: bytes | None, lengths: bytes | None, wide: bytes | None) -> Passages:
        """Built from the columns of ``PASSAGES``."""
        numbers = int64s(ids)
        order = np.argsort(numbers, kind="stable")
        counted = np.frombuffer(lengths or b"", ">i4").astype(np.float64)
        return cls(numbers[order], counted[order], np.frombuffer(wide or b"", np.bool_)[order])


@dataclass(frozen=True, slots=True)
class Spoken:
    """The messages that the passages contain, as far as they are in live topics: one row for each message of each of
    ``passages`` passages. A row has the topic, the position of the passage, the time in seconds since 1970, and whether
    the assistant wrote it; all arrays have shape (rows,)."""

    passages: int
    topics: Ids
    places: Positions
    seconds: Floats
    by_assistant: NDArray[np.bool_]

    @classmethod
    def of(cls, ids: Ids, messages: Sequence[bytes | None], pairs: Sequence[bytes | None]) -> Spoken:
        """Built for the passages ``ids``, ascending, from the rows of ``MESSAGES`` and ``MESSAGES_OF``."""
        numbers, (of_messages, of_passages) = int64s(messages[0]), map(int64s, pairs)
        order = np.argsort(numbers, kind="stable")
        places, known = positions(ids, of_passages)
        at, here = positions(numbers[order], of_messages[known])
        rows = order[at]
        seconds = np.frombuffer(messages[2] or b"", ">f8").astype(np.float64)
        by_assistant = np.frombuffer(messages[3] or b"", np.bool_)
        return cls(len(ids), int64s(messages[1])[rows], places[here], seconds[rows], by_assistant[rows])

    def talk(self, authors: Sequence[str] = ()) -> PassageOrigins:
        """The time and the author of each passage."""
        return PassageOrigins.of(self.passages, self.places, self.seconds, self.by_assistant, authors)


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
    """An owner's passages and the live topics that hold them, as of ``edit`` (its number and time).

    ``talk`` is when the passages were said and by whom. ``facts`` are known for topics that a search has found,
    ``sayings`` for passages; ``IndexCache.learn`` adds more.
    """

    edit: Edit
    passages: Passages
    topics: TopicPassages
    talk: PassageOrigins
    facts: dict[int, TopicFacts] = field(default_factory=dict)
    sayings: dict[int, Saying] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """The size in bytes."""
        parts = self.passages, self.topics
        arrays: int = sum(getattr(each, name).nbytes for each in parts for name in each.__slots__)
        facts = sum(_FACTS + _CHARACTER * len(topic.summary) for topic in self.facts.values())
        return arrays + self.talk.size + facts + _SAYING * len(self.sayings)


def versions(owner_id: int) -> tuple[SqlStatement, SqlStatement]:
    """The statement that reads the owner's last edit, if there is one, and the last erasure of anybody.

    It has to be sent before those of ``parts``.
    """
    return (LAST_EDIT, {"owner": owner_id}), (LAST_ERASURE, {})


def parts(owner_id: int) -> tuple[SqlStatement, SqlStatement, SqlStatement, SqlStatement]:
    """The statements whose rows ``build_index`` puts together."""
    owner = {"owner": owner_id}
    return (PASSAGES, owner), (MESSAGES, owner), (MESSAGES_OF, owner), (AUTHORS, owner)


def build_index(
    edit: Edit, passages: Sequence[Any], messages: Sequence[Any], pairs: Sequence[Any], authors: Sequence[Any]
) -> MemoryIndex:
    """An index made of the rows of ``parts``, one row for each statement."""
    known = Passages.of(*passages)
    spoken = Spoken.of(known.ids, messages, pairs)
    return MemoryIndex(edit, known, TopicPassages.of(spoken.topics, spoken.places), spoken.talk(authors[0] or ()))


async def current(connection: AsyncConnection[Any], owner_id: int, cache: IndexCache) -> MemoryIndex:
    """The owner's current index, read from the database when ``cache`` has none."""
    known = cache.of(owner_id)
    edits, (erasure,) = await together(connection, *versions(owner_id))
    cache.forget_erased(tuple(erasure))
    edit = tuple(edits[0]) if edits else None
    return known if known is not None and known.edit == edit else await reread(connection, owner_id, edit, cache)


async def reread(connection: AsyncConnection[Any], owner_id: int, edit: Edit, cache: IndexCache) -> MemoryIndex:
    """The owner's index after ``edit``, read from the database and kept in ``cache``."""
    known = build_index(edit, *[row for (row,) in await together(connection, *parts(owner_id))])
    cache.keep(owner_id, known)
    return known


class IndexCache:
    """The indexes of the owners whose memories were searched last, up to ``most`` bytes together."""

    def __init__(self, most: int = MOST) -> None:
        self._kept: LRUCache[int, MemoryIndex] = LRUCache(most, getsizeof=lambda index: index.size)
        # Searches run in the event loop, erasures in threads.
        self._lock = Lock()
        self._erasure: Erasure | None = None
        _caches.add(self)

    def of(self, owner_id: int) -> MemoryIndex | None:
        """The index that was read last, current or not."""
        with self._lock:
            return self._kept.get(owner_id)

    def keep(self, owner_id: int, index: MemoryIndex) -> None:
        """Keeps the index in place of the owner's earlier one, unless it is larger than the whole cache."""
        with self._lock:
            self._kept.pop(owner_id, None)
            if index.size <= self._kept.maxsize:
                self._kept[owner_id] = index

    def learn(
        self, owner_id: int, index: MemoryIndex, facts: Sequence[TopicFacts], sayings: Mapping[int, Saying]
    ) -> None:
        """Adds facts of topics and what passages say."""
        if facts or sayings:
            index.facts.update((topic.id, topic) for topic in facts)
            index.sayings.update(sayings)
            if self.of(owner_id) is index:
                self.keep(owner_id, index)

    def forget(self, owner_id: int) -> None:
        """Removes the owner's index; from any thread."""
        with self._lock:
            self._kept.pop(owner_id, None)

    def forget_erased(self, erasure: Erasure) -> None:
        """Removes all indexes when there was an erasure since the last known one."""
        with self._lock:
            if erasure != self._erasure:
                self._kept.clear()
                self._erasure = erasure


_caches: WeakSet[IndexCache] = WeakSet()


@receiver(erased)
def _forget(number: int, **_signal: Any) -> None:
    """Removes an erased chat user from the caches of this process."""
    for cache in list(_caches):
        cache.forget(number)
