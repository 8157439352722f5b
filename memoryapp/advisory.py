"""Locks in the database, by which processes agree who does a piece of work.

A lock is a word and a number, and belongs to a connection: PostgreSQL gives it back when that is lost, so a
killed worker holds nobody up.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta

from django.db import connection

_KEY = "hashtextextended(%s, %s)"


def take_until_commit(what: str, number: int) -> None:
    """Waits for the lock; the end of the transaction gives it back."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT pg_advisory_xact_lock({_KEY})", [what, number])


def taken(
    what: str, number: int, *, wait: timedelta = timedelta(0), meanwhile: Callable[[], None] = lambda: None
) -> bool:
    """Takes the lock if it is free now or within ``wait``; False if another connection keeps it.

    While it waits, ``meanwhile`` is called about ten times a second.
    """
    deadline = time.monotonic() + wait.total_seconds()
    while not (free := _tell("pg_try_advisory_lock", what, number)) and time.monotonic() < deadline:
        meanwhile()
        time.sleep(0.1)
    return free


def give_back(what: str, number: int) -> None:
    _tell("pg_advisory_unlock", what, number)


def _tell(function: str, what: str, number: int) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {function}({_KEY})", [what, number])
        return bool(cursor.fetchone()[0])
