"""Time in tests: how long they wait for what must come, and the event loop's clock, put forward.

What a script has wait takes no time, and so no limit needs to be tight.
"""

from __future__ import annotations

import asyncio

TICK = 0.05
# Seconds. Where the program works nothing waits for so long, on however slow and busy a machine.
PATIENCE = 120.0


async def passes(seconds: float) -> None:
    """So much time goes by for everything that this loop waits for, a tick at a time and whatever is due in between."""
    for _ in range(round(seconds / TICK)):
        _put_forward(asyncio.get_running_loop())
        await asyncio.sleep(0)


def _put_forward(loop: asyncio.AbstractEventLoop) -> None:
    # The loop itself reads its clock here; an hour of ticks in one chain would be too deep to call.
    base, ahead = getattr(loop.time, "clock", (loop.time, 0.0))

    def time() -> float:
        return base() + ahead + TICK

    time.clock = (base, ahead + TICK)  # type: ignore[attr-defined]
    loop.time = time  # type: ignore[method-assign]
