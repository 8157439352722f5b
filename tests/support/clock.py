"""Time in tests: the longest wait for an event, and moving the event loop's clock forward. A wait in a script takes no
real time, so limits can be generous."""

import asyncio

TICK = 0.05
# Seconds. A working program never takes so long, on however slow and busy a machine.
PATIENCE = 120.0


async def passes(seconds: float) -> None:
    """Lets this time pass for everything that waits in this loop, one tick at a time, with all that becomes due."""
    for _ in range(round(seconds / TICK)):
        _put_forward(asyncio.get_running_loop())
        await asyncio.sleep(0)


def _put_forward(loop: asyncio.AbstractEventLoop) -> None:
    # The loop reads its clock here; an hour of ticks in one chain of calls would be too deep.
    base, ahead = getattr(loop.time, "clock", (loop.time, 0.0))

    def time() -> float:
        return base() + ahead + TICK

    time.clock = (base, ahead + TICK)  # type: ignore[attr-defined]
    loop.time = time  # type: ignore[method-assign]
