"""A server as a child process: started, awaited, stopped, its output kept for the report of a failed test."""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.support.clock import PATIENCE
from tests.support.stack import free_port, wait_for


@dataclass(frozen=True)
class Server:
    """``url`` is its address, ``log`` contains everything it printed."""

    url: str
    log: Path

    def get(self, path: str) -> Any:
        return httpx.get(self.url + path, timeout=PATIENCE).raise_for_status().json()

    def post(self, path: str, **body: Any) -> Any:
        return httpx.post(self.url + path, json=body, timeout=PATIENCE).raise_for_status().json()


@contextmanager
def serving(command: Sequence[str], folder: Path, *, health: str, seconds: float = PATIENCE) -> Iterator[Server]:
    """Runs ``command`` with a free port for each ``PORT`` in it, until its page ``health`` answers 200."""
    port = str(free_port())
    server = Server(f"http://127.0.0.1:{port}", folder / "server.log")
    with server.log.open("w") as log:
        process = subprocess.Popen([part.replace("PORT", port) for part in command], stdout=log, stderr=log, cwd=folder)
    try:
        wait_for(lambda: process.poll() is not None or _answers(server.url + health), seconds)
        assert process.poll() is None, f"{command[0]} ended with {process.returncode}:\n{server.log.read_text()}"
        yield server
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=2).status_code == 200
    except httpx.HTTPError:
        return False
