"""Checks the database before a process uses it; each refusal is a sentence for the person who starts the process."""

from __future__ import annotations

from collections.abc import Collection

import psycopg
from django.db import DatabaseError, connection
from django.db.migrations.loader import MigrationLoader

from memoryapp import environment
from memoryapp.environment import PROGRAM
from memoryapp.operations.database import conninfo

_NEWEST = "The database was last used by a newer version of this program, which made {name}: start that version again."
_BEFORE = "The database was last used by a version before 0.15.1: upgrade through 0.15.1 first, then start this one."
_OLDER = f"The database's tables are those of an earlier version: run `{PROGRAM} migrate` or `{PROGRAM} up` first."
_POOLED = (
    "The database is behind a pooler that gives each transaction another connection, which locks and notices of this "
    "program do not survive: set PgBouncer's pool_mode to session, or connect to PostgreSQL itself."
)
_TRIES = 3


class UnusableDatabase(Exception):
    """The database can be reached but must not be used; the text is a sentence for people."""


def refusal() -> str:
    """Returns why a web process, the worker or beat may not start; empty if it may, and during an outage, because they
    wait for its end."""
    try:
        check_pooling()
        check_version()
    except UnusableDatabase as reason:
        return str(reason)
    except (DatabaseError, psycopg.Error):
        return ""
    finally:
        connection.close()
    return ""


def check_tables() -> None:
    """Raises UnusableDatabase when the tables belong to another version; an empty database passes."""
    loader = check_version()
    if loader.applied_migrations and any(key not in loader.applied_migrations for key in loader.graph.nodes):
        raise UnusableDatabase(_OLDER)


def check_version() -> MigrationLoader:
    """Raises UnusableDatabase for tables that this program cannot bring up to date: those of a newer version, and those
    of a version before the release that its first migration replaces."""
    loader = MigrationLoader(connection)
    applied = {".".join(key) for key in loader.applied_migrations if key[0] in loader.migrated_apps}
    known = {".".join(key) for key in loader.disk_migrations or {}}
    if unknown := sorted(applied - known - replaced()):
        raise UnusableDatabase(_NEWEST.format(name=unknown[-1]))
    if is_before_replaced(applied):
        raise UnusableDatabase(_BEFORE)
    return loader


def replaced() -> set[str]:
    """Returns the migrations that databases have recorded and that this program has replaced by others."""
    found = (MigrationLoader(None, ignore_no_migrations=True).disk_migrations or {}).values()
    return {".".join(key) for migration in found for key in migration.replaces if key[0] == "memoryapp"}


def is_before_replaced(applied: Collection[str]) -> bool:
    """Returns whether a database with these migrations lacks some of those that were replaced."""
    return 0 < len(replaced().intersection(applied)) < len(replaced())


def check_pooling() -> None:
    """Raises UnusableDatabase behind a pooler that assigns a server process only for one transaction.

    Between two transactions of one connection, another connection begins one: in a transaction pool it gets the server
    process of the first. The embedded database is not checked, because it has no pooler. Also raises what psycopg
    raises.
    """
    if not environment.text("DATABASE_URL"):
        return
    with psycopg.connect(conninfo(), autocommit=True) as first:
        for _ in range(_TRIES):
            before = _backend(first)
            with psycopg.connect(conninfo()) as second:
                if before in (_backend(second), None) or _backend(first) != before:
                    raise UnusableDatabase(_POOLED)


def _backend(connection: psycopg.Connection) -> int | None:
    """Returns the pid of the server process; None when a pooler allows no transactions at all.

    PgBouncer has one code for this and for a server that it cannot reach, which is an outage.
    """
    try:
        row = connection.execute("SELECT pg_backend_pid()").fetchone()
    except psycopg.errors.ProtocolViolation as error:
        if "pooling mode" not in str(error):
            raise
        return None
    return int(row[0]) if row else None
