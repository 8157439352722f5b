"""The supervisor of the embedded server, a process of its own: ``python -m memoryapp.platform.embedded.supervisor
BASE``.

It starts the server, restarts it when it dies (unless it keeps dying), and stops it when no process uses it any more:
when it can lock ``users.lock`` exclusively. The kernel releases the shared lock of a user even if the user is killed,
so a killed command leaves no server behind. If the supervisor itself is killed, the kernel signals PostgreSQL, which
shuts down; the next user starts another supervisor."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import IO

from memoryapp.platform.embedded import paths
from memoryapp.platform.embedded.paths import Cluster, ServerError
from memoryapp.platform.embedded.server import Server, stop

READY, ALREADY_SUPERVISED = "ready", "already supervised"
_POLL_SECONDS = 0.1
_MOST_DEATHS, _DEATHS_WITHIN = 5, 60.0
_LARGEST_LOG = 5_000_000


class Supervisor:
    def __init__(self, cluster: Cluster, users: IO[str]) -> None:
        self.cluster = cluster
        self.users = users
        self.dismissed = False
        self._deaths: deque[float] = deque(maxlen=_MOST_DEATHS)

    def supervise(self, log: IO[bytes]) -> None:
        """Runs the server while any process uses it. Raises ServerError when it cannot start or keeps dying."""
        server = Server(self.cluster)
        process = server.start(log)
        _report(READY, log)
        while not (self.dismissed or paths.try_acquire(self.users)):
            time.sleep(_POLL_SECONDS)
            if process.poll() is not None:
                process = self._start_again(server, log)
        stop(process)

    def _start_again(self, server: Server, log: IO[bytes]) -> subprocess.Popen[bytes]:
        """Restarts the server. Raises ServerError when it keeps dying, even during its start."""
        while True:
            self._count_death()
            with suppress(ServerError):
                return server.start(log)

    def _count_death(self) -> None:
        now = time.monotonic()
        self._deaths.append(now)
        if len(self._deaths) == _MOST_DEATHS and now - self._deaths[0] < _DEATHS_WITHIN:
            raise ServerError(f"The database died {_MOST_DEATHS} times within a minute (see {self.cluster.log}).")

    def dismiss(self, *_: object) -> None:
        self.dismissed = True


def _report(text: str, log: IO[bytes]) -> None:
    """Writes ``text`` to the process that started us, if it still reads, and closes the pipe."""
    with suppress(BrokenPipeError):
        os.write(1, text.encode())
    for stream in (1, 2):
        os.dup2(log.fileno(), stream)


def _opened_log(path: Path) -> IO[bytes]:
    if path.exists() and path.stat().st_size > _LARGEST_LOG:
        path.replace(path.with_suffix(".log.old"))
    return open(path, "ab", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW, 0o600))


def _acquire(lock: IO[str]) -> bool:
    """Takes the supervisor's lock. Tries for a second, because a process that checks the lock holds it briefly."""
    for _ in range(100):
        if paths.try_acquire(lock):
            paths.write(lock, str(os.getpid()))
            return True
        time.sleep(0.01)
    return False


def main(base: Path, throwaway: bool) -> None:
    if os.fork():  # so that the process that started us has no child to wait for
        os._exit(0)
    with (
        paths.opened(base / paths.SUPERVISOR) as lock,
        paths.opened(base / paths.USERS) as users,
        _opened_log(base / "postgres.log") as log,
    ):
        if not _acquire(lock):
            return _report(ALREADY_SUPERVISED, log)
        supervisor = Supervisor(Cluster(base, throwaway), users)
        signal.signal(signal.SIGTERM, supervisor.dismiss)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            supervisor.supervise(log)
        except (ServerError, OSError) as error:
            _report(str(error), log)
        if throwaway:
            shutil.rmtree(supervisor.cluster.socket, ignore_errors=True)
            shutil.rmtree(base)


if __name__ == "__main__":
    main(Path(sys.argv[1]), "--throwaway" in sys.argv)
