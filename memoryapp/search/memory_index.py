"""Memory index: the data of a whole memory that a search reads, apart from the words and vectors of its texts. It
consists of the passages, of the topics and active sessions that contain them, and of when they were said and by
whom."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
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

from memoryapp.engine.beside import table_beside
from memoryapp.engine.fusion import TopicPassages
from memoryapp.engine.sight import sight
from memoryapp.engine.text.excerpts import Saying
from memoryapp.engine.text.lexical import Floats
from memoryapp.memory import sessions
from memoryapp.memory.content import erased
from memoryapp.memory.sessions import ActiveTalk
from memoryapp.platform.database import RoundTrip, SqlRead
from memoryapp.search.columns import Ids, Positions, int64s, positions
from memoryapp.search.scores import PassageOrigins

# The number and the time of the last edit, and how often the active sessions have changed.
Version = tuple[int | None, datetime | None, int]
Projects = frozenset[str] | None
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
    ``IndexCache.learn`` adds more."""

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


# Index cache: the data of a whole memory that a search reads and only a change of it changes, kept between searches.
#
# The archived messages change only in an edit, and edits are numbered while nobody else changes the owner's topics.
# The active sessions change with every message; those changes are counted in a row of the owner (``Talk``). So
# each search asks for both numbers, which tell whether the cached data are still valid. After a message only the
# active sessions are read again. Topics never change, so their facts are kept as well. When a chat user is erased,
# the process that erases forgets the user at once; other processes do so with their next search, which also asks for
# the last erasure.

# Bytes that one process keeps, for all owners together.
MOST = 100_000_000
_SQL = table_beside(__file__)
STATE: str = _SQL["state"]
PASSAGES: str = _SQL["passages"]
MESSAGES: str = _SQL["messages"]
# Read separately from the messages: joining 300,000 of them takes the database longer than reading both.
MESSAGES_OF: str = _SQL["messages_of"]
AUTHORS: str = _SQL["authors"]

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
    without the given passages of active sessions. The active sessions have to be asked for before: a session that is
    archived in between is then read twice, and not left out."""
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
    limits = trip.ask(SqlRead((sessions.BOUNDS, owner), lambda rows: sessions.limited(*next(iter(rows), (None, None)))))
    messages = trip.ask(SqlRead((sessions.MESSAGES, owner), list))
    passages = trip.ask(SqlRead((sessions.PASSAGES, owner), list))
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
    """The indexes of the owners whose memories were searched last, up to ``most`` bytes together; each is of what the
    search sees of the memory."""

    def __init__(self, most: int = MOST) -> None:
        self._kept: LRUCache[tuple[int, Projects], MemoryIndex] = LRUCache(most, getsizeof=lambda index: index.size)
        # Searches run in the event loop, erasures in threads.
        self._lock = Lock()
        self._erasure: Erasure | None = None
        _caches.add(self)

    def of(self, owner_id: int) -> MemoryIndex | None:
        """The index that was read last, current or not."""
        with self._lock:
            return self._kept.get((owner_id, sight().projects))

    def keep(self, owner_id: int, index: MemoryIndex) -> None:
        """Keeps the index in place of the owner's earlier one, unless it is larger than the whole cache."""
        with self._lock:
            key = owner_id, sight().projects
            self._kept.pop(key, None)
            if index.size <= self._kept.maxsize:
                self._kept[key] = index

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
        """Removes the owner's indexes; from any thread."""
        with self._lock:
            for key in [key for key in self._kept if key[0] == owner_id]:
                del self._kept[key]

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
