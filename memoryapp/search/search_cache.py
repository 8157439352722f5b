"""Search cache: results of searches, kept for some seconds for an identical search.

A series of questions, several strategies for one question, or a reloaded page repeat the same search within seconds. A
cached result is used while the memory is unchanged: each search asks for the last edit of topics, the changes of the
talk, the last erasure, the cards of people and artifacts, and the threshold of the profile. A result without all
vectors is not cached, because the vectors are being made. The query's own vectors are not part of it: each run makes
and stores its own.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from threading import Lock
from time import monotonic
from typing import Any
from weakref import WeakSet

from cachetools import TTLCache
from django.dispatch import receiver

from memoryapp.content.chat_users import erased
from memoryapp.engine.fusion import Fusion, fuse
from memoryapp.operations.database import SqlStatement, round_trip
from memoryapp.search import retrieval
from memoryapp.search.index_cache import IndexCache
from memoryapp.search.retrieval import SearchResult, Sizes
from memoryapp.search.similarity import Connection, Question

# Results that one process keeps, for all owners together. A result of a large memory takes some hundred kilobytes.
MOST = 64

VERSION = """
SELECT (SELECT row(id, at)::text FROM memoryapp_topicedit WHERE owner_id = %(owner)s ORDER BY id DESC LIMIT 1),
       (SELECT talk FROM memoryapp_chatuser WHERE id = %(owner)s),
       (SELECT row(max(id), max(cut_at), max(ended_at))::text FROM memoryapp_erasure),
       (SELECT row(count(*), max(made_from))::text FROM memoryapp_card WHERE owner_id = %(owner)s),
       (SELECT count(*) FROM memoryapp_cardvector WHERE owner_id = %(owner)s AND profile_id = %(profile)s),
       (SELECT threshold FROM memoryapp_embeddingprofile WHERE id = %(profile)s)
"""


@dataclass(frozen=True, slots=True)
class CachedResult:
    """A result, the state of the memory that it belongs to, and the time of the search on the process's clock."""

    result: SearchResult
    version: tuple[Any, ...]
    at: float


class SearchCache:
    """Results of the last ``seconds`` seconds; with 0 none are kept."""

    def __init__(self, seconds: float = 0.0) -> None:
        self._kept: TTLCache[Hashable, CachedResult] = TTLCache(MOST, seconds)
        # Searches run in the event loop, erasures in threads.
        self._lock = Lock()
        _caches.add(self)

    @property
    def is_on(self) -> bool:
        return bool(self._kept.ttl > 0)

    def of(self, key: Hashable, version: tuple[Any, ...]) -> CachedResult | None:
        """The result of an identical search, if the memory has not changed since."""
        with self._lock:
            known = self._kept.get(key)
        return known if known and known.version == version else None

    def keep(self, key: Hashable, kept: CachedResult) -> None:
        with self._lock:
            self._kept[key] = kept

    def clear(self) -> None:
        """Deletes all results; from any thread."""
        with self._lock:
            self._kept.clear()


async def search(
    connection: Connection,
    asked: Question,
    cache: SearchCache,
    *,
    sizes: Sizes,
    keep: Sequence[SqlStatement] = (),
    index: IndexCache | None = None,
    fusion: Fusion = fuse,
) -> tuple[SearchResult, float | None]:
    """``retrieval.search``, and how many seconds ago its result was found; None when it was found just now."""
    if not cache.is_on:
        return await retrieval.search(connection, asked, sizes=sizes, keep=keep, cache=index, fusion=fusion), None
    key = _key(asked, sizes, fusion)
    ((version,),) = await round_trip(connection, (VERSION, {"owner": asked.owner_id, "profile": asked.profile_id}))
    known = cache.of(key, version)
    if known is not None:
        await round_trip(connection, *keep)
        return known.result, round(monotonic() - known.at, 3)
    result = await retrieval.search(connection, asked, sizes=sizes, keep=keep, cache=index, fusion=fusion)
    if not result.without_vector:
        cache.keep(key, CachedResult(result, version, monotonic()))
    return result, None


def _key(asked: Question, sizes: Sizes, fusion: Fusion) -> Hashable:
    """The key of a search: its texts, and which of them had a vector. The vectors themselves follow from texts and
    model."""
    wordings = tuple((wording.text, wording.vector is not None) for wording in asked.wordings)
    return asked.owner_id, asked.profile_id, wordings, asked.where, asked.fresh, asked.known, sizes, fusion


_caches: WeakSet[SearchCache] = WeakSet()


@receiver(erased)
def _forget(number: int, **_signal: Any) -> None:
    """Deletes the results of an erased chat user in this process; in other processes they expire."""
    for cache in list(_caches):
        cache.clear()
