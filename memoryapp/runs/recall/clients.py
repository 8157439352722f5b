"""The connections and models that a recall uses, and the caches of its searches."""

from __future__ import annotations

from dataclasses import dataclass, field

from psycopg_pool import AsyncConnectionPool

from memoryapp.engine.chat.cross_encoder import CrossEncoder
from memoryapp.engine.chat.protocol import Chat
from memoryapp.engine.embeddings import Embedder
from memoryapp.search.index_cache import IndexCache
from memoryapp.search.search_cache import SearchCache


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallClients:
    """For use in one event loop. ``enricher`` is None without a chat model, ``verifier`` unless answers are judged by
    another model than the one that writes them, ``cross_encoder`` when none is configured.

    ``index_cache`` keeps what searches have read, ``search_cache`` keeps their results.
    """

    chat: Chat
    enricher: Chat | None
    verifier: Chat | None = None
    embedder: Embedder
    profile_id: int
    pool: AsyncConnectionPool
    index_cache: IndexCache = field(default_factory=IndexCache)
    search_cache: SearchCache = field(default_factory=SearchCache)
    cross_encoder: CrossEncoder | None = None
