"""A share in the embedded server: as long as any process has one, the server runs; when the last ends, it stops.

``with Hold(cluster):`` in one process starts it, in a second adopts it. Nobody has to stop it: the share is a file lock
that ends with its process, kill -9 included.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from memoryapp.embedded import keeper, locks, places
from memoryapp.embedded.places import Cluster, ServerError
from memoryapp.embedded.server import Server


class Hold:
    """The server is up inside ``with``. Raises ServerError with a sentence if it can't be."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        # Others must be able to pass through, because root's server runs as somebody else.
        try:
            places.open_folder(cluster.base, 0o711 if cluster.account.other else 0o700)
            self._share = locks.opened(cluster.base / locks.USERS)
        except OSError as error:
            raise ServerError(f"The database's folder {cluster.base} can't be used: {error.strerror}.") from error

    def __enter__(self) -> Hold:
        # A keeper on its way out has the lock alone: this waits until it is gone, and then we start a new one.
        locks.take(self._share, shared=True)
        try:
            self._ensure()
        except ServerError:
            self._share.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._share.close()

    def revive(self) -> None:
        """Starts the server again if it lost its keeper; cheap when it didn't."""
        if not self._kept():
            self._ensure()

    def _ensure(self) -> None:
        server = Server(self.cluster)
        with locks.opened(self.cluster.base / locks.START) as lock:
            locks.take(lock)
            while not (self._kept() and server.accepts()):
                if self._kept():
                    time.sleep(0.03)
                else:
                    self._start_keeper()

    def _kept(self) -> bool:
        with locks.opened(self.cluster.base / locks.KEEPER) as lock:
            return not locks.taken(lock, shared=True)

    def _start_keeper(self) -> None:
        command = [sys.executable, "-m", keeper.__name__, str(self.cluster.base)]
        with subprocess.Popen(
            [*command, "--throwaway"] if self.cluster.throwaway else command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=places.CHECKOUT,
            start_new_session=True,
            text=True,
        ) as process:
            said, _ = process.communicate()
        if said not in (keeper.READY, keeper.KEPT):
            raise ServerError(said.strip() or f"The database's keeper ended at once (see {self.cluster.log}).")


@contextmanager
def throwaway() -> Iterator[Path]:
    """A folder to keep temporary data in, and in it a server that is gone afterwards; yields the folder.

    The server's socket folder is ``Cluster(folder / "postgres").socket``; it holds no database but ``postgres``.
    """
    with tempfile.TemporaryDirectory(prefix="mnemoscope-test-") as name:
        folder = Path(name).resolve()
        folder.chmod(0o711)
        held = Hold(Cluster(folder / "postgres", throwaway=True))
        keeper_lock = locks.opened(held.cluster.base / locks.KEEPER)
        with keeper_lock:
            with held:
                yield folder
            locks.take(keeper_lock, shared=True)
