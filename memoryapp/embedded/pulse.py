"""A byte each second through a pipe to `up`, by which it tells a process that works from one that hangs.

The web gives it from its event loop, worker and beat from a thread: those wait long where they may. Without `up` nobody
listens, and nothing is given.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from contextlib import suppress

VARIABLE = "MNEMOSCOPE_PULSE"
EVERY = 1.0


def from_loop() -> None:
    """Gives it as long as the running event loop gets on."""
    pipe = _pipe()
    if pipe is not None:
        _beat_in_loop(asyncio.get_running_loop(), pipe)


def _beat_in_loop(loop: asyncio.AbstractEventLoop, pipe: int) -> None:
    _give(pipe)
    loop.call_later(EVERY, _beat_in_loop, loop, pipe)


def from_thread() -> None:
    """Gives it as long as threads of this process get on."""
    pipe = _pipe()
    if pipe is not None:
        threading.Thread(target=_beat_in_thread, args=(pipe,), daemon=True, name="pulse").start()


def _beat_in_thread(pipe: int) -> None:
    while True:
        _give(pipe)
        time.sleep(EVERY)


def _pipe() -> int | None:
    """Taken from the environment, so that no process of ours gives it for us."""
    number = os.environ.pop(VARIABLE, "")
    return int(number) if number else None


def _give(pipe: int) -> None:
    # Full, it tells enough; broken, `up` is gone.
    with suppress(BlockingIOError, BrokenPipeError):
        os.write(pipe, b".")
