"""A distributed PostgreSQL: Citus with a coordinator and workers, each a server of its own on the loopback interface.

`.ci/run` builds the server (``tests/citus/build``). Node 0 is the coordinator. Every connection is trusted, and nothing
survives ``stop``.
"""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import psycopg

from memoryapp.platform.embedded.children import end_with_parent
from memoryapp.platform.embedded.paths import Account
from tests.support.clock import PATIENCE
from tests.support.stack import free_port, wait_for

_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "mnemoscope-ci" / "citus"
# The folder with the built server, `pginstall`, and the libraries that it needs, `libs`.
SERVER = Path(os.environ.get("CITUS_SERVER") or _CACHE)
MISSING = f"no Citus server was found in {SERVER}: `.ci/run` builds one, or CITUS_SERVER names its folder"

SUPERUSER, ROLE, DATABASE = "postgres", "mnemoscope_app", "mnemoscope"
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "shared_preload_libraries": "citus",
    "wal_level": "logical",
    "max_connections": "200",
    "max_wal_senders": "20",
    "max_replication_slots": "20",
    "max_worker_processes": "40",
    "shared_buffers": "32MB",
    # Files in the data folder, which a killed node does not leave behind.
    "dynamic_shared_memory_type": "mmap",
    "fsync": "off",
    "full_page_writes": "off",
    "jit": "off",
    "citus.node_conninfo": "sslmode=disable",
    "citus.enable_statistics_collection": "off",
}


