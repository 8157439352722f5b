"""Index cache: what a search reads of a whole memory and only an edit changes, kept between searches.

Passages come with the edit that archives their messages, and a message changes its topic in an edit alone; each edit
gets its number while nobody else changes the owner's topics. So the owner's last edit, asked for with every search,
tells whether what an earlier one has read is still valid. Topics never change, so their facts are kept along with it.
An erased chat user leaves the caches of the process that erases at once, and those of the others with their next
search, which asks for the last erasure as well.
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

from memoryapp.engine.fusion import TopicPassages
from memoryapp.engine.text.copies import Saying
from memoryapp.engine.text.lexical import Floats
from memoryapp.erasure import erased
from memoryapp.operations.database import SqlStatement, together
from memoryapp.search.columns import Ids, Positions, int64s, positions
from memoryapp.search.lifts import PassageOrigins

# Bytes kept by one process, of all owners.
MOST = 100_000_000
# What Python takes for the facts of a topic beside the characters of its summary, of which a Cyrillic one is two bytes.
_FACTS = 500
_CHARACTER = 2
_SAYING = 250

# The time is looked at too: in a database that was put back to an earlier state the numbers come again.
LAST_EDIT = "SELECT id, at FROM memoryapp_topicedit WHERE owner_id = %(owner)s ORDER BY id DESC LIMIT 1"
LAST_ERASURE = "SELECT max(id), greatest(max(cut_at), max(ended_at)) FROM memoryapp_erasure"
PASSAGES = """
SELECT string_agg(int8send(id), ''::bytea), string_agg(int4send(term_count), ''::bytea),
       string_agg(boolsend(is_wide), ''::bytea)
FROM memoryapp_passage WHERE owner_id = %(owner)s
"""
# A message points at no topic but a live one, so the topics themselves need not be looked at.
MESSAGES = """
SELECT string_agg(int8send(id), ''::bytea), string_agg(int8send(topic_id), ''::bytea),
       string_agg(float8send(date_part('epoch', sent_at)), ''::bytea),
       string_agg(boolsend(role = 'assistant'), ''::bytea)
FROM memoryapp_message WHERE owner_id = %(owner)s AND topic_id IS NOT NULL
"""
# Apart from the messages: to join 300,000 of them takes the database longer than to read both.
MESSAGES_OF = """
SELECT string_agg(int8send(message_id), ''::bytea), string_agg(int8send(passage_id), ''::bytea)
FROM memoryapp_passagemessage WHERE owner_id = %(owner)s
"""
# Who speaks. The names of more than some hundred people are no longer a reason to leave words out of a query.
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
    """All of an owner's, by id; ``lengths`` are their words, every array has shape (n,)."""

    ids: Ids
    lengths: Floats
    wide: NDArray[np.bool_]

    @classmethod
    def of(cls, ids: bytes | None, lengths: bytes | None, wide: bytes | None) -> Passages:
        """Out of the columns of ``PASSAGES``."""
        numbers = int64s(ids)
        order = np.argsort(numbers, kind="stable")
        counted = np.frombuffer(lengths or b"", ">i4").astype(np.float64)
        return cls(numbers[order], counted[order], np.frombuffer(wide or b"", np.bool_)[order])


@dataclass(frozen=True, slots=True)
class Spoken:
    """The messages in live topics of ``passages`` passages, a row for each of each: its topic, the passage's position,
    when it was sent in seconds since 1970, and whether by the assistant; all arrays have shape (rows,)."""

    passages: int
    topics: Ids
    places: Positions
    seconds: Floats
    by_assistant: NDArray[np.bool_]

    @classmethod
    def of(cls, ids: Ids, messages: Sequence[bytes | None], pairs: Sequence[bytes | None]) -> Spoken:
        """Of the passages ``ids``, ascending, out of the rows of ``MESSAGES`` and ``MESSAGES_OF``."""
        numbers, (of_messages, of_passages) = int64s(messages[0]), map(int64s, pairs)
        order = np.argsort(numbers, kind="stable")
        places, known = positions(ids, of_passages)
        at, here = positions(numbers[order], of_messages[known])
        rows = order[at]
        seconds = np.frombuffer(messages[2] or b"", ">f8").astype(np.float64)
        by_assistant = np.frombuffer(messages[3] or b"", np.bool_)
        return cls(len(ids), int64s(messages[1])[rows], places[here], seconds[rows], by_assistant[rows])

    def talk(self, authors: Sequence[str] = ()) -> PassageOrigins:
        """When the passages were said and by whom."""
        return PassageOrigins.of(self.passages, self.places, self.seconds, self.by_assistant, authors)


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """What a candidate shows of its topic beside the scores."""

    id: int
    summary: str
    date: str
    message_count: int
    size_chars: int

    @property
    def columns(self) -> tuple[str, int, int, str]:
        """In the order of a candidate's line."""
        return self.date, self.message_count, self.size_chars, self.summary


