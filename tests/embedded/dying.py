"""``manage.py`` that is killed, with all that it started, before its n-th step; at 0, before it starts the web.

``python -m tests.embedded.dying N STEPS FOLDER COMMAND …`` appends each step to the file STEPS. A step is a statement,
also one of a tool of PostgreSQL as the server shows it, a program that is started, and a file in FOLDER that is opened
to be written, renamed or removed."""

import os
import runpy
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg
from django.db.backends.signals import connection_created

TOOLS = ("pg_dump", "pg_restore")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.chmod", "os.link"}
_SHOWN = f"SELECT query FROM pg_stat_activity WHERE application_name IN {TOOLS!r}"


class Steps:
    """Counts the steps, and ends this process's group before the last one."""

    def __init__(self, last: int, file: str, folder: str) -> None:
        self._last, self._folder = last, folder
        self._file = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._count = 0
        self._lock = threading.Lock()

    def take(self, what: str, is_end: bool = False) -> None:
        with self._lock:
            self._count += 1
            os.write(self._file, f"{' '.join(what.split())[:100]}\n".encode())
            if is_end or self._count == self._last:
                os.killpg(0, signal.SIGKILL)

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        """An audit hook."""
        if event == "open":
            path, _, flags = arguments
            if flags & _WRITING and self._is_inside(path):
                self.take(f"open {path}")
        elif event in _CHANGES and any(map(self._is_inside, arguments)):
            self.take(f"{event} {arguments[0]}")
        elif event == "subprocess.Popen":
            program = [str(each) for each in arguments[1]]
            self.take(f"start {program[0]}", is_end="daphne" in program)
            if program[0].endswith(TOOLS):
                threading.Thread(target=self._watch, daemon=True).start()

    def _is_inside(self, path: object) -> bool:
        return isinstance(path, str | os.PathLike) and os.fspath(path).startswith(self._folder)

    def connected(self, connection: Any, **_: object) -> None:
        """A handler of the signal of a new connection."""
        connection.execute_wrappers.append(self._execute)

    def _execute(self, execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        self.take(sql)
        return execute(sql, *rest)

    def _watch(self) -> None:
        from memoryapp.platform.database import conninfo  # noqa: PLC0415 it reads the settings

        seen: set[str] = set()
        with suppress(psycopg.Error), psycopg.connect(conninfo(), autocommit=True) as database:
            while True:
                for (query,) in database.execute(_SHOWN.encode()).fetchall():
                    if query not in seen:
                        seen.add(query)
                        self.take(f"shown {query}")


if __name__ == "__main__":
    os.setsid()
    steps = Steps(int(sys.argv[1]), *sys.argv[2:4])
    sys.addaudithook(steps.hear)
    connection_created.connect(steps.connected, weak=False)
    sys.argv = ["manage.py", *sys.argv[4:]]
    runpy.run_path("manage.py", run_name="__main__")
