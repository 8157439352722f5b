"""Chat models that fail a run or make it wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from memoryapp.engine.chat.protocol import ChatRequest, LLMUnavailable, Reply


class Talkative:
    """A chat model whose words no database stores as they are."""

    model = "talkative"

    async def converse(self, request: ChatRequest) -> AsyncIterator[Reply]:
        yield Reply("nothing \x00 to \ud800 say", reasoning="\x00")


class Broken:
    """A chat model whose line is down."""

    model = "broken"

    async def converse(self, request: ChatRequest) -> AsyncIterator[Reply]:
        raise LLMUnavailable("The endpoint is out of reach.")
        yield Reply("")


class Companionable:
    """A chat model that says nothing before it was asked twice."""

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
