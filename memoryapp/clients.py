"""The outside world, built from the settings: chat model, embedder, connections.

Only tasks, runs, the web process and commands build clients; everything else receives them. The embedded
models are loaded once a process, and a network client lives as long as the event loop that uses it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from urllib.parse import urlsplit

import httpx
from django.conf import settings
from psycopg_pool import AsyncConnectionPool

from memoryapp import database
from memoryapp.engine.embeddings import Embedder, HttpEmbedder, Profile
from memoryapp.engine.http_chat import HttpChat
from memoryapp.engine.llm import Chat
from memoryapp.engine.offline import OfflineEmbedder
from memoryapp.engine.offline_chat import OfflineChat
from memoryapp.vectors import profile_row

REMOTE_THRESHOLD = 0.3


@dataclass(frozen=True, slots=True)
class Clients:
    """Everything a run needs from outside, good for one event loop. ``enricher`` is None without a model."""

    chat: Chat
    enricher: Chat | None
    embedder: Embedder
    profile_id: int
    pool: AsyncConnectionPool


@cache
def offline_chat() -> OfflineChat:
    return OfflineChat()


@cache
def offline_embedder() -> OfflineEmbedder:
    return OfflineEmbedder()


def profile() -> Profile:
    """The profile whose vectors the settings ask for; makes no client."""
    if not settings.EMBEDDING_BASE_URL:
        return offline_embedder().profile
    host = urlsplit(settings.EMBEDDING_BASE_URL).netloc.rpartition("@")[2][:100]
    return Profile(host, settings.EMBEDDING_MODEL, settings.EMBEDDING_DIMENSIONS, REMOTE_THRESHOLD)


def embedder(http: httpx.AsyncClient | None = None) -> Embedder:
    """The embedder of the settings; without ``http`` it keeps no connection open between calls."""
    if not settings.EMBEDDING_BASE_URL:
        return offline_embedder()
    http = http or httpx.AsyncClient(limits=httpx.Limits(max_keepalive_connections=0))
    return HttpEmbedder(http, settings.EMBEDDING_BASE_URL, settings.EMBEDDING_API_KEY, profile())


def _chat(http: httpx.AsyncClient, model: str) -> Chat:
    if not settings.LLM_BASE_URL:
        return offline_chat()
    return HttpChat(http, settings.LLM_BASE_URL, settings.LLM_API_KEY, model)


@asynccontextmanager
async def open_clients() -> AsyncIterator[Clients]:
    """Clients for the running event loop, closed at the end; the embedded model is loaded, so no run waits for it."""
    limits = httpx.Limits(max_connections=1000, max_keepalive_connections=100)
    async with httpx.AsyncClient(limits=limits) as http, database.pool() as pool:
        made = embedder(http)
        row = await profile_row(made.profile)
        if isinstance(made, OfflineEmbedder):
            await made.embed(["ready"])
        yield Clients(
            chat=_chat(http, settings.RERANKER_MODEL),
            enricher=_chat(http, settings.ENRICHER_MODEL) if settings.LLM_BASE_URL else None,
            embedder=made,
            profile_id=row.pk,
            pool=pool,
        )
