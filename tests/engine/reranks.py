"""A rerank by a scripted model, and functions that read its events."""

from __future__ import annotations

from typing import Any, cast

from memoryapp.engine.events import Event, RunFinished
from memoryapp.engine.parameters import Limits
from memoryapp.engine.strategies.flash import rerank
from tests.engine.scripted import ScriptedChat, Step, emitted, request, topic_reader


async def run(*steps: Step, ids: tuple[int, ...] = (1, 2, 3, 4, 5, 6, 7), **limits: Any) -> list[Event]:
    chat = ScriptedChat(*steps)
    return await emitted(rerank, request(*ids), chat=chat, read_topics=topic_reader(), limits=Limits(**limits))


def end(events: list[Event]) -> RunFinished:
    assert [isinstance(event, RunFinished) for event in events] == [False] * (len(events) - 1) + [True]
    return cast(RunFinished, events[-1])


def ids(finished: RunFinished) -> list[str]:
    return [topic.id for topic in finished.selected]


def of(kind: type, events: list[Event]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


VECTOR_TOP = ["Topic:7", "Topic:6", "Topic:5", "Topic:4", "Topic:3"]
