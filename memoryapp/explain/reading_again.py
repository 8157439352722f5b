"""The tool's answer to a recorded request once more, with more room: would a topic that did not fit be read?"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import cast

from asgiref.sync import async_to_sync

from memoryapp.content.reading import content
from memoryapp.engine.candidates import Candidate
from memoryapp.engine.events import ModelReplied, TopicsRead
from memoryapp.engine.memory import MessageContent, TopicContent, parse_topic_id
from memoryapp.engine.parameters import DEFAULTS, Limits, declarations
from memoryapp.engine.strategies.topics_tool import TopicsTool
from memoryapp.explain.story import Story
from memoryapp.models import Topic, TopicMessage
from memoryapp.runs.parameters import strategy_named

# Heads and excerpts make a topic a little longer than its messages.
_MARGIN = 1.3
_STEP = 1_000


def would_read(story: Story, id: str) -> tuple[int, int] | None:
    """The characters with which the request that asked for the topic would return it, and its turn; None if not."""
    for event in story.events:
        if isinstance(event, TopicsRead) and id in {topic.id for topic in event.omitted}:
            reply = next((r for r in story.outline.replies if r.turn == event.turn), None)
            asked = (*event.read, *event.omitted)
            chars = _STEP * math.ceil(_MARGIN * sum(topic.size_chars for topic in asked) / _STEP)
            declared = declarations(strategy_named(story.run.strategy).parameters)["read_chars"]
            if reply is None or not declared.allows(chars):
                return None
            return (chars, event.turn) if id in _read(story, reply, chars, [topic.id for topic in asked]) else None
    return None


def _read(story: Story, reply: ModelReplied, chars: int, ids: Sequence[str]) -> set[str]:
    """The topics that the calls of the reply return within so many characters."""
    topics = {topic.id: topic for topic in _topics(story.run.owner_id, ids)}

    async def read_topics(numbers: Sequence[int]) -> Sequence[TopicContent]:
        return [topics[number] for number in numbers if number in topics]

    async def again() -> set[str]:
        shown = cast("list[Candidate]", list(story.shown("Topic:1")))
        tool = TopicsTool(shown, read_topics, Limits(read_chars=chars, excerpt_over_chars=DEFAULTS.excerpt_over_chars))
        await tool.take(reply.tool_calls)
        events = [(await tool.tool.run(call, reply.turn)).event for call in reply.tool_calls]
        return {topic.id for event in events if isinstance(event, TopicsRead) for topic in event.read}

    return async_to_sync(again)()


def _topics(owner_id: int, ids: Iterable[str]) -> list[TopicContent]:
    numbers = [number for id in ids if (number := parse_topic_id(id))]
    messages: defaultdict[int, list[MessageContent]] = defaultdict(list)
    rows = TopicMessage.objects.filter(owner=owner_id, topic__in=numbers).select_related("message")
    for row in rows.order_by("message__sent_at", "message_id"):
        messages[row.topic_id].append(content(row.message))
    topics = Topic.objects.of(owner_id).filter(pk__in=numbers)
    return [TopicContent(t.pk, t.summary, t.started_at, t.size_chars, tuple(messages[t.pk])) for t in topics]
