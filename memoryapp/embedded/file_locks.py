"""File locks, which the kernel releases however their holder ends. An embedded server has three.

users.lock     shared by every process that uses the server; its supervisor waits for the exclusive lock
keeper.lock    held by the supervisor while it runs; the text in it is the supervisor's pid
start.lock     held by a process that checks whether a supervisor runs and starts one if not

The file names never change between versions, so that a server which another version started is found.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import IO

USERS, SUPERVISOR, START = "users.lock", "keeper.lock", "start.lock"


def opened(path: Path) -> IO[str]:
    """Returns the lock file, created if missing. Closing it releases the lock; child processes do not inherit it."""
    return open(path, "r+", opener=lambda name, flags: os.open(name, flags | os.O_CREAT | os.O_NOFOLLOW, 0o600))


def acquire(file: IO[str], *, shared: bool = False) -> None:
    """Waits for the lock."""
    fcntl.flock(file, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)


def try_acquire(file: IO[str], *, shared: bool = False) -> bool:
    """Takes the lock if it is free now; returns False if another process holds it."""
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def write(file: IO[str], text: str) -> None:
    """Replaces the text of a lock file, which names its holder."""
    file.seek(0)
    file.truncate()
    file.write(text)
    file.flush()
