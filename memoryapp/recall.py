"""From a query to a selection: enrich, search, choose. Every stage is events.

``recall`` is one async generator over all stages; the strategies are generators of their own that end with
``RunFinished``. No connection is held while a model thinks: each look at the database borrows one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, replace
from datetime import date

from django.conf import settings

from memoryapp import reading, retrieval
from memoryapp.clients import Clients
from memoryapp.engine import flash, prompts
from memoryapp.engine.embeddings import EmbeddingError, Vectors
from memoryapp.engine.enricher import enrich
from memoryapp.engine.events import (
    CandidatesFound,
    Event,
    QueryEnriched,
    RunFinished,
    RunStarted,
    Selected,
    summarise,
)
from memoryapp.engine.memory import TopicContent
from memoryapp.parameters import RANKED, Parameters
from memoryapp.reading import Background

VECTOR_TOPICS = 5


@dataclass(frozen=True, slots=True)
class RecallRequest:
    """One question to one chat user's memory."""

    owner_id: int
    query: str
    strategy: str
    parameters: Parameters
    today: date
    profile: str = ""


async def recall(request: RecallRequest, clients: Clients) -> AsyncGenerator[Event, None]:
    """Every event of the run, ``RunFinished`` with the run's totals last."""
    began = time.perf_counter()
    seen: list[Event] = []
    async for event in _stages(request, clients):
        if isinstance(event, RunFinished):
            totals = replace(summarise(seen), seconds=round(time.perf_counter() - began, 6))
            event = replace(event, totals=totals)
        seen.append(event)
        yield event


async def _stages(request: RecallRequest, clients: Clients) -> AsyncGenerator[Event, None]:
    yield RunStarted(
        strategy=request.strategy,
        query=request.query,
        parameters=request.parameters.as_dict(),
        prompt_version=prompts.PROMPT_VERSION,
        model=clients.chat.model if request.strategy == "flash" else "",
        profile=clients.embedder.profile.name,
    )
    async with clients.pool.connection() as connection:
        background = await reading.background(connection, request.owner_id)
    enriched = await _enriched(request, background, clients)
    yield enriched
    found, baseline = await _search(request, enriched.enriched, clients)
    yield found
    if request.strategy == "vector" or not settings.RERANKER_ENABLED:
        yield vector_choice(found, baseline, strategy=request.strategy)
        return
    rerank = flash.RerankRequest(
        query=request.query,
        enriched=enriched.enriched,
        candidates=tuple(candidate for candidate in found.candidates if candidate.shown),
        baseline=baseline,
        today=request.today,
        messages=background.messages,
        profile=request.profile,
        recent_topics=background.recent_topics,
    )
    async for event in _rerank(rerank, request, clients):
        yield event


async def _enriched(request: RecallRequest, background: Background, clients: Clients) -> QueryEnriched:
    if request.strategy == "vector":
        return QueryEnriched(request.query, request.query, note="not_wanted", seconds=0.0)
    return await enrich(
        request.query,
        chat=clients.enricher,
        messages=background.messages,
        profile=request.profile,
        today=request.today,
        seconds=request.parameters.turn_seconds,
    )


async def _search(request: RecallRequest, query: str, clients: Clients) -> tuple[CandidatesFound, tuple[str, ...]]:
    began = time.perf_counter()
    vector, note = await _vector(query, clients, request.parameters.turn_seconds)
    profile = clients.embedder.profile
    async with clients.pool.connection() as connection:
        search = await retrieval.search_topics(
            connection,
            request.owner_id,
            query,
            vector,
            profile_id=clients.profile_id,
            dimensions=profile.dimensions,
            threshold=profile.threshold,
            shown=request.parameters.candidates,
            ranked=RANKED,
        )
    seconds = round(time.perf_counter() - began, 6)
    found = CandidatesFound(search.candidates, search.passages, seconds, note, search.without_vector)
    return found, search.baseline


async def _vector(query: str, clients: Clients, seconds: float) -> tuple[Vectors | None, str]:
    try:
        async with asyncio.timeout(seconds):
            return (await clients.embedder.embed([query]))[0], ""
    except EmbeddingError as error:
        return None, str(error)
    except TimeoutError:
        return None, f"The embedding model gave no vector within {seconds:g} s."


async def _rerank(rerank: flash.RerankRequest, request: RecallRequest, clients: Clients) -> AsyncGenerator[Event, None]:
    async def read_topics(ids: Sequence[int]) -> Sequence[TopicContent]:
        async with clients.pool.connection() as connection:
            return await reading.read_topics(connection, request.owner_id, ids)

    parameters = request.parameters
    limits = flash.Limits(
        max_topics=parameters.max_topics,
        max_tool_calls=parameters.max_tool_calls,
        seconds=parameters.seconds,
        turn_seconds=parameters.turn_seconds,
        read_chars=parameters.read_chars,
        tool_mode=parameters.tool_mode,
    )
    async for event in flash.rerank(rerank, chat=clients.chat, read_topics=read_topics, limits=limits):
        yield event


def vector_choice(found: CandidatesFound, baseline: tuple[str, ...], *, strategy: str) -> RunFinished:
    """The baseline every run is shown against: the first five in cosine order, no model asked.

    Without a vector of the query these are the first by words, and the run says so.
    """
    scores = {candidate.id: candidate.score for candidate in found.candidates}
    selected = tuple(
        Selected(id=topic, rank=rank, reason="", score=scores.get(topic, 0.0), vector_rank=0 if found.note else rank)
        for rank, topic in enumerate(baseline[:VECTOR_TOPICS], start=1)
    )
    fallback = "disabled" if strategy != "vector" else "no_vectors" if found.note else ""
    return RunFinished(selected=selected, dropped=(), fallback=fallback, note=found.note, baseline=baseline)
