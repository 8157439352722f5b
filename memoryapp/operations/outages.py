"""Faults in requests and sweeps.

An outage is logged as one line a minute for a process, instead of a traceback each time. Another fault, of whatever
kind, concerns one row, and keeps no other from getting its turn.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import psycopg
from django.db import DatabaseError, connection
from django.db.backends.signals import connection_created

from memoryapp.operations.pauses import StagePaused

INTERVAL = 60.0
# After each fault of a row, in seconds.
RESTS = (60.0, 600.0, 3600.0)

Row = TypeVar("Row")

logger = logging.getLogger(__name__)


class OutageLog:
    """Logs an outage once for all threads of a process. Work that cannot be done meanwhile remains in the rows."""

    def __init__(self, interval: float = INTERVAL) -> None:
        self._interval = interval
        self._lock = threading.Lock()
        self._since = self._logged = 0.0

    def report(self, error: BaseException) -> None:
        with self._lock:
            now = time.monotonic()
            if not self._since:
                self._since = now
            elif now - self._logged < self._interval:
                return
            self._logged = now
        sentence = "The database cannot be reached: %s. Requests are refused and work waits until it is back."
        logger.warning(sentence, reason(error))

    @property
    def is_going_on(self) -> bool:
        return bool(self._since)

    def end(self, **_named: Any) -> None:
        with self._lock:
            since, self._since = self._since, 0.0
        if since:
            logger.warning("The database is back after %.0f s.", time.monotonic() - since)


database_outage = OutageLog()
# A task that needs no database would end it too early.
connection_created.connect(database_outage.end)


def is_outage(error: BaseException) -> bool:
    """Whether the connection failed or was lost; other errors of the same classes concern only one statement."""
    cause = error.__cause__ if isinstance(error, DatabaseError) else error
    if isinstance(cause, psycopg.InterfaceError):
        return "connection" in str(cause)
    if not isinstance(cause, psycopg.OperationalError):
        return False
    return cause.sqlstate is None or cause.sqlstate.startswith(("08", "28", "3D", "57P"))


def is_gone(error: BaseException) -> bool:
    """Whether a row was not written because what it belongs to was deleted meanwhile, which is no fault."""
    cause = error.__cause__ if isinstance(error, DatabaseError) else error
    return isinstance(cause, psycopg.errors.ForeignKeyViolation)


@contextmanager
def others_go_on(
    message: str, number: object, keep: Callable[[Exception], object] = lambda error: None
) -> Iterator[None]:
    """Logs a fault in the block, with the sentence and what it names, and goes on; ``keep`` writes it into a row, so
    that people see it and the next attempt waits. An outage of the database and a pause are raised."""
    try:
        yield
    except StagePaused:
        raise
    except Exception as error:
        if is_outage(error):
            raise
        if is_gone(error):
            return
        log_fault(message, number)
        keep(error)


class Rests:
    """Rows with a fault whose table has no place for it: each rests in this process, longer after each fault."""

    def __init__(self) -> None:
        self._faults: dict[object, tuple[int, float]] = {}

    def holds(self, key: object) -> bool:
        return time.monotonic() < self._faults.get(key, (0, 0.0))[1]

    def begin(self, key: object, _error: Exception | None = None) -> None:
        faults, _until = self._faults.get(key, (0, 0.0))
        self._faults[key] = faults + 1, time.monotonic() + RESTS[min(faults, len(RESTS) - 1)]

    def end(self, key: object) -> None:
        self._faults.pop(key, None)

    def end_all(self) -> None:
        self._faults.clear()


rests = Rests()


def each_alone(rows: Iterable[Row], message: str, act: Callable[[Row], object]) -> None:
    """Does this for each of the rows, or their numbers, which do not rest; a fault is its row's own."""
    for row in rows:
        number = getattr(row, "pk", row)
        if not rests.holds((message, number)):
            with others_go_on(message, number, partial(rests.begin, (message, number))):
                act(row)
                rests.end((message, number))


def log_fault(message: str, number: object) -> None:
    """Logs the exception that is being handled, and closes a connection that it left unusable."""
    logger.exception(message, number)
    if not connection.is_usable():
        connection.close()


def reason(error: BaseException) -> str:
    """Returns the first line of the message, without its final punctuation."""
    return str(error).strip().partition("\n")[0].rstrip(".:")
