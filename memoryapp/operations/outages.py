"""Faults in requests and sweeps.

An outage is logged as one line a minute for a process, instead of a traceback each time. Another fault, of whatever
kind, concerns one row, and keeps no other from getting its turn.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from django.db import DatabaseError, connection
from django.db.backends.signals import connection_created

from memoryapp.operations.pauses import StagePaused

INTERVAL = 60.0

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
        log_fault(message, number)
        keep(error)


def log_fault(message: str, number: object) -> None:
    """Logs the exception that is being handled, and closes a connection that it left unusable."""
    logger.exception(message, number)
    if not connection.is_usable():
        connection.close()


def reason(error: BaseException) -> str:
    """Returns the first line of the message, without its final punctuation."""
    return str(error).strip().partition("\n")[0].rstrip(".:")
