"""A lease on the embedded server: the server runs while any process holds one, and stops after the last. ``with
Lease(cluster):`` starts the server if it does not run yet. No process has to stop it: a lease is a shared file lock,
which the kernel releases when its process ends, even by kill -9."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from memoryapp.platform.embedded import paths, supervisor
from memoryapp.platform.embedded.paths import Cluster, ServerError
from memoryapp.platform.embedded.server import Server

FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0


class Lease:
    """Inside ``with`` the server runs. Raises ServerError when it cannot run."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        # Root's server runs as another account, which must be able to pass through.
        try:
            paths.open_folder(cluster.base, 0o711 if cluster.account.other else 0o700)
            self._lock = paths.opened(cluster.base / paths.USERS)
        except OSError as error:
            raise ServerError(f"The database's folder {cluster.base} can't be used: {error.strerror}.") from error

    def __enter__(self) -> Lease:
        # A supervisor that is ending holds the lock exclusively: this waits for its end and then starts another.
        paths.acquire(self._lock, shared=True)
        try:
            self._ensure_running()
        except ServerError:
            self._lock.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.close()

    def revive(self) -> None:
        """Restarts the server if its supervisor ended; a cheap call otherwise."""
        if not self._is_supervised():
            self._ensure_running()

    def _ensure_running(self) -> None:
        server = Server(self.cluster)
        with paths.opened(self.cluster.base / paths.START) as lock:
            paths.acquire(lock)
            while not (self._is_supervised() and server.accepts()):
                if self._is_supervised():
                    time.sleep(0.03)
                else:
                    self._start_supervisor()

    def _is_supervised(self) -> bool:
        with paths.opened(self.cluster.base / paths.SUPERVISOR) as lock:
            return not paths.try_acquire(lock, shared=True)

    def _start_supervisor(self) -> None:
        command = [sys.executable, "-m", supervisor.__name__, str(self.cluster.base)]
        with subprocess.Popen(
            [*command, "--throwaway"] if self.cluster.throwaway else command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=paths.CHECKOUT,
            start_new_session=True,
            text=True,
        ) as process:
            report, _ = process.communicate()
        if report not in (supervisor.READY, supervisor.ALREADY_SUPERVISED):
            raise ServerError(report.strip() or f"The database's supervisor ended at once (see {self.cluster.log}).")


class Revival:
    """Keeps the server of a lease running; call ``tend()`` often. Failed starts are repeated after growing pauses."""

    def __init__(self, lease: Lease) -> None:
        self._lease = lease
        self._failures = 0
        self._due = 0.0

    def tend(self, say: Callable[[str], None]) -> None:
        """Restarts the server if its supervisor ended; says so if it cannot start, as on a full disk."""
        if time.monotonic() < self._due:
            return
        try:
            self._lease.revive()
        except (ServerError, OSError) as error:
            pause = min(FIRST_PAUSE * 2**self._failures, _LONGEST_PAUSE)
            self._failures, self._due = min(self._failures + 1, 10), time.monotonic() + pause
            say(f"{error} Trying again in {pause:g} s.")
        else:
            self._failures = 0


@contextmanager
def throwaway() -> Iterator[Path]:
    """Yields a temporary folder with a server of its own; both are removed afterwards. The socket folder is
    ``Cluster(folder / "postgres").socket``; the server has no database but ``postgres``."""
    with tempfile.TemporaryDirectory(prefix="mnemoscope-test-") as name:
        folder = Path(name).resolve()
        folder.chmod(0o711)
        lease = Lease(Cluster(folder / "postgres", throwaway=True))
        supervisor_lock = paths.opened(lease.cluster.base / paths.SUPERVISOR)
        with supervisor_lock:
            with lease:
                yield folder
            paths.acquire(supervisor_lock, shared=True)
