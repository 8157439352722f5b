"""A merger that follows a script, for tests of consolidation."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from asgiref.sync import sync_to_async

from memoryapp.engine.budget import Usage
from memoryapp.engine.chat.protocol import ChatRequest, LLMError, Reply

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
