"""The whole program as a newcomer starts it, for tests that look at it from outside. ``manage.py up`` in a data folder
of its own: embedded database, web, worker and beat are the real ones."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support import forked
from tests.support.clock import PATIENCE

CHECKOUT = Path(__file__).resolve().parent.parent.parent
PASSWORD = "a-long-enough-word"
# The database and the folder of the tests, and what only tests with a browser in their thread may do.
NOT_THEIRS = {"DATABASE_URL", "DATA_DIR", "DJANGO_ALLOW_ASYNC_UNSAFE"}
# Seconds that a run may take on a busy machine.
PATIENT = {"RERANKER_TIMEOUT": f"{PATIENCE:g}s", "RERANKER_TURN_TIMEOUT": f"{PATIENCE:g}s"}


# Kept open: the system gives their ports to nobody else, but to who asks for one by its number.
_RESERVED: list[socket.socket] = []


def free_port() -> int:
    """A port that stays free until the program listens on it that is told of it, however long it takes to start."""
    reserved = socket.socket()
    for shared in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
        reserved.setsockopt(socket.SOL_SOCKET, shared, 1)
    reserved.bind(("127.0.0.1", 0))
    _RESERVED.append(reserved)
    return int(reserved.getsockname()[1])


class Stack:
    """A running program. ``lines`` holds what it printed until it was ready. ``program`` is how it is called, by
    default from the checkout, in the working directory ``at``."""

    def __init__(
        self,
        folder: Path,
        *arguments: str,
        program: Sequence[str] = (sys.executable, "manage.py"),
        at: Path = CHECKOUT,
        **environment: str,
    ) -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.environment = {k: v for k, v in os.environ.items() if k not in NOT_THEIRS}
        self.environment |= {"DATA_DIR": str(folder), "PYTHONUNBUFFERED": "1", **PATIENT, **environment}
        self.log = (folder.parent / f"{folder.name}.log").open("w+")
        self.process = subprocess.Popen(
            [*program, "up", "--port", str(self.port), *arguments],
            cwd=at,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
        )
        self.lines = self._until_ready()

    def _until_ready(self) -> list[str]:
        lines = []
        assert self.process.stdout
        for line in self.process.stdout:
            lines.append(line.rstrip())
            if line.startswith("ready:"):
                return lines
        self.log.seek(0)
        ending = f"up ended with {self.process.wait()}: {lines}\n{self.log.read()[-4000:]}"
        self._close()
        raise AssertionError(ending)

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """``manage.py`` with these arguments on the same data."""
        return forked.run([forked.MANAGE, *arguments], self.environment)

    def json(self, *arguments: str) -> Any:
        done = self.command(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def make_operator(self, name: str) -> None:
        self.environment |= {"DJANGO_SUPERUSER_PASSWORD": PASSWORD}
        done = self.command("createsuperuser", "--noinput", "--username", name, "--email", f"{name}@example.org")
        assert done.returncode == 0, done.stderr

    def web_processes(self) -> list[int]:
        """The web children's process ids, as the operating system lists them."""
        children = subprocess.run(
            ["ps", "-o", "pid=,args=", "--ppid", str(self.process.pid)], capture_output=True, text=True, check=True
        ).stdout
        found = re.findall(r"^\s*(\d+) .*daphne", children, re.M)
        assert found, children
        return [int(number) for number in found]

    def complaints(self) -> list[str]:
        """What the program logged of errors and faults."""
        self.log.flush()
        text = (self.folder.parent / f"{self.folder.name}.log").read_text()
        return [line for line in text.splitlines() if " ERROR " in line or line.startswith("Traceback")]

    def stop(self) -> int:
        self.process.send_signal(signal.SIGINT)
        try:
            return self.process.wait(timeout=PATIENCE)
        finally:
            if self.process.poll() is None:
                self.process.kill()
            self._close()

    def _close(self) -> None:
        assert self.process.stdout
        self.process.stdout.close()
        self.log.close()


def wait_for(what: Any, seconds: float = PATIENCE) -> Any:
    """The first true answer of ``what()``; for states outside this process that no event announces."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        answer = what()
        if answer:
            return answer
        time.sleep(0.05)
    raise AssertionError(f"not within {seconds} s: {what}")
