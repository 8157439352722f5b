"""A merger that follows a script, its passes over a memory, and their results."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from asgiref.sync import sync_to_async
from prometheus_client import REGISTRY

from memoryapp.curation import MERGER, suggestions
from memoryapp.curation.suggestions.consolidation import Pass, consolidate
from memoryapp.engine.budget import Usage
from memoryapp.engine.chat.protocol import ChatRequest, LLMError, Reply
from memoryapp.models import AgentCall, ChatUser, Topic, TopicEdit
from memoryapp.platform.database import conninfo

SUMMARY = "What was said and answered as one"
REASON = "One goes on where the other ended."


def verdict(should_merge: bool = True, reason: str = REASON, summary: str = SUMMARY) -> str:
    """Returns an answer in the shape that the prompt asks for."""
    return json.dumps(
        {"should_merge": should_merge, "reason": reason, "merged_summary": summary if should_merge else ""}
    )


class Merger:
    """Answers with ``says``, or raises it, and keeps the requests. ``before`` is called before each answer."""

    model = "acme/merger"

    def __init__(self, says: str | LLMError | Reply | Callable[[str], str] | None = None) -> None:
        self.says = self.another if says is None else says
        self.before: Callable[[], None] = lambda: None
        self.asked: list[str] = []

    def another(self, _asked: str) -> str:
        """No two topics have the same summary."""
        return verdict(summary=SUMMARY + " and one" * (len(self.asked) - 1))

    async def converse(self, request: ChatRequest) -> AsyncIterator[Any]:
        self.asked.append(str(request.messages[1]["content"]))
        await sync_to_async(self.before)()
        if isinstance(self.says, LLMError):
            raise self.says
        if isinstance(self.says, Reply):
            yield self.says
            return
        text = self.says(self.asked[-1]) if callable(self.says) else self.says
        yield Reply(text=text, message={"role": "assistant", "content": text}, usage=Usage(100, 10, 0.001))

    @asynccontextmanager
    async def open(self, model: str) -> AsyncIterator[Merger]:
        yield self


# Passes of the merger over a memory, and their results.


Mode = ChatUser.Consolidation


def wants(owner: ChatUser, mode: Mode) -> ChatUser:
    owner.consolidation = mode
    owner.save(update_fields=["consolidation"])
    return owner


def passed(owner: ChatUser, merger: Merger) -> Pass:
    """Compares the topics and judges their suggestions."""
    suggestions.suggest(owner)
    return consolidate(owner, merger.open)


def refused(owner: ChatUser, merger: Merger, error: type[Exception]) -> None:
    suggestions.suggest(owner)
    with pytest.raises(error):
        consolidate(owner, merger.open)


def rested(by: timedelta = timedelta(hours=1)) -> None:
    """Lets the merger's pause after a failure pass."""
    for call in AgentCall.objects.all():
        AgentCall.objects.filter(pk=call.pk).update(at=call.at - by)


def live(owner: ChatUser) -> list[str]:
    return sorted(Topic.objects.of(owner).live().values_list("summary", flat=True))


def made_by_itself(owner: ChatUser) -> TopicEdit:
    return TopicEdit.objects.get(owner=owner, actor=MERGER)


def sample(name: str) -> float:
    return REGISTRY.get_sample_value(f"mnemoscope_{name}") or 0.0


@contextmanager
def other_worker_at(owner: ChatUser) -> Iterator[None]:
    with psycopg.connect(conninfo(), autocommit=True) as other:
        other.execute("SELECT pg_advisory_lock(hashtextextended('consolidate', %s))", [owner.pk])
        yield
        # After a plain close, the lock would be free only when the server notices it.
        other.execute("SELECT pg_advisory_unlock_all()")
