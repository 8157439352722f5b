"""Logs an outage of the database: one line a minute for a process instead of a traceback for each request or sweep."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

import psycopg
from django.db import DatabaseError
from django.db.backends.signals import connection_created

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


def reason(error: BaseException) -> str:
    """Returns the first line of the message, without its final punctuation."""
    return str(error).strip().partition("\n")[0].rstrip(".:")
