"""The stages of a recall, as events: the run starts, its strategy works, its context is assembled.

``recall`` knows no particular strategy. It takes the generator of the requested one, hands it the ports, and completes
its last event with the context and the totals of the run.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import cast

from django.conf import settings

from memoryapp.engine.events import Event, ModelProgress, RunFinished, RunStarted
from memoryapp.engine.notes import Note
from memoryapp.engine.outline import Outline, summarise
from memoryapp.engine.prompts import language_of
from memoryapp.engine.strategies import STRATEGIES, vector
from memoryapp.engine.strategies.ports import SearchTimeout
from memoryapp.engine.strategies.strategy import AnyStrategy
from memoryapp.runs.recall.clients import RecallClients
from memoryapp.runs.recall.context import context_of
from memoryapp.runs.recall.request import RecallRequest
from memoryapp.runs.recall.run_memory import RunMemory

Events = AsyncGenerator[Event | ModelProgress, None]


async def recall(request: RecallRequest, clients: RecallClients) -> Events:
    """Every event of the run, with ``RunFinished`` and the run's totals last; in between, the text that
    a model has sent so far."""
    # The budgets use the same clock.
    began = asyncio.get_running_loop().time()
    memory = RunMemory.of(request, clients)
    seen: list[Event] = []
    async with aclosing(_events(memory)) as events:
        async for event in events:
            if isinstance(event, ModelProgress):
                yield event
                continue
            if isinstance(event, RunFinished):
                event = await _completed(event, seen, memory, began)
            seen.append(event)
            yield event


async def _events(memory: RunMemory) -> Events:
    strategy = _in_force(STRATEGIES[memory.request.strategy])
    yield _started(strategy, memory)
    steps = cast("Events", strategy.recall(memory.request.for_strategy, memory.ports))
    try:
        async with aclosing(steps):
            async for event in steps:
                yield event
    except SearchTimeout:
        yield RunFinished(selected=(), dropped=(), fallback="timeout", notes=(Note("late_search"),))


def _in_force(strategy: AnyStrategy) -> AnyStrategy:
    """The strategy itself, or the one that replaces it while models are switched off."""
    return strategy if settings.RERANKER_ENABLED or not strategy.needs_model else vector.WITHOUT_MODEL


def _started(strategy: AnyStrategy, memory: RunMemory) -> RunStarted:
    request, clients = memory.request, memory.clients
    model = _model(strategy, memory)
    prompts = [request.prompts[name, language_of(request.query)].label for name in strategy.prompts if model]
    return RunStarted(
        strategy=request.strategy,
        query=request.query,
        parameters=request.parameters.as_dict(),
        prompt_version=prompts[0] if prompts else "",
        model=model,
        profile=clients.embedder.profile.name,
        media=tuple(media.item for media in request.media),
        parent=request.parent,
    )


def _model(strategy: AnyStrategy, memory: RunMemory) -> str:
    """The model that the strategy asks; empty when it asks none."""
    if strategy.needs_model:
        return memory.clients.chat.model
    return memory.writer.model if memory.writer and strategy.prompts else ""


async def _completed(finished: RunFinished, seen: list[Event], memory: RunMemory, began: float) -> RunFinished:
    """The last event with the context of the selection and the cost of the run."""
    found = Outline.of(seen).found
    if found or finished.selected:
        context = await context_of(
            finished, found, memory.request, read_topics=memory.read_topics, pool=memory.clients.pool
        )
        finished = replace(finished, context=context)
    return replace(
        finished, totals=replace(summarise(seen), seconds=round(asyncio.get_running_loop().time() - began, 6))
    )
