"""The tests' database: restored from a dump while the migrations are the same, emptied by deleting rows."""

import hashlib
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import psycopg
from django.db import DatabaseError, connections

from memoryapp.platform.embedded import paths
from memoryapp.platform.embedded.paths import CHECKOUT, DATABASE

# Making a new file for each of two hundred tables and indexes takes ten times as long as deleting the rows of a test.
# Like TRUNCATE, this waits for other writers. Deleted rows take space, so tables are truncated once that is much.
EMPTYING = """DO $$
DECLARE
    tables text[] := ARRAY[{names}];
    name text;
BEGIN
    LOCK TABLE {tables} IN ACCESS EXCLUSIVE MODE;
    IF (SELECT sum(pg_table_size(each::regclass)) FROM unnest(tables) AS each) > 8000000 THEN
        TRUNCATE {tables};
    ELSE
        PERFORM set_config('session_replication_role', 'replica', true);
        FOREACH name IN ARRAY tables LOOP
            EXECUTE 'DELETE FROM ' || name;
        END LOOP;
        PERFORM set_config('session_replication_role', 'origin', true);
    END IF;
END $$"""
# Django writes these rows from the models; no test writes any.
OF_MODELS = {"django_content_type", "auth_permission"}
# What the migrated tables depend on: our migrations, those of installed packages, and the server.
SOURCES = ("memoryapp/migrations/*.*", "memoryapp/models/*.py", "memoryapp/settings.py", "requirements*.lock")


def emptying(_operations: object, _style: object, tables: Sequence[str], **_unused: bool) -> list[str]:
    """Returns the statement that empties these tables after a test with real transactions."""
    quoted = [f'"{table}"' for table in tables if table not in OF_MODELS]
    return [EMPTYING.format(names=", ".join(f"'{name}'" for name in quoted), tables=", ".join(quoted))]


def keep_connections(_test: object) -> bool:
    """Returns False, for a test that needs no new connection to find none of an earlier one's settings and locks. A new
    process of the server reads anew what it knows of sixty tables."""
    for connection in connections.all(initialized_only=True):
        if connection.connection is None:
            continue
        if connection.in_atomic_block or not connection.get_autocommit():
            connection.close()
            continue
        try:
            with connection.cursor() as cursor:
                cursor.execute("RESET ALL; UNLISTEN *; SELECT pg_advisory_unlock_all()")
            connection.ensure_timezone()
        except DatabaseError:
            connection.close()
    return False


def restore(folder: Path) -> None:
    """Restores the database from the dump of an earlier run in ``folder``; ``migrate`` then finds nothing to do. Does
    nothing without a dump of exactly these migrations. Raises CalledProcessError if it cannot be read."""
    dump = _dump(folder)
    if dump.exists() and _is_throwaway():
        with psycopg.connect(os.environ["DATABASE_URL"], dbname="postgres", autocommit=True) as server:
            # A test process that ended too early has left its own.
            server.execute(f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)")
            server.execute(f"CREATE DATABASE {DATABASE}")
        _run("psql", "--quiet", "--no-psqlrc", "--single-transaction", "--set=ON_ERROR_STOP=1", f"--file={dump}")


def keep(folder: Path) -> None:
    """Writes the dump of the migrated database into ``folder``, and removes dumps of other migrations."""
    dump = _dump(folder)
    if dump.exists() or not _is_throwaway():
        return
    for other in folder.glob("*.sql"):
        other.unlink(missing_ok=True)
    draft = dump.with_suffix(f".{os.getpid()}")
    _run("pg_dump", "--no-owner", "--no-comments", f"--file={draft}")
    draft.replace(dump)


def _dump(folder: Path) -> Path:
    sources = [path.read_bytes() for pattern in SOURCES for path in sorted(CHECKOUT.glob(pattern))]
    return folder / f"{hashlib.sha256(b''.join(sources)).hexdigest()}.sql"


def _is_throwaway() -> bool:
    """Returns whether the server is that of ``manage.py test``, which contains only the tests' database."""
    return "MNEMOSCOPE_THROWAWAY" in os.environ


def _run(program: str, *arguments: str) -> None:
    account = paths.Account(os.geteuid(), os.getegid())
    command = [str(paths.binaries(account) / program), *arguments, f"--dbname={os.environ['DATABASE_URL']}"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
