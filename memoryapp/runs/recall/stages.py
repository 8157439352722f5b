"""The stages of a recall, as events: the run starts, its strategy works, its context is assembled.

``recall`` knows no particular strategy. It hands the requested one its ports, and completes the last event that it
returns with the context and the totals of the run. The strategy works in a task of its own, so a slow reader of the
events does not hold it up; a reader that leaves ends it.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import replace
from typing import cast

from django.conf import settings
from psycopg_pool import AsyncConnectionPool

from memoryapp.engine.candidates import Candidate
from memoryapp.engine.context import ContextItem, PassageMessages, SelectedTopics, assembled, unsure_text
from memoryapp.engine.emit import Emit
from memoryapp.engine.events import CandidatesFound, Event, ModelProgress, RunFinished, RunStarted, Selected
from memoryapp.engine.kinds.decisions import DecisionsApplied
from memoryapp.engine.kinds.kind import ContextPart
from memoryapp.engine.memory import ReadTopics, parse_item_id, topic_id, topic_number
from memoryapp.engine.notes import Note
from memoryapp.engine.offline.judging import wants_present
from memoryapp.engine.offline.scorer import MODEL as EMBEDDED_MODEL
from memoryapp.engine.offline.scorer import verdict_in
from memoryapp.engine.outline import Outline, summarise
from memoryapp.engine.prompts.prompt import language_of
from memoryapp.engine.strategies import STRATEGIES, vector
from memoryapp.engine.strategies.strategy import AnyStrategy, SearchTimeout, nearest
from memoryapp.engine.threads import in_thread_if_long
from memoryapp.memory import content
from memoryapp.runs.recall.request import RecallClients, RecallRequest
from memoryapp.runs.recall.run_memory import RunMemory

# The context of a finished selection: the text for the chat model, assembled from the memory.


async def context_of(
    choice: RunFinished,
    found: CandidatesFound | None,
    request: RecallRequest,
    *,
    read_topics: ReadTopics,
    pool: AsyncConnectionPool,
) -> tuple[ContextPart, ...]:
    """The parts of the context that are not empty."""
    topics = await read_topics([topic_number(topic.id) for topic in (*choice.selected, *choice.unsure)])
    people, artifacts = await _items(choice, request.owner_id, pool)
    candidates = found.named((*choice.selected, *choice.unsure)) if found else {}
    by_passages = request.parameters.context == "passages" or choice.unsure
    sent = request.messages or ()
    texts = {message.text.strip() for message in sent}
    talk = (message for topic in topics if topic.id < 0 for message in topic.messages)
    chosen = SelectedTopics(
        query=request.typed.text,
        selected=choice.selected,
        candidates=candidates,
        messages={topic_id(topic.id): topic.messages for topic in topics},
        known={message.id for message in sent} | {message.id for message in talk if message.text.strip() in texts},
        passages=await _passages(candidates, request.owner_id, pool) if by_passages else {},
    )
    makes = STRATEGIES[request.strategy].text_of(request.parameters.context)
    text = await in_thread_if_long(makes, chosen, size=sum(topic.size_chars for topic in topics))
    return assembled(
        profile=request.background.profile,
        inner_circle=request.background.inner_circle,
        recent_topics=request.background.recent_topics,
        topics=text,
        chosen=len(choice.selected),
        unsure=unsure_text(replace(chosen, selected=choice.unsure)) if choice.unsure else "",
        near=len(choice.unsure),
        people=people,
        artifacts=artifacts,
    )


async def _passages(candidates: Mapping[str, Candidate], owner_id: int, pool: AsyncConnectionPool) -> PassageMessages:
    """The messages of the passage by which each topic was found."""
    numbers = [each.passage_id for each in candidates.values() if each.passage_id]
    if not numbers:
        return {}
    async with pool.connection() as connection:
        read = await content.read_passages(connection, owner_id, numbers)
    return {id: read.get(each.passage_id, ()) for id, each in candidates.items()}


async def _items(
    choice: RunFinished, owner_id: int, pool: AsyncConnectionPool
) -> tuple[list[ContextItem], list[ContextItem]]:
    """The selected people and artifacts."""
    if not (choice.people or choice.artifacts):
        return [], []
    async with pool.connection() as connection:
        return await content.read_items(connection, owner_id, _numbers(choice.people), _numbers(choice.artifacts))


def _numbers(selected: Sequence[Selected]) -> list[int]:
    """The row numbers of selected items; ids that the program made always have one."""
    return [cast("tuple[str, int]", parse_item_id(item.id))[1] for item in selected]


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


async def _completed(ended: RunFinished, seen: list[Event], memory: RunMemory, began: float) -> RunFinished:
    """The last event with what is pinned, the context of the selection and the cost of the run."""
    outline = Outline.of(seen)
    found = outline.found
    is_scored = outline.started is not None and outline.started.model == EMBEDDED_MODEL and not ended.fallback
    is_empty = not (ended.selected or ended.people or ended.artifacts)
    verdict = verdict_in(outline.replies[-1].text) if is_scored and is_empty and outline.replies else None
    if verdict and verdict.said_by:
        note = Note("said_by_others", {"named": verdict.named, "who": verdict.said_by})
        ended = replace(ended, notes=(*ended.notes, note))
    if found and is_scored and is_empty and memory.request.parameters.when_unsure == "passages":
        ended = replace(ended, unsure=nearest(found, newest_first=wants_present(memory.request.typed.text)))
    ended = await _with_pinned(ended, memory)
    if found or ended.selected:
        context = await context_of(
            ended, found, memory.request, read_topics=memory.read_topics, pool=memory.clients.pool
        )
        ended = replace(ended, context=context)
    return replace(ended, totals=replace(summarise(seen), seconds=round(asyncio.get_running_loop().time() - began, 6)))
