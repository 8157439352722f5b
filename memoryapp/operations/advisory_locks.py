"""Advisory locks of PostgreSQL, with which processes agree which of them does a piece of work.

A lock is named by a word and a number and belongs to a connection. PostgreSQL releases it when the connection is lost,
so a killed worker blocks no other process.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from django.db import connection

_KEY = "hashtextextended(%s, %s)"


def acquire_until_commit(what: str, number: int, *, waits: bool = True) -> bool:
    """Waits for the lock, which the end of the transaction releases; without ``waits`` returns whether it was free."""
    if not waits:
        return _call("pg_try_advisory_xact_lock", what, number)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT pg_advisory_xact_lock({_KEY})", [what, number])
    return True


def try_acquire(
    what: str, number: int, *, wait: timedelta = timedelta(0), meanwhile: Callable[[], None] = lambda: None
) -> bool:
    """Takes the lock if it is free now or within ``wait``; returns False if another connection still holds it.

    While it waits, ``meanwhile`` is called about ten times a second.
    """
    deadline = time.monotonic() + wait.total_seconds()
    while not (free := _call("pg_try_advisory_lock", what, number)) and time.monotonic() < deadline:
        meanwhile()
        time.sleep(0.1)
    return free


@contextmanager
def exclusive(
    what: str, number: int, *, wait: timedelta = timedelta(0), meanwhile: Callable[[], None] = lambda: None
) -> Iterator[bool]:
    """Yields whether this process got the lock, which it then holds until the end; see ``try_acquire``."""
    is_alone = try_acquire(what, number, wait=wait, meanwhile=meanwhile)
    try:
        yield is_alone
    finally:
        if is_alone:
            release(what, number)


@contextmanager
def lane(what: str, lanes: int) -> Iterator[bool]:
    """Yields whether fewer than ``lanes`` others do this: a slow chat model must not occupy the whole worker."""
    mine = next((number for number in range(lanes) if try_acquire(what, number)), None)
    try:
        yield mine is not None
    finally:
        if mine is not None:
            release(what, mine)


def release(what: str, number: int) -> None:
    _call("pg_advisory_unlock", what, number)


def _call(function: str, what: str, number: int) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {function}({_KEY})", [what, number])
        return bool(cursor.fetchone()[0])
