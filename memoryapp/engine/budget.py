"""What calls of a model may cost and have cost: seconds, tokens and dollars. A run and a conversation have a
``Deadline``. A client has a ``Budget``, of which only the seconds inside ``spending`` count: an async generator hands
what it has to a reader who may be slow, and a deadline would charge the reader's time to the model (PEP 789)."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass


class Deadline:
    """A moment on the event loop's clock, so many ``seconds`` from now, by which work must have ended."""

    def __init__(self, seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._at = self._loop.time() + seconds

    @property
    def left(self) -> float:
        """Seconds until then, 0 afterwards."""
        return max(self._at - self._loop.time(), 0.0)

    def timeout(self, most: float = math.inf) -> asyncio.Timeout:
        """Raises TimeoutError in its body at the deadline, or after ``most`` seconds if that is sooner."""
        return asyncio.timeout(min(self.left, most))


class Budget:
    """``left`` and ``spent`` are seconds."""

    def __init__(self, seconds: float) -> None:
        self.left = seconds
        self.spent = 0.0

    @asynccontextmanager
    async def spending(self) -> AsyncIterator[None]:
        """Charge the body to the budget. Raises TimeoutError when nothing is left."""
        # The clock of ``asyncio.timeout``.
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            async with asyncio.timeout(max(self.left, 0.0)):
                yield
        finally:
            self.charge(loop.time() - began)

    def charge(self, seconds: float) -> None:
        """Counts seconds that were spent elsewhere on behalf of this budget."""
        self.left -= seconds
        self.spent += seconds


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as billed, and US dollars. Cached tokens are part of the input, reasoning tokens of the output."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    cached_tokens: int = 0
    reasoning_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cost_usd + other.cost_usd,
            self.cached_tokens + other.cached_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
        )
