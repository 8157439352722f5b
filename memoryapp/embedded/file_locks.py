"""File locks, which the kernel releases when their holder ends in whatever way. Three govern an embedded server.

users.lock     shared by every process that uses the server; its supervisor waits to have it alone
keeper.lock    held by the supervisor for its life; the text in it is the supervisor's pid
start.lock     held by a process that checks whether a supervisor runs and starts one if not

The names of the files stay the same from version to version: by them a server that another version started is found.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import IO

USERS, SUPERVISOR, START = "users.lock", "keeper.lock", "start.lock"


def opened(path: Path) -> IO[str]:
    """The lock file, made if missing. Closing it releases the lock; a child process never inherits it."""
    return open(path, "r+", opener=lambda name, flags: os.open(name, flags | os.O_CREAT | os.O_NOFOLLOW, 0o600))


def acquire(file: IO[str], *, shared: bool = False) -> None:
    """Waits for the lock."""
    fcntl.flock(file, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)


def try_acquire(file: IO[str], *, shared: bool = False) -> bool:
    """Takes the lock if it is free now; False if another process has it."""
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def write(file: IO[str], text: str) -> None:
    """Replaces the text of a lock file, which names its holder for people and for the next start."""
    file.seek(0)
    file.truncate()
    file.write(text)
    file.flush()
