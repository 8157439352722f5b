"""Chat models that make a run fail or wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from memoryapp.engine.chat.protocol import ChatRequest, LLMUnavailable, Reply


class Talkative:
    """A chat model with text that no database stores unchanged."""

    model = "talkative"

    async def converse(self, request: ChatRequest) -> AsyncIterator[Reply]:
        yield Reply("nothing \x00 to \ud800 say", reasoning="\x00")


class Broken:
    """A chat model whose endpoint is unreachable."""

    model = "broken"

    async def converse(self, request: ChatRequest) -> AsyncIterator[Reply]:
        raise LLMUnavailable("The endpoint is out of reach.")
        yield Reply("")


class Companionable:
    """A chat model that answers only after two questions have arrived."""

    model = "companionable"

    def __init__(self) -> None:
        self.asked = 0
        self.both = asyncio.Event()

    async def converse(self, request: ChatRequest) -> AsyncIterator[Reply]:
        self.asked += 1
        if self.asked == 2:
            self.both.set()
        await self.both.wait()
        yield Reply('{"topics": []}')
