"""A port for the database of the tests, whose socket no other account may reach."""

import select
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from memoryapp.platform.embedded import lease, paths
from memoryapp.platform.embedded.paths import Cluster


class Relay(socketserver.ThreadingTCPServer):
    """Gives a local socket a port."""

    daemon_threads = True

    def __init__(self, target: Path) -> None:
        self.target = str(target)
        super().__init__(("127.0.0.1", 0), Relayed)


class Relayed(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        with socket.socket(socket.AF_UNIX) as inner:
            assert isinstance(self.server, Relay)
            inner.connect(self.server.target)
            ends = {self.request: inner, inner: self.request}
            while True:
                for end in select.select(list(ends), [], [])[0]:
                    piece = end.recv(65_536)
                    if not piece:
                        return
                    ends[end].sendall(piece)


@contextmanager
def database(name: str) -> Iterator[tuple[int, str]]:
    """An empty database of this name, which ``paths.ROLE`` owns: the port of its server, and the role's password."""
    with lease.throwaway() as folder:
        server = Cluster(folder / "postgres")
        where = f"postgresql://{paths.ROLE}@/postgres?host={server.socket}&passfile={server.passfile}"
        with psycopg.connect(where, autocommit=True) as administrator:
            administrator.execute(f"CREATE DATABASE {name}".encode())
        password = server.passfile.read_text(encoding="utf-8").strip().rpartition(":")[2]
        with Relay(server.socket / ".s.PGSQL.5432") as relay:
            threading.Thread(target=relay.serve_forever, daemon=True).start()
            yield int(relay.server_address[1]), password
            relay.shutdown()