class Node:
    """One server, which may be killed, frozen and started again; it keeps its port."""

    def __init__(self, cluster: "Cluster", number: int) -> None:
        self.port = free_port()
        self.data = cluster.folder / f"node{number}"
        self._cluster = cluster
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts the server and waits until it answers; does nothing if it runs."""
        if self._process:
            return
        settings = {**_SETTINGS, "port": str(self.port), "unix_socket_directories": str(self._cluster.folder)}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        tied = end_with_parent(signal.SIGKILL)
        with self.log.open("ab") as log:
            command = ("postgres", "-D", self.data, *options)
            self._process = self._cluster.run(*command, stdout=log, stderr=log, preexec_fn=tied)
        wait_for(self._answers, PATIENCE)

    @property
    def log(self) -> Path:
        return self.data.with_suffix(".log")

    def _answers(self) -> bool:
        assert self._process
        assert self._process.poll() is None, self.log.read_text()[-2_000:]
        address = f"host=127.0.0.1 port={self.port} user={SUPERUSER} dbname=postgres connect_timeout=5"
        return psycopg.pq.PGconn.ping(address.encode()) == psycopg.pq.Ping.OK

    def kill(self) -> None:
        """Ends all processes of the node at once, as if its machine had lost its power; does nothing if it is down."""
        if not self._process:
            return
        memory = (self.data / "postmaster.pid").read_text().splitlines()[6].split()
        processes = self.freeze()
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.wait()
        wait_for(lambda: not any(map(_runs, processes)))
        self._process = None
        # A few bytes by which a server knows that another one has its data; the kernel would keep them.
        subprocess.run(["ipcrm", "-m", memory[1]], check=True)
        (self.data / "postmaster.pid").unlink()

    def freeze(self) -> list[psutil.Process]:
        """Stops all processes of the node where they are: it holds its connections and answers nothing."""
        assert self._process
        postmaster = psutil.Process(self._process.pid)
        postmaster.suspend()
        processes = [postmaster, *postmaster.children(recursive=True)]
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.suspend()
        return processes

    def thaw(self) -> None:
        """Lets a frozen node go on."""
        assert self._process
        postmaster = psutil.Process(self._process.pid)
        for process in (*postmaster.children(recursive=True), postmaster):
            process.resume()


def _runs(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


class Cluster:
    """Node 0 of ``nodes`` is the coordinator, the others are workers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # PostgreSQL refuses to run as root.
        found = pwd.getpwnam("nobody") if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
        self._account = Account(found.pw_uid, found.pw_gid)
        self._server = SERVER
        if not self._account.runs(SERVER / "pginstall" / "bin" / "postgres"):
            self._server = folder / "server"
            shutil.copytree(SERVER / "pginstall", self._server / "pginstall", symlinks=True)
            shutil.copytree(SERVER / "libs", self._server / "libs", symlinks=True)
        os.chown(folder, self._account.uid, self._account.gid)
        self.nodes: list[Node] = []

    def make(self, workers: int) -> None:
        """Creates and starts all nodes, the database and its owner, who is no superuser."""
        options = ("-U", SUPERUSER, "-A", "trust", "--no-sync", "--locale=C", "-EUTF8")
        assert self.run("initdb", "-D", self._template, *options).wait() == 0
        coordinator = self._new_node()
        self.ask("SELECT citus_set_coordinator_host('127.0.0.1', %s)", coordinator.port)
        self.ask(f"CREATE ROLE {ROLE} LOGIN")
        self._give(0)
        for _ in range(workers):
            self.add()

    def add(self) -> int:
        """Adds a worker, on which nothing lies yet; returns its number."""
        node = self._new_node()
        # Brings the roles there as well.
        self.ask("SELECT citus_add_node('127.0.0.1', %s)", node.port)
        self._give(number := len(self.nodes) - 1)
        return number

    def dsn(self, node: int = 0, user: str = ROLE) -> str:
        return f"host=127.0.0.1 port={self.nodes[node].port} dbname={DATABASE} user={user}"

    def ask(self, query: str, *values: Any, node: int = 0, user: str = SUPERUSER) -> list[tuple[Any, ...]]:
        """Runs one statement on a connection of its own; returns its rows, none if it has no rows."""
        with psycopg.connect(self.dsn(node, user), autocommit=True) as connection:
            cursor = connection.execute(query.encode(), values or None)
            return cursor.fetchall() if cursor.description else []

    def kill(self, node: int) -> None:
        self.nodes[node].kill()

    def start(self, node: int) -> None:
        self.nodes[node].start()

    def freeze(self, node: int) -> None:
        self.nodes[node].freeze()

    def thaw(self, node: int) -> None:
        self.nodes[node].thaw()

    def rebalance(self) -> None:
        """Spreads the schemas evenly over the workers, and waits for the end."""
        self.ask("SELECT citus_rebalance_start()")
        self.ask("SELECT citus_rebalance_wait()")

    def where(self, schema: str) -> int:
        """The node on which the schema's tables lie."""
        found = "SELECT DISTINCT nodeport FROM citus_shards WHERE table_name::regclass::oid IN "
        [(port,)] = self.ask(f"{found} (SELECT oid FROM pg_class WHERE relnamespace = %s::regnamespace)", schema)
        return next(number for number, node in enumerate(self.nodes) if node.port == port)

    def stop(self) -> None:
        for node in self.nodes:
            node.kill()

    def run(self, program: str, *arguments: str | Path, **options: Any) -> subprocess.Popen[bytes]:
        """Starts a program of the server, as an account that may run it."""
        return subprocess.Popen(
            [self._server / "pginstall" / "bin" / program, *arguments],
            stdin=subprocess.DEVNULL,
            cwd=self.folder,
            env={"LC_ALL": "C", "PATH": os.defpath, "LD_LIBRARY_PATH": str(self._server / "libs")},
            start_new_session=True,
            **{"stdout": subprocess.DEVNULL, **options},
            **self._account.process_options(),
        )

    @property
    def _template(self) -> Path:
        return self.folder / "template"

    def _new_node(self) -> Node:
        node = Node(self, len(self.nodes))
        self.nodes.append(node)
        subprocess.run(["cp", "-r", self._template, node.data], check=True, **self._account.process_options())
        node.start()
        with psycopg.connect(f"{self.dsn(-1, SUPERUSER)} dbname=postgres", autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {DATABASE}".encode())
        for extension in ("citus", "vector"):
            self.ask(f"CREATE EXTENSION {extension}", node=-1)
        return node

    def _give(self, node: int) -> None:
        """Makes the role the owner of the node's database, which is all that it needs to make and move schemas."""
        self.ask(f"SET citus.enable_ddl_propagation = off; ALTER DATABASE {DATABASE} OWNER TO {ROLE}", node=node)


@contextmanager
def running(workers: int = 2) -> Iterator[Cluster]:
    """A running cluster; nothing of it is left afterwards."""
    with tempfile.TemporaryDirectory(prefix="mnemoscope-citus-") as name:
        made = Cluster(Path(name).resolve())
        try:
            made.make(workers)
            yield made
        finally:
            made.stop()
