"""Clients for the outside world, created from the settings: chat model, embedder, HTTP client. Only tasks, runs,
proposals, the demo and commands create clients; everything else receives them. The embedded models are loaded once in
each process, and a network client lives as long as the event loop that uses it."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import Any
from urllib.parse import urlsplit

import httpx
from django.conf import settings

from memoryapp.engine.chat.capabilities import Learnt
from memoryapp.engine.chat.client import ChatOptions, HttpChat
from memoryapp.engine.chat.cross_encoder import CrossEncoder, HttpCrossEncoder
from memoryapp.engine.chat.protocol import Chat
from memoryapp.engine.embeddings import Embedder, Profile, UnreachableEmbedder
from memoryapp.engine.events import SteppedDown
from memoryapp.engine.http_embedder import Accepted, HttpEmbedder
from memoryapp.engine.offline.scorer import OfflineChat
from memoryapp.engine.offline.sentence_encoder import OfflineEmbedder

# When a request that waits in httpcore's pool is cancelled, its place in the pool may be lost; so the pool has no
# limit, and only the number of concurrent runs is bounded.
LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=30.0)


@dataclass(frozen=True, slots=True)
class Limitation:
    """What a ``model`` at ``host`` was found to lack; it is tried again after ``seconds_left``."""

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
    """Returns the profile that the settings name; creates no client."""
    if not settings.EMBEDDING_BASE_URL:
        return offline_embedder().profile
    identity = {
        "provider": host_of(settings.EMBEDDING_BASE_URL),
        "model": settings.EMBEDDING_MODEL,
        "dimensions": settings.EMBEDDING_DIMENSIONS,
        "query_prefix": settings.EMBEDDING_QUERY_PREFIX,
        "passage_prefix": settings.EMBEDDING_PASSAGE_PREFIX,
    }
    return known_profile(identity, settings.EMBEDDING_TOPICS_THRESHOLD)


def known_profile(identity: Mapping[str, Any], threshold: float) -> Profile:
    """Returns the profile of this identity, with what is known about its model."""
    embedded = offline_embedder().profile
    if identity == embedded.identity:
        return embedded
    return Profile(**identity, threshold=threshold, related=threshold)


def embedder(http: httpx.AsyncClient | None = None) -> Embedder:
    """Returns the embedder of the settings; without ``http`` it keeps no connection open between calls."""
    return embedder_of(profile(), http)


def embedder_of(owner: Profile, http: httpx.AsyncClient | None = None) -> Embedder:
    """Returns the embedder for vectors of this profile, even if the settings name another one by now. A key is sent
    only to the host it was given for. If no setting names the address, the embedder refuses."""
    if owner == offline_embedder().profile:
        return offline_embedder()
    now = settings.EMBEDDING_BASE_URL, settings.EMBEDDING_API_KEY
    for address, key in (now, (settings.EMBEDDING_PREVIOUS_BASE_URL, settings.EMBEDDING_PREVIOUS_API_KEY)):
        if address and host_of(address) == owner.provider:
            http = http or httpx.AsyncClient(limits=httpx.Limits(max_keepalive_connections=0))
            accepted = _accepted().setdefault((address, owner.model), Accepted())
            return HttpEmbedder(http, address, key, owner, accepted)
    return UnreachableEmbedder(owner)


def is_reachable(owner: Profile) -> bool:
    """Whether the settings say where vectors of this profile are made; that place may still not answer."""
    return not isinstance(embedder_of(owner), UnreachableEmbedder)


@cache
def _accepted() -> dict[tuple[str, str], Accepted]:
    """Returns what embedding endpoints were found to accept, by address and model."""
    return {}


@cache
def _learnt() -> dict[tuple[str, str], Learnt]:
    """Returns what this process has learnt about a model at an endpoint, by address and model."""
    return {}


def limitations() -> list[Limitation]:
    """Returns what this process has learnt that endpoints cannot do, and has not forgotten yet."""
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
    """Returns the chat model of this name; the embedded one when no endpoint is set."""
    if not settings.LLM_BASE_URL:
        return offline_chat()
    learnt = _learnt().setdefault((settings.LLM_BASE_URL, model), Learnt())
    return HttpChat(http, settings.LLM_BASE_URL, settings.LLM_API_KEY, model, _options(), learnt)


def unlearnt_chat(http: httpx.AsyncClient, model: str, *, stream: bool) -> Chat:
    """Returns a chat model behind the endpoint of the settings that knows of no limitation, and remembers none."""
    options = replace(_options(), stream=stream)
    return HttpChat(http, settings.LLM_BASE_URL, settings.LLM_API_KEY, model, options, Learnt())


def cross_encoder(http: httpx.AsyncClient) -> CrossEncoder | None:
    if not settings.RERANK_BASE_URL:
        return None
    return HttpCrossEncoder(http, settings.RERANK_BASE_URL, settings.RERANK_API_KEY, settings.RERANK_MODEL)


def http_client() -> httpx.AsyncClient:
    return httpx.AsyncClient(limits=LIMITS)


@asynccontextmanager
async def open_chat(model: str) -> AsyncIterator[Chat]:
    """The chat model of this name for the running event loop, for callers that need nothing else."""
    async with http_client() as http:
        yield chat(http, model)
