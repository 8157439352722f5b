"""What an event says about candidates: requested, read, chosen, used instead of a choice, or dropped.

The marks of all events up to a step give every candidate's state at that step, on the server and in the page's script
alike.
"""

from __future__ import annotations

from memoryapp.engine.events import Event, ModelReplied, RunFinished, TopicsRead
from memoryapp.engine.kinds.filter import Filtered
from memoryapp.engine.kinds.react import ToolUsed
from memoryapp.engine.memory import parse_topic_id
from memoryapp.engine.text.answers import parse_ids


def marks(event: Event) -> dict[str, str]:
    """What the event says of candidates: ``requested``, ``read``, ``chosen``, ``instead`` or ``dropped`` by id, or
    the stage of a filter that removed it."""
    if isinstance(event, ModelReplied):
        return dict.fromkeys(requested_ids(event), "requested")
    if isinstance(event, TopicsRead):
        return {topic.id: "read" for topic in event.read}
    if isinstance(event, ToolUsed):
        return dict.fromkeys(event.topics, "read")
    if isinstance(event, Filtered):
        return dict.fromkeys(event.removed, event.stage)
    if isinstance(event, RunFinished):
        used = (*event.selected, *event.people, *event.artifacts)
        if event.fallback:
            # No model judged anything: what it read and what nobody uses stays as it was.
            return {item.id: "instead" for item in used}
        return {**dict.fromkeys(event.dropped, "dropped"), **{item.id: "chosen" for item in used}}
    return {}


def requested_ids(reply: ModelReplied) -> list[str]:
    """The topics named in the arguments of the reply's tool calls, as far as they can be read."""
    return [found for call in reply.tool_calls for found in ids_in(call.arguments)]


def ids_in(arguments: str) -> list[str]:
    """The topics in one tool call's arguments, as the reranker reads them."""
    return [name for name in parse_ids(arguments) or () if parse_topic_id(name) is not None]
