"""Long work beside the event loop, so that one run's long answer does not stop the others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

# Reading more than that takes longer than other runs should wait; less takes no longer than a thread.
LONG = 32_000

T = TypeVar("T")


async def apart(work: Callable[..., T], *given: Any, size: int) -> T:
    """What ``work`` makes of its arguments, in a thread where their ``size`` in characters is large."""
    return await asyncio.to_thread(work, *given) if size > LONG else work(*given)
