"""Search cache: what a search found, kept for some seconds for whoever asks the same again.

A thread of questions, several strategies on one question and a page that is loaded anew search the same within
seconds. A result is good while its memory is as it was: the last edit of topics, the last erasure of anybody, the
cards of people and artifacts, and the threshold of the profile are asked for with every search. One that lacks vectors
is not kept, for they are being made. Vectors of the query are no part of it: each run makes and keeps its own.
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

from memoryapp.engine.fusion import Fusion, fuse
from memoryapp.erasure import erased
from memoryapp.operations.database import SqlStatement, together
from memoryapp.search import retrieval
from memoryapp.search.index_cache import IndexCache
from memoryapp.search.retrieval import SearchResult, Sizes
from memoryapp.search.similarity import Connection, Question

# Results kept by one process, of all owners; one of a large memory takes some hundred kilobytes.
MOST = 64

VERSION = """
SELECT (SELECT row(id, at)::text FROM memoryapp_topicedit WHERE owner_id = %(owner)s ORDER BY id DESC LIMIT 1),
       (SELECT row(max(id), max(cut_at), max(ended_at))::text FROM memoryapp_erasure),
       (SELECT row(count(*), max(made_from))::text FROM memoryapp_card WHERE owner_id = %(owner)s),
       (SELECT count(*) FROM memoryapp_cardvector WHERE owner_id = %(owner)s AND profile_id = %(profile)s),
       (SELECT threshold FROM memoryapp_embeddingprofile WHERE id = %(profile)s)
"""


@dataclass(frozen=True, slots=True)
class CachedResult:
    """A result, the state of the memory that it is of, and when it was found on the process's clock."""

    result: SearchResult
    version: tuple[Any, ...]
    at: float


class SearchCache:
    """The results of the last ``seconds``; none are kept for 0."""

    def __init__(self, seconds: float = 0.0) -> None:
        self._kept: TTLCache[Hashable, CachedResult] = TTLCache(MOST, seconds)
        # Searches run in the event loop, erasures in threads.
        self._lock = Lock()
        _caches.add(self)

    @property
    def is_on(self) -> bool:
        return bool(self._kept.ttl > 0)

    def of(self, key: Hashable, version: tuple[Any, ...]) -> CachedResult | None:
        """What was found for the same, where the memory has not changed since."""
        with self._lock:
            known = self._kept.get(key)
        return known if known and known.version == version else None

    def keep(self, key: Hashable, kept: CachedResult) -> None:
        with self._lock:
            self._kept[key] = kept

    def clear(self) -> None:
        """From any thread."""
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
    """``retrieval.search``, and how many seconds ago its result was found: None for one that was found now."""
    if not cache.is_on:
        return await retrieval.search(connection, asked, sizes=sizes, keep=keep, cache=index, fusion=fusion), None
    key = _key(asked, sizes, fusion)
    ((version,),) = await together(connection, (VERSION, {"owner": asked.owner_id, "profile": asked.profile_id}))
    known = cache.of(key, version)
    if known is not None:
        await together(connection, *keep)
        return known.result, round(monotonic() - known.at, 3)
    result = await retrieval.search(connection, asked, sizes=sizes, keep=keep, cache=index, fusion=fusion)
    if not result.without_vector:
        cache.keep(key, CachedResult(result, version, monotonic()))
    return result, None


def _key(asked: Question, sizes: Sizes, fusion: Fusion) -> Hashable:
    """What makes two searches the same: texts, and whether each had a vector, which the same model makes the same."""
    wordings = tuple((wording.text, wording.vector is not None) for wording in asked.wordings)
    return asked.owner_id, asked.profile_id, wordings, asked.where, sizes, fusion


_caches: WeakSet[SearchCache] = WeakSet()


@receiver(erased)
def _forget(number: int, **_signal: Any) -> None:
    """An erased chat user leaves the caches of the process that erases at once, those of others as results age."""
    for cache in list(_caches):
        cache.clear()
