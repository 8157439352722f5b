"""Index cache: the data of a whole memory that a search reads and only a change of it changes, kept between searches.

The archived messages change only in an edit, and edits are numbered while nobody else changes the owner's topics. The
active sessions change with every message; those changes are counted in the owner's row (``ChatUser.talk``). So each
search asks for both numbers, which tell whether the cached data are still valid. After a message only the active
sessions are read again. Topics never change, so their facts are kept as well. When a chat user is erased, the process
that erases forgets the user at once; other processes do so with their next search, which also asks for the last
erasure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from threading import Lock
from typing import Any
from weakref import WeakSet

import numpy as np
from cachetools import LRUCache
from django.dispatch import receiver
from psycopg import AsyncConnection

from memoryapp.content.chat_users import erased
from memoryapp.engine.text.copies import Saying
from memoryapp.operations.database import RoundTrip, SqlRead
from memoryapp.search.columns import Ids, int64s
from memoryapp.search.memory_index import (
    Archive,
    MemoryIndex,
    Messages,
    Pairs,
    Passages,
    TopicFacts,
    Version,
    build_index,
)
from memoryapp.sessions import active
from memoryapp.sessions.active import ActiveTalk

# Bytes that one process keeps, for all owners together.
MOST = 100_000_000
# The time is compared too: when a database is restored from a backup, numbers are assigned again.
STATE = """
SELECT last_edit.id, last_edit.at, owner.talk, erasure.id, erasure.at
FROM (SELECT max(id) AS id, greatest(max(cut_at), max(ended_at)) AS at FROM memoryapp_erasure) erasure
LEFT JOIN memoryapp_chatuser owner ON owner.id = %(owner)s
LEFT JOIN LATERAL (
    SELECT id, at FROM memoryapp_topicedit WHERE owner_id = owner.id ORDER BY id DESC LIMIT 1
) AS last_edit ON true
"""
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

UNKNOWN: Version = (None, None, -1)
Erasure = tuple[int | None, datetime | None]


@dataclass(frozen=True, slots=True)
class MemoryState:
    """What tells whether an index is still valid: the owner's version, and the last ``erasure`` of anybody."""

    version: Version
    erasure: Erasure


def state_read(owner_id: int) -> SqlRead[MemoryState]:
    """Reads the state of an owner's memory; the version of one who was erased is unknown. It has to be sent before the
    other parts of the memory."""
    return SqlRead((STATE, {"owner": owner_id}), lambda rows: _state(*rows[0]))


def _state(
    edit: int | None, edited_at: datetime | None, talk: int | None, erasure: int | None, erased_at: datetime | None
) -> MemoryState:
    version = UNKNOWN if talk is None else (edit, edited_at, talk)
    return MemoryState(version, (erasure, erased_at))


def _asked_archive(trip: RoundTrip, owner_id: int, known: Archive | None) -> Callable[[Ids], Archive]:
    """Asks for what an edit alone changes, unless it is ``known``. Returns what makes the archive of it after the trip,
    without the given passages of active sessions.

    The active sessions have to be asked for before: a session that is archived in between is then read twice, and not
    left out.
    """
    if known is not None:
        return lambda _active: known
    owner = {"owner": owner_id}
    passages = trip.ask(SqlRead((PASSAGES, owner), lambda rows: Passages.of(*rows[0])))
    messages = trip.ask(SqlRead((MESSAGES, owner), lambda rows: Messages.of(rows[0])))
    pairs = trip.ask(SqlRead((MESSAGES_OF, owner), _pairs))
    authors = trip.ask(SqlRead((AUTHORS, owner), lambda rows: tuple(rows[0][0] or ())))
    return lambda active: Archive(passages.value.without(active), messages.value, pairs.value, authors.value)


def _pairs(rows: Sequence[Sequence[bytes | None]]) -> Pairs:
    ((messages, passages),) = rows
    return int64s(messages), int64s(passages)


async def current(connection: AsyncConnection[Any], owner_id: int, cache: IndexCache) -> MemoryIndex:
    """The owner's current index, read from the database as far as ``cache`` does not have it."""
    trip = RoundTrip()
    state = trip.ask(state_read(owner_id))
    await trip.make(connection)
    return await as_of(connection, owner_id, state.value, cache.of(owner_id), cache)


async def as_of(
    connection: AsyncConnection[Any], owner_id: int, state: MemoryState, known: MemoryIndex | None, cache: IndexCache
) -> MemoryIndex:
    """The ``known`` index if it is of this state, otherwise another one, which is kept."""
    cache.forget_erased(state.erasure)
    if known is not None and known.version == state.version:
        return known
    return await _reread(connection, owner_id, state.version, cache)


async def _reread(connection: AsyncConnection[Any], owner_id: int, version: Version, cache: IndexCache) -> MemoryIndex:
    """The owner's index of that version, read from the database and kept in ``cache``. After mere changes of the talk
    the archive is taken from there."""
    before = cache.of(owner_id)
    if before is not None and before.version[:2] != version[:2]:
        before = None
    trip, owner = RoundTrip(), {"owner": owner_id}
    limits = trip.ask(SqlRead((active.BOUNDS, owner), lambda rows: active.limited(*next(iter(rows), (None, None)))))
    messages = trip.ask(SqlRead((active.MESSAGES, owner), list))
    passages = trip.ask(SqlRead((active.PASSAGES, owner), list))
    archive_without = _asked_archive(trip, owner_id, before.archive if before else None)
    await trip.make(connection)
    talk = ActiveTalk.of(messages.value, limits.value)
    archive = archive_without(np.array(sorted({row[0] for row in passages.value}), np.int64))
    talk = talk.without(archive.messages.ids[np.isin(archive.messages.ids, list(talk.session_of))].tolist())
    known = build_index(version, archive, talk, passages.value)
    if before is not None:
        known.facts.update((number, facts) for number, facts in before.facts.items() if number > 0)
        known.sayings.update(before.sayings)
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
