"""A chat model that hesitates, and runs executed over it; for processes that are killed meanwhile."""

import asyncio
import json
import random
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from uuid import UUID

from memoryapp.engine.chat.protocol import ChatRequest, PartialReply, Reply
from memoryapp.engine.events import ToolCall
from memoryapp.engine.prompts.rerank import TOOL_NAME
from memoryapp.platform.llm.clients import offline_embedder
from memoryapp.runs import lifecycle
from memoryapp.runs.clients import open_clients


class Hesitant:
    """Asks for the first topics that it is offered and chooses the first, sending a few words at a time."""

    model = "hesitant"

    async def converse(self, request: ChatRequest) -> AsyncIterator[PartialReply | Reply]:
        prompt = "\n".join(str(message["content"]) for message in request.messages)
        ids = [int(number) for number in re.findall(r"^\[Topic:(\d+)\]", prompt, re.M)]
        for words in range(random.randint(0, 4)):
            await asyncio.sleep(random.random() * 0.25)
            yield PartialReply("so far " * words, "well")
        if request.force_tool:
            call = ToolCall("call_1", TOOL_NAME, json.dumps({"ids": ids[:2]}))
            yield Reply("", (call,), message={"role": "assistant", "content": None})
        else:
            yield Reply(json.dumps({"topics": ids[:1]}))


async def warm() -> None:
    """Loads the embedded model."""
    await offline_embedder().embed(["ready"])


async def execute(names: list[str]) -> None:
    """Executes all these runs at once."""
    async with open_clients() as clients:
        hesitant = replace(clients, chat=Hesitant(), enricher=None)
        await asyncio.gather(*(lifecycle.execute(UUID(name), hesitant) for name in names))
