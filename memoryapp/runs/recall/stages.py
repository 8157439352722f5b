"""The stages of a recall, as events: the run starts, its strategy works, its context is assembled.

``recall`` knows no particular strategy. It hands the requested one its ports, and completes the last event that it
returns with the context and the totals of the run. The strategy works in a task of its own, so a slow reader of the
events does not hold it up; a reader that leaves ends it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from dataclasses import replace

from django.conf import settings

from memoryapp.engine.emit import Emit
from memoryapp.engine.events import Event, ModelProgress, RunFinished, RunStarted, Selected
from memoryapp.engine.kinds.decisions import DecisionsApplied
from memoryapp.engine.memory import topic_id
from memoryapp.engine.notes import Note
from memoryapp.engine.offline.question_kinds import wants_present
from memoryapp.engine.offline.scorer import MODEL as EMBEDDED_MODEL
from memoryapp.engine.outline import Outline, summarise
from memoryapp.engine.prompts.language import language_of
from memoryapp.engine.strategies import STRATEGIES, vector
from memoryapp.engine.strategies.outcomes import nearest
from memoryapp.engine.strategies.ports import SearchTimeout
from memoryapp.engine.strategies.strategy import AnyStrategy
from memoryapp.runs.recall.clients import RecallClients
from memoryapp.runs.recall.context import context_of
from memoryapp.runs.recall.request import RecallRequest
from memoryapp.runs.recall.run_memory import RunMemory

Emitted = Event | ModelProgress


async def recall(
    request: RecallRequest, clients: RecallClients, unread: deque[Emitted] | None = None
) -> AsyncGenerator[Emitted, None]:
    """Every event of the run, with ``RunFinished`` and the run's totals last; in between, the text that
    a model has sent so far. Raises what the strategy raises, after its events. Events wait in ``unread`` for the
    reader; one that is cancelled finds there what happened before and was not yet read."""
    stream = _Stream(deque() if unread is None else unread)
    work = asyncio.create_task(_work(RunMemory.of(request, clients), stream.put))
    work.add_done_callback(stream.end)
    try:
        while event := await stream.get():
            yield event
        await work
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


class _Stream:
    """The queue between the strategy and the reader. Text that a model has sent so far contains all that was sent
    before, so only the latest waits for a slow reader."""

    def __init__(self, waiting: deque[Emitted]) -> None:
        self._waiting = waiting
        self._has_ended = False
        self._changed = asyncio.Event()

    def put(self, event: Emitted) -> None:
        if isinstance(event, ModelProgress) and self._waiting and isinstance(self._waiting[-1], ModelProgress):
            self._waiting.pop()
        self._waiting.append(event)
        self._changed.set()

    def end(self, work: asyncio.Task[None]) -> None:
        self._has_ended = True
        self._changed.set()

    async def get(self) -> Emitted | None:
        """The next event; None after the last one."""
        while not self._waiting and not self._has_ended:
            self._changed.clear()
            await self._changed.wait()
        return self._waiting.popleft() if self._waiting else None


async def _work(memory: RunMemory, emit: Emit) -> None:
    """Emits every event of the run."""
    # The deadline uses the same clock.
    began = asyncio.get_running_loop().time()
    seen: list[Event] = []

    def seen_and_emitted(event: Emitted) -> None:
        if not isinstance(event, ModelProgress):
            seen.append(event)
        emit(event)

    strategy = _in_force(STRATEGIES[memory.request.strategy])
    seen_and_emitted(_started(strategy, memory))
    if decided := memory.request.background.decided:
        pinned, never = (tuple(each.id for each in decided if each.recall == mode) for mode in ("pinned", "never"))
        seen_and_emitted(DecisionsApplied(pinned, never))
    try:
        finished = await strategy.recall(memory.request.for_strategy, memory.ports, seen_and_emitted)
    except SearchTimeout:
        finished = RunFinished(selected=(), dropped=(), fallback="timeout", notes=(Note("late_search"),))
    emit(await _completed(finished, seen, memory, began))


def _in_force(strategy: AnyStrategy) -> AnyStrategy:
    """The strategy itself, or the one that replaces it while models are switched off."""
    return strategy if settings.RERANKER_ENABLED or not strategy.needs_model else vector.WITHOUT_MODEL


def _started(strategy: AnyStrategy, memory: RunMemory) -> RunStarted:
    request, clients = memory.request, memory.clients
    model = _model(strategy, memory)
    prompts = [each.of(request.prompts, language_of(request.query)).label for each in strategy.prompts if model]
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


async def _with_pinned(finished: RunFinished, memory: RunMemory) -> RunFinished:
    """The selection with the pinned topics, as far as the filters of the run permit them."""
    pinned = memory.request.background.numbers("Topic", "pinned")
    if not pinned:
        return finished
    names = {topic_id(number) for number in pinned}
    selected = [replace(each, pinned=each.id in names) for each in finished.selected]
    chosen = {each.id for each in selected}
    read = await memory.read_topics([number for number in pinned if topic_id(number) not in chosen])
    for topic in read:
        if topic.messages:
            selected.append(Selected(topic_id(topic.id), len(selected) + 1, "", 0.0, 0, pinned=True))
    return replace(finished, selected=tuple(selected))


async def _completed(finished: RunFinished, seen: list[Event], memory: RunMemory, began: float) -> RunFinished:
    """The last event with what is pinned, the context of the selection and the cost of the run."""
    outline = Outline.of(seen)
    found = outline.found
    is_scored = outline.started is not None and outline.started.model == EMBEDDED_MODEL and not finished.fallback
    is_empty = not (finished.selected or finished.people or finished.artifacts)
    if found and is_scored and is_empty and memory.request.parameters.when_unsure == "passages":
        finished = replace(finished, unsure=nearest(found, newest_first=wants_present(memory.request.typed.text)))
    finished = await _with_pinned(finished, memory)
    if found or finished.selected:
        context = await context_of(
            finished, found, memory.request, read_topics=memory.read_topics, pool=memory.clients.pool
        )
        finished = replace(finished, context=context)
    return replace(
        finished, totals=replace(summarise(seen), seconds=round(asyncio.get_running_loop().time() - began, 6))
    )
