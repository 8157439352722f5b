"""The watchdog: each child process of `up` sends it a byte a second through a pipe; one that does not hangs.

The web process sends the byte from its event loop. Worker and beat send it from a thread, because their work may wait
for a long time. Without `up` there is no pipe, and nothing is sent.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from contextlib import suppress

VARIABLE = "MNEMOSCOPE_PULSE"
INTERVAL = 1.0


def ping_from_loop() -> None:
    """Sends the byte while the running event loop runs its callbacks."""
    pipe = _pipe()
    if pipe is not None:
        _ping_in_loop(asyncio.get_running_loop(), pipe)


def _ping_in_loop(loop: asyncio.AbstractEventLoop, pipe: int) -> None:
    _ping(pipe)
    loop.call_later(INTERVAL, _ping_in_loop, loop, pipe)


def ping_from_thread() -> None:
    """Sends the byte while threads of this process run."""
    pipe = _pipe()
    if pipe is not None:
        threading.Thread(target=_ping_in_thread, args=(pipe,), daemon=True, name="watchdog").start()


def _ping_in_thread(pipe: int) -> None:
    while True:
        _ping(pipe)
        time.sleep(INTERVAL)


def _pipe() -> int | None:
    """Returns the number of the pipe and removes it from the environment, so that no child sends in its place."""
    number = os.environ.pop(VARIABLE, "")
    return int(number) if number else None


def _ping(pipe: int) -> None:
    # A full pipe already holds signs of life; a broken one means that `up` has ended.
    with suppress(BlockingIOError, BrokenPipeError):
        os.write(pipe, b".")
