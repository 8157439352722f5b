"""An embedded cluster in use: processes with a lease on it, and what the operating system shows of them."""

import os
import subprocess
import sys
import time
from collections.abc import Callable

import psycopg

from memoryapp.platform.embedded import children, paths
from memoryapp.platform.embedded.paths import Cluster
from tests.support.clock import PATIENCE

AS_ROOT = os.geteuid() == 0
USER = """
import sys
from pathlib import Path
from memoryapp.platform.embedded.lease import Lease
from memoryapp.platform.embedded.paths import Cluster
with Lease(Cluster(Path(sys.argv[1]), throwaway=len(sys.argv) > 2)):
    print("up", flush=True)
    sys.stdin.read()
"""


def user(cluster: Cluster) -> subprocess.Popen[str]:
    """Another process that uses the server; it ends when its input is closed."""
    arguments = [str(cluster.base), *(["throwaway"] if cluster.throwaway else [])]
    return subprocess.Popen(
        [sys.executable, "-c", USER, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=paths.CHECKOUT,
        env={**os.environ, "LANG": "C", "LC_ALL": "C"},
    )


def await_up(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"


def leave(process: subprocess.Popen[str]) -> None:
    process.communicate()


def await_end(cluster: Cluster) -> None:
    """Waits for the end of the supervisor, and of the processes that it may have left."""
    if (cluster.base / paths.SUPERVISOR).exists():
        with paths.opened(cluster.base / paths.SUPERVISOR) as lock:
            paths.acquire(lock)
    eventually(lambda: not server_processes(cluster))


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def server_processes(cluster: Cluster) -> list[int]:
    return [
        pid
        for pid, line in children.command_lines()
        if f" cluster_name={cluster.name} " in line or f" {cluster.name}: " in line
    ]


def postmaster(cluster: Cluster) -> int:
    return int((cluster.data / "postmaster.pid").read_text().split()[0])


def supervisor(cluster: Cluster) -> int:
    return int((cluster.base / paths.SUPERVISOR).read_text())


def connect(cluster: Cluster, **more: str) -> psycopg.Connection:
    """Connects as the program does."""
    database = "postgres" if cluster.throwaway else paths.DATABASE
    who = {"user": paths.ROLE, "dbname": database, "passfile": str(cluster.passfile), **more}
    return psycopg.connect(host=str(cluster.socket), **who, autocommit=True)


def answers(cluster: Cluster) -> bool:
    try:
        with connect(cluster) as connection:
            return connection.execute("select 1").fetchone() == (1,)
    except psycopg.OperationalError:
        return False