@dataclass(frozen=True, slots=True)
class MemoryIndex:
    """An owner's passages and the live topics that hold them, as they were after ``edit``, its number and time.

    ``talk`` tells when the passages were said and by whom. ``facts`` are those of the topics that a search has found,
    ``sayings`` of passages; ``IndexCache.learn`` adds to them.
    """

    edit: Edit
    passages: Passages
    topics: TopicPassages
    talk: PassageOrigins
    facts: dict[int, TopicFacts] = field(default_factory=dict)
    sayings: dict[int, Saying] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """In bytes."""
        parts = self.passages, self.topics
        arrays: int = sum(getattr(each, name).nbytes for each in parts for name in each.__slots__)
        facts = sum(_FACTS + _CHARACTER * len(topic.summary) for topic in self.facts.values())
        return arrays + self.talk.size + facts + _SAYING * len(self.sayings)


def versions(owner_id: int) -> tuple[SqlStatement, SqlStatement]:
    """Asks for the edit that an index is known by, of which there may be none, and for the last erasure of anybody.

    They come before what ``parts`` ask for.
    """
    return (LAST_EDIT, {"owner": owner_id}), (LAST_ERASURE, {})


def parts(owner_id: int) -> tuple[SqlStatement, SqlStatement, SqlStatement, SqlStatement]:
    """Asks for what ``built`` puts together."""
    owner = {"owner": owner_id}
    return (PASSAGES, owner), (MESSAGES, owner), (MESSAGES_OF, owner), (AUTHORS, owner)


def built(
    edit: Edit, passages: Sequence[Any], messages: Sequence[Any], pairs: Sequence[Any], authors: Sequence[Any]
) -> MemoryIndex:
    """An index out of the one row that each of the ``parts`` gave."""
    known = Passages.of(*passages)
    spoken = Spoken.of(known.ids, messages, pairs)
    return MemoryIndex(edit, known, TopicPassages.of(spoken.topics, spoken.places), spoken.talk(authors[0] or ()))


async def current(connection: AsyncConnection[Any], owner_id: int, cache: IndexCache) -> MemoryIndex:
    """The owner's index as it is valid now, read where ``cache`` has none."""
    known = cache.of(owner_id)
    edits, (erasure,) = await together(connection, *versions(owner_id))
    cache.forget_erased(tuple(erasure))
    edit = tuple(edits[0]) if edits else None
    return known if known is not None and known.edit == edit else await reread(connection, owner_id, edit, cache)


async def reread(connection: AsyncConnection[Any], owner_id: int, edit: Edit, cache: IndexCache) -> MemoryIndex:
    """The owner's index after ``edit``, which ``cache`` keeps."""
    known = built(edit, *[row for (row,) in await together(connection, *parts(owner_id))])
    cache.keep(owner_id, known)
    return known


class IndexCache:
    """The indexes of the owners whose memory was searched last, as many as fit into ``most`` bytes."""

    def __init__(self, most: int = MOST) -> None:
        self._kept: LRUCache[int, MemoryIndex] = LRUCache(most, getsizeof=lambda index: index.size)
        # Searches run in the event loop, erasures in threads.
        self._lock = Lock()
        self._erasure: Erasure | None = None
        _caches.add(self)

    def of(self, owner_id: int) -> MemoryIndex | None:
        """What was read last, whether it is still valid or not."""
        with self._lock:
            return self._kept.get(owner_id)

    def keep(self, owner_id: int, index: MemoryIndex) -> None:
        """Keep the index in place of the owner's earlier one, unless it is larger than all the room."""
        with self._lock:
            self._kept.pop(owner_id, None)
            if index.size <= self._kept.maxsize:
                self._kept[owner_id] = index

    def learn(
        self, owner_id: int, index: MemoryIndex, facts: Sequence[TopicFacts], sayings: Mapping[int, Saying]
    ) -> None:
        """Add the facts of some of the index's topics, and what some of its passages say."""
        if facts or sayings:
            index.facts.update((topic.id, topic) for topic in facts)
            index.sayings.update(sayings)
            if self.of(owner_id) is index:
                self.keep(owner_id, index)

    def forget(self, owner_id: int) -> None:
        """Remove the owner's index; any thread may call it."""
        with self._lock:
            self._kept.pop(owner_id, None)

    def forget_erased(self, erasure: Erasure) -> None:
        """Forget everybody where this is not the last erasure that was known."""
        with self._lock:
            if erasure != self._erasure:
                self._kept.clear()
                self._erasure = erasure


_caches: WeakSet[IndexCache] = WeakSet()


@receiver(erased)
def _forget(number: int, **_signal: Any) -> None:
    """Remove what the caches of this process have of an erased chat user."""
    for cache in list(_caches):
        cache.forget(number)
