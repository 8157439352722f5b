"""The process that owns the embedded server and ends with its last user: ``python -m memoryapp.embedded.keeper BASE``.

It waits to have ``users.lock`` alone. The kernel drops a user's lock however the user ends, so a killed command never
leaves a server behind. If the keeper itself is killed, PostgreSQL is told by the kernel and shuts down; the next user
starts a new keeper. A server that dies is started again, unless it keeps dying.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import IO

from memoryapp.embedded import locks
from memoryapp.embedded.places import Cluster, ServerError
from memoryapp.embedded.server import Server, stop

READY, KEPT = "ready", "kept"
_BEAT = 0.1
_MOST_DEATHS, _DEATHS_WITHIN = 5, 60.0
_LARGEST_LOG = 5_000_000


class Keeper:
    def __init__(self, cluster: Cluster, users: IO[str]) -> None:
        self.cluster = cluster
        self.users = users
        self.dismissed = False
        self._deaths: deque[float] = deque(maxlen=_MOST_DEATHS)

    def keep(self, log: IO[bytes]) -> None:
        """Runs the server until nobody uses it. Raises ServerError if it can't start or keeps dying."""
        server = Server(self.cluster)
        process = server.start(log)
        _report(READY, log)
        while not (self.dismissed or locks.taken(self.users)):
            time.sleep(_BEAT)
            if process.poll() is not None:
                self._count_death()
                process = server.start(log)
        stop(process)

    def _count_death(self) -> None:
        now = time.monotonic()
        self._deaths.append(now)
        if len(self._deaths) == _MOST_DEATHS and now - self._deaths[0] < _DEATHS_WITHIN:
            raise ServerError(f"The database died {_MOST_DEATHS} times within a minute (see {self.cluster.log}).")

    def dismiss(self, *_: object) -> None:
        self.dismissed = True


def _report(text: str, log: IO[bytes]) -> None:
    """Tells whoever started us, and lets go of their pipe. They may be gone: then their lock is, too."""
    with suppress(BrokenPipeError):
        os.write(1, text.encode())
    for stream in (1, 2):
        os.dup2(log.fileno(), stream)


def _opened_log(path: Path) -> IO[bytes]:
    if path.exists() and path.stat().st_size > _LARGEST_LOG:
        path.replace(path.with_suffix(".log.old"))
    return open(path, "ab", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW, 0o600))


def _claimed(lock: IO[str]) -> bool:
    """The keeper's lock. Tried for a second, because who looks whether it is held, holds it for a blink."""
    for _ in range(100):
        if locks.taken(lock):
            locks.write(lock, str(os.getpid()))
            return True
        time.sleep(0.01)
    return False


def main(base: Path, throwaway: bool) -> None:
    if os.fork():  # so that whoever started us has no child to wait for
        os._exit(0)
    with (
        locks.opened(base / locks.KEEPER) as lock,
        locks.opened(base / locks.USERS) as users,
        _opened_log(base / "postgres.log") as log,
    ):
        if not _claimed(lock):
            return _report(KEPT, log)
        keeper = Keeper(Cluster(base, throwaway), users)
        signal.signal(signal.SIGTERM, keeper.dismiss)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            keeper.keep(log)
        except (ServerError, OSError) as error:
            _report(str(error), log)
        if throwaway:
            shutil.rmtree(keeper.cluster.socket, ignore_errors=True)
            shutil.rmtree(base)


if __name__ == "__main__":
    main(Path(sys.argv[1]), "--throwaway" in sys.argv)
