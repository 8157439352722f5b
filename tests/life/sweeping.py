"""The worker's sweeps, in a process that dies at a chosen SQL statement: ``python -m tests.support.victim``."""

import os
import signal
from collections.abc import Callable, Mapping
from typing import Any

from asgiref.sync import sync_to_async
from django.db import connection

from memoryapp.upkeep import tasks


def _consolidate() -> None:
    tasks.suggest_due()
    tasks.consolidate_due()


SWEEPS: Mapping[str, Callable[[], None]] = {
    "import": tasks.import_waiting,
    "archive": tasks.archive_due,
    "embed": tasks.embed_pending,
    "consolidate": _consolidate,
    "extract": tasks.extract_due,
    "artifacts": tasks.read_artifacts,
    "erase": tasks.erase_due,
}


class Statements:
    """Counts the statements sent to the database, and kills the process at number ``last``; an odd one is executed
    before."""

    def __init__(self, last: int = 0) -> None:
        self.count, self._last = 0, last

    def __call__(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        self.count += 1
        if self.count == self._last and self.count % 2 == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        done = execute(sql, params, many, context)
        if self.count == self._last:
            os.kill(os.getpid(), signal.SIGKILL)
        return done


def sweep(stage: str, last: int = 0) -> int:
    """Returns how many statements the stage's sweep sent; the process dies at number ``last``, if there is one."""
    statements = Statements(last)
    with connection.execute_wrapper(statements):
        SWEEPS[stage]()
    return statements.count


async def warm() -> None:
    """Does nothing, because there is nothing to load."""


async def execute(names: list[str]) -> None:
    await sync_to_async(sweep)(names[0], int(names[1]))
