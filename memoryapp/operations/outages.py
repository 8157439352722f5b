"""Logs an outage of the database in worker and beat: one line a minute instead of a traceback a second."""

from __future__ import annotations

import logging
import threading
import time

import psycopg
from django.db import DatabaseError

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
        logger.warning("The database cannot be reached: %s. Background work is waiting for it.", reason(error))

    def end(self) -> None:
        with self._lock:
            since, self._since = self._since, 0.0
        if since:
            logger.warning("The database is back after %.0f s.", time.monotonic() - since)


database_outage = OutageLog()


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
