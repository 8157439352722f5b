"""A chat model that cuts sessions, and its client: a fake of ``Chat`` that answers from the messages it reads."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from memoryapp.engine.budget import Usage
from memoryapp.engine.chat.protocol import Chat, ChatRequest, LLMError, Reply

_ID = re.compile(r'"id": (\d+)')


def in_fours(ids: Sequence[int]) -> str:
    """Returns topics of four messages each, as the JSON that the prompt asks for."""
    parts = [ids[at : at + 4] for at in range(0, len(ids), 4)]
    topics = [{"summary": f"from {part[0]}", "start_msg_id": part[0], "end_msg_id": part[-1]} for part in parts]
    return json.dumps({"topics": topics, "stragglers": []})


class SplittingChat:
    """Answers with what ``answer`` makes of the ids that it reads, and counts its requests."""

    model = "splitting"
    failure: LLMError | None = None

    def __init__(self, answer: Callable[[Sequence[int]], str] = in_fours) -> None:
        self.answer = answer
        self.asked = 0

    async def converse(self, request: ChatRequest) -> AsyncIterator[Reply]:
        self.asked += 1
        if self.failure:
            raise self.failure
        text = self.answer([int(number) for number in _ID.findall(str(request.messages[1]["content"]))])
        yield Reply(text=text, message={"role": "assistant", "content": text}, usage=Usage(100, 10, 0.01))

    @asynccontextmanager
    async def open(self, model: str) -> AsyncIterator[Chat]:
        """Opens the model as ``clients.open_chat`` does, whatever the name."""
        yield self
