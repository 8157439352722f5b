"""The context of a finished selection: the text for the chat model, assembled from the memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

from psycopg_pool import AsyncConnectionPool

from memoryapp.content import reading
from memoryapp.engine.candidates import Candidate
from memoryapp.engine.context import ContextItem, PassageMessages, SelectedTopics, assembled, unsure_text
from memoryapp.engine.events import CandidatesFound, RunFinished, Selected
from memoryapp.engine.kinds.values import ContextPart
from memoryapp.engine.memory import MessageContent, ReadTopics, TopicContent, parse_item_id, topic_id, topic_number
from memoryapp.engine.strategies import STRATEGIES
from memoryapp.engine.threads import in_thread_if_long
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
    topics = await read_topics([topic_number(topic.id) for topic in (*choice.selected, *choice.unsure)])
    people, artifacts = await _items(choice, request.owner_id, pool)
    candidates = found.named((*choice.selected, *choice.unsure)) if found else {}
    by_passages = request.parameters.context == "passages" or choice.unsure
    chosen = SelectedTopics(
        query=request.typed.text,
        selected=choice.selected,
        candidates=candidates,
        messages={topic_id(topic.id): topic.messages for topic in topics},
        known=known_among(request.messages or (), topics),
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


def known_among(sent: Sequence[MessageContent], topics: Sequence[TopicContent]) -> set[int]:
    """The messages that the caller sent along, by number; those of active sessions also by text."""
    texts = {message.text.strip() for message in sent}
    talk = (message for topic in topics if topic.id < 0 for message in topic.messages)
    return {message.id for message in sent} | {message.id for message in talk if message.text.strip() in texts}


async def _passages(candidates: Mapping[str, Candidate], owner_id: int, pool: AsyncConnectionPool) -> PassageMessages:
    """The messages of the passage by which each topic was found."""
    numbers = [each.passage_id for each in candidates.values() if each.passage_id]
    if not numbers:
        return {}
    async with pool.connection() as connection:
        read = await reading.read_passages(connection, owner_id, numbers)
    return {id: read.get(each.passage_id, ()) for id, each in candidates.items()}


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
