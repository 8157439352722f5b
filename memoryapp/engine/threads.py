"""Long computations in a thread, so that one run's long answer does not block the others."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

# Reading more than this takes longer than other runs should wait; reading less takes no longer than starting a thread.
LONG = 32_000

T = TypeVar("T")


async def in_thread_if_long(work: Callable[..., T], *given: Any, size: int) -> T:
    """The result of ``work``, computed in a thread when ``size`` (the characters of its arguments) is large."""
    return await asyncio.to_thread(work, *given) if size > LONG else work(*given)
