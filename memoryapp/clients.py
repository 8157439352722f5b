"""The outside world, built from the settings: chat model, embedder, connections.

Only tasks, runs, the web process and commands build clients; everything else receives them. The embedded
models are loaded once a process, and a network client lives as long as the event loop that uses it.
"""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from urllib.parse import urlsplit

import httpx
from django.conf import settings
from psycopg_pool import AsyncConnectionPool

from memoryapp import database
from memoryapp.engine.abilities import ChatOptions, Learnt
from memoryapp.engine.embeddings import Embedder, HttpEmbedder, Profile
from memoryapp.engine.events import SteppedDown
from memoryapp.engine.http_chat import HttpChat
from memoryapp.engine.llm import Chat
from memoryapp.engine.offline import OfflineEmbedder
from memoryapp.engine.offline_chat import OfflineChat
from memoryapp.journal import Journal
from memoryapp.layout import Layouts
from memoryapp.leases import Leases, leased
from memoryapp.vectors import profile_row

# A request that waits for a place in httpcore's pool and is cancelled may take the place with it; so there is no limit
# but the one on runs at once.
LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=30.0)


@dataclass(frozen=True, slots=True)
class Clients:
    """Everything a run needs from outside, good for one event loop. ``enricher`` is None without a model.

    ``journal`` takes what runs have to say, ``layouts`` is what earlier runs have read, ``http`` what all providers
    are asked through. ``leases`` keep runs that go on from being swept.
    """

    chat: Chat
    enricher: Chat | None
    embedder: Embedder
    profile_id: int
    pool: AsyncConnectionPool
    journal: Journal
    leases: Leases
    layouts: Layouts = field(default_factory=Layouts)
    http: httpx.AsyncClient | None = None


@dataclass(frozen=True, slots=True)
class Limitation:
    """What a ``model`` at ``host`` was found to lack; it is asked for again after ``seconds_left``."""

    host: str
    model: str
    step: SteppedDown
    seconds_left: float


@cache
def offline_chat() -> OfflineChat:
    return OfflineChat()


@cache
def offline_embedder() -> OfflineEmbedder:
    return OfflineEmbedder()


def host_of(address: str) -> str:
    """Host and port, without a password before them."""
    return urlsplit(address).netloc.rpartition("@")[2][:100]


def profile() -> Profile:
    """The profile whose vectors the settings ask for; makes no client."""
    if not settings.EMBEDDING_BASE_URL:
        return offline_embedder().profile
    threshold = settings.EMBEDDING_TOPICS_THRESHOLD
    host = host_of(settings.EMBEDDING_BASE_URL)
    return Profile(host, settings.EMBEDDING_MODEL, settings.EMBEDDING_DIMENSIONS, threshold, related=threshold)


def embedder(http: httpx.AsyncClient | None = None) -> Embedder:
    """The embedder of the settings; without ``http`` it keeps no connection open between calls."""
    if not settings.EMBEDDING_BASE_URL:
        return offline_embedder()
    http = http or httpx.AsyncClient(limits=httpx.Limits(max_keepalive_connections=0))
    return HttpEmbedder(http, settings.EMBEDDING_BASE_URL, settings.EMBEDDING_API_KEY, profile())


@cache
def _learnt() -> dict[tuple[str, str], Learnt]:
    """What this process knows of a model at an endpoint, whoever speaks to it; by address and model."""
    return {}


def limitations() -> list[Limitation]:
    """What this process has learnt that endpoints cannot do and has not forgotten yet."""
    return [
        Limitation(host_of(address), model, known.step, known.seconds_left)
        for (address, model), learnt in sorted(_learnt().items())
        for known in learnt.remembered()
    ]


def _options() -> ChatOptions:
    return ChatOptions(
        stream=settings.LLM_STREAM,
        reasoning_effort=settings.LLM_REASONING_EFFORT,
        response_healing=settings.LLM_RESPONSE_HEALING,
        provider=settings.LLM_PROVIDER,
        fallback_models=tuple(settings.LLM_FALLBACK_MODELS),
    )


def chat(http: httpx.AsyncClient, model: str) -> Chat:
    """The chat model of the settings under this name; the embedded one when no endpoint is set."""
    if not settings.LLM_BASE_URL:
        return offline_chat()
    learnt = _learnt().setdefault((settings.LLM_BASE_URL, model), Learnt())
    return HttpChat(http, settings.LLM_BASE_URL, settings.LLM_API_KEY, model, _options(), learnt)


def http_client() -> httpx.AsyncClient:
    """The one client of an event loop."""
    return httpx.AsyncClient(limits=LIMITS)


@cache
def _spare_the_collector() -> None:
    """What is loaded by now stays, and a run makes thousands of values that hold no cycles.

    So the collector of cycles need not look at the former again, nor at the latter every seven hundred: that takes
    15 % of a process which executes many runs at once.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)


@asynccontextmanager
async def open_chat(model: str) -> AsyncIterator[Chat]:
    """The chat model of this name for the running event loop, where nothing else is needed."""
    async with http_client() as http:
        yield chat(http, model)


@asynccontextmanager
async def open_clients() -> AsyncIterator[Clients]:
    """Clients for the running event loop, closed at the end; the embedded model is loaded, so no run waits for it."""
    async with http_client() as http, database.pool() as pool, leased(pool) as leases:
        made = embedder(http)
        row = await profile_row(made.profile)
        if isinstance(made, OfflineEmbedder):
            await made.embed(["ready"])
        _spare_the_collector()
        yield Clients(
            chat=chat(http, settings.RERANKER_MODEL),
            enricher=chat(http, settings.ENRICHER_MODEL) if settings.LLM_BASE_URL else None,
            embedder=made,
            profile_id=row.pk,
            pool=pool,
            journal=Journal(pool),
            leases=leases,
            http=http,
        )
