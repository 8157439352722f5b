"""The context of a finished selection: the text for the chat model, assembled from the memory."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import cast

from psycopg_pool import AsyncConnectionPool

from memoryapp import reading
from memoryapp.engine.context import WHOLE_TOPIC_CHARS, ContextItem, assembled, passages_text
from memoryapp.engine.events import CandidatesFound, ContextPart, RunFinished, Selected
from memoryapp.engine.memory import ReadTopics, parse_item_id, topic_id
from memoryapp.engine.strategies import STRATEGIES
from memoryapp.runs.recall.request import RecallRequest


async def context_of(
    choice: RunFinished,
    found: CandidatesFound | None,
    request: RecallRequest,
    *,
    read_topics: ReadTopics,
    pool: AsyncConnectionPool,
) -> tuple[ContextPart, ...]:
    """The parts of the context that are not empty."""
    topics = await read_topics(_numbers(choice.selected))
    people, artifacts = await _items(choice, request.owner_id, pool)
    known = {message.id for message in request.messages or ()}
    candidates = found.named(choice.selected) if found else {}
    parts = (request.query, choice.selected, candidates, {topic_id(t.id): t.messages for t in topics}, known)
    by_passages = request.parameters.context == "passages"
    is_long = by_passages or any(topic.size_chars > WHOLE_TOPIC_CHARS for topic in topics)
    # In a thread, because comparing exchanges may take longer than other runs should wait.
    made = passages_text if by_passages else STRATEGIES[request.strategy].context
    text = await asyncio.to_thread(made, *parts) if is_long else made(*parts)
    return assembled(
        profile=request.background.profile,
        inner_circle=request.background.inner_circle,
        recent_topics=request.background.recent_topics,
        topics=text,
        chosen=len(choice.selected),
        people=people,
        artifacts=artifacts,
    )


async def _items(
    choice: RunFinished, owner_id: int, pool: AsyncConnectionPool
) -> tuple[list[ContextItem], list[ContextItem]]:
    """The selected people and artifacts."""
    if not (choice.people or choice.artifacts):
        return [], []
    async with pool.connection() as connection:
        return await reading.read_items(connection, owner_id, _numbers(choice.people), _numbers(choice.artifacts))


def _numbers(selected: Sequence[Selected]) -> list[int]:
    """The row numbers of selected items; ids that the program made always have one."""
    return [cast("tuple[str, int]", parse_item_id(item.id))[1] for item in selected]
