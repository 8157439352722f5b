"""File locks the kernel drops with their holder, however it ends. Three of them rule one embedded server.

users.lock     shared by every process that uses the server; its keeper waits to have it alone
keeper.lock    held by the keeper for its life; its text is the keeper's pid
start.lock     held while somebody looks whether a keeper is needed and starts one
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import IO

USERS, KEEPER, START = "users.lock", "keeper.lock", "start.lock"


def opened(path: Path) -> IO[str]:
    """The lock file, made if missing. Closing it gives up the lock; a child never inherits it."""
    return open(path, "r+", opener=lambda name, flags: os.open(name, flags | os.O_CREAT | os.O_NOFOLLOW, 0o600))


def take(file: IO[str], *, shared: bool = False) -> None:
    """Waits for the lock."""
    fcntl.flock(file, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)


def taken(file: IO[str], *, shared: bool = False) -> bool:
    """Takes the lock if it is free now; False if somebody else has it."""
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def write(file: IO[str], text: str) -> None:
    """Replaces the text of a lock file: who holds it, for people and for the next start."""
    file.seek(0)
    file.truncate()
    file.write(text)
    file.flush()
