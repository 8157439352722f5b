"""Seconds that are left for waiting.

Only time spent inside ``spending`` counts. An async generator hands its events to a reader who may be
slow, so a deadline on the wall clock would charge the reader's time to the model (PEP 789).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Budget:
    """``left`` and ``spent`` are seconds."""

    def __init__(self, seconds: float) -> None:
        self.left = seconds
        self.spent = 0.0

    @asynccontextmanager
    async def spending(self) -> AsyncIterator[None]:
        """Charge the body to the budget. Raises TimeoutError when nothing is left."""
        began = time.monotonic()
        try:
            async with asyncio.timeout(max(self.left, 0.0)):
                yield
        finally:
            self.charge(time.monotonic() - began)

    def charge(self, seconds: float) -> None:
        """Count seconds that were spent elsewhere on this budget's behalf."""
        self.left -= seconds
        self.spent += seconds
