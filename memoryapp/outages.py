"""A database that is away, as worker and beat see it: one line a minute instead of a traceback a second."""

from __future__ import annotations

import logging
import threading
import time

import psycopg
from django.db import DatabaseError

EVERY = 60.0

logger = logging.getLogger(__name__)


class Outage:
    """What is away, for all threads of a process. What cannot be done meanwhile stays in the rows."""

    def __init__(self, every: float = EVERY) -> None:
        self._every = every
        self._lock = threading.Lock()
        self._since = self._logged = 0.0

    def met(self, error: BaseException) -> None:
        with self._lock:
            now = time.monotonic()
            if not self._since:
                self._since = now
            elif now - self._logged < self._every:
                return
            self._logged = now
        logger.warning("The database cannot be reached: %s. Work in the background waits for it.", reason(error))

    def over(self) -> None:
        with self._lock:
            since, self._since = self._since, 0.0
        if since:
            logger.warning("The database is back after %.0f s.", time.monotonic() - since)


database = Outage()


def is_outage(error: BaseException) -> bool:
    """Whether there is no connection, or none any more: others of these classes tell of one statement."""
    cause = error.__cause__ if isinstance(error, DatabaseError) else error
    if isinstance(cause, psycopg.InterfaceError):
        return "connection" in str(cause)
    if not isinstance(cause, psycopg.OperationalError):
        return False
    return cause.sqlstate is None or cause.sqlstate.startswith(("08", "28", "3D", "57P"))


def reason(error: BaseException) -> str:
    """Its first line, without the stop at its end."""
    return str(error).strip().partition("\n")[0].rstrip(".:")
