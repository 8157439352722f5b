"""What a database must be like before anything works on it. Each refusal is a sentence for who starts the program."""

from __future__ import annotations

import psycopg
from django.db import DatabaseError, connection
from django.db.migrations.loader import MigrationLoader

from memoryapp import environment
from memoryapp.database import conninfo

_NEWEST = "The database was last used by a newer version of this program, which made {name}: start that version again."
_OLDER = (
    "The database's tables are those of an earlier version: run `python3 manage.py migrate` or "
    "`python3 manage.py up` first."
)
_POOLED = (
    "The database is behind a pooler that gives each transaction another connection, which locks and notices of this "
    "program do not survive: set PgBouncer's pool_mode to session, or connect to PostgreSQL itself."
)
_TRIES = 3


class UnusableDatabase(Exception):
    """The database can be reached and must not be used."""


def refusal() -> str:
    """Why a web process, the worker or beat may not start; nothing of a database that is away, for they wait for it."""
    try:
        check_pooling()
        check_not_newer()
    except UnusableDatabase as reason:
        return str(reason)
    except (DatabaseError, psycopg.Error):
        return ""
    finally:
        connection.close()
    return ""


def check_tables() -> None:
    """Raises UnusableDatabase where the tables are of another version; an empty database is another matter."""
    loader = check_not_newer()
    if loader.applied_migrations and any(key not in loader.applied_migrations for key in loader.graph.nodes):
        raise UnusableDatabase(_OLDER)


def check_not_newer() -> MigrationLoader:
    """Raises UnusableDatabase where a migration was applied that this program does not know."""
    loader = MigrationLoader(connection)
    known = loader.disk_migrations or {}
    unknown = sorted(key for key in loader.applied_migrations if key[0] in loader.migrated_apps and key not in known)
    if unknown:
        raise UnusableDatabase(_NEWEST.format(name=".".join(unknown[-1])))
    return loader


def check_pooling() -> None:
    """Raises UnusableDatabase where a connection of ours is not one of PostgreSQL's for as long as it lasts.

    Between two transactions of one connection another begins one: in a pool of transactions it takes the first one's
    place. The embedded database has none. Raises what psycopg raises.
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
    """The server's process behind it; None where a pooler allows no transactions at all."""
    try:
        row = connection.execute("SELECT pg_backend_pid()").fetchone()
    except psycopg.errors.ProtocolViolation:
        return None
    return int(row[0]) if row else None
