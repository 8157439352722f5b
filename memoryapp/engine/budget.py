"""Seconds that are left for waiting.

Only time spent inside ``spending`` counts. An async generator hands its events to a reader who may be
slow, so a deadline on the wall clock would charge the reader's time to the model (PEP 789).
"""

from __future__ import annotations

import asyncio
import time
from types import TracebackType


class Budget:
    """``left`` and ``spent`` are seconds."""

    def __init__(self, seconds: float) -> None:
        self.left = seconds
        self.spent = 0.0

    def spending(self) -> Spending:
        """Charge the body to the budget. Raises TimeoutError when nothing is left."""
        return Spending(self)

    def charge(self, seconds: float) -> None:
        """Count seconds that were spent elsewhere on this budget's behalf."""
        self.left -= seconds
        self.spent += seconds


class Spending:
    """A context that is entered once; a generator would cost three times as much, a dozen times a run."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget

    async def __aenter__(self) -> None:
        self._began = time.monotonic()
        self._timeout = asyncio.timeout(max(self._budget.left, 0.0))
        await self._timeout.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._timeout.__aexit__(kind, error, trace)
        finally:
            self._budget.charge(time.monotonic() - self._began)
