"""A database of release 0.17.1: it is brought up to date, has the schema of a new one, and its runs can be read."""

import gzip
import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from memoryapp.engine import events
from memoryapp.platform.database import conninfo
from memoryapp.platform.embedded import paths
from tests.support import forked

RELEASE = Path(__file__).parent.parent / "fixtures" / "release_0_17_1.sql.gz"
STATEMENT = re.compile(r";\n(?=[A-Z])")
# A condition that was dumped and restored, as the tests' own database may be, has others.
CASTS = re.compile(r"::(?:text|character varying)|\[\]|[()]")


def program(name: str, *arguments: str, given: bytes = b"") -> str:
    """What a program of the server's own prints."""
    found = paths.binaries(paths.Account(os.geteuid(), os.getegid())) / name
    return subprocess.run([str(found), *arguments], input=given, check=True, stdout=subprocess.PIPE).stdout.decode()


def manage(database: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return forked.run([forked.MANAGE, *arguments], {**os.environ, "DATABASE_URL": database})


def schema(database: str) -> list[str]:
    """The statements that make the schema, without casts and the order of columns, which differ and mean nothing."""
    dumped = program("pg_dump", "--schema-only", "--no-owner", "--no-comments", f"--dbname={database}")
    lines = [line for line in dumped.splitlines() if line.strip() and not line.startswith(("--", "\\"))]
    return sorted(CASTS.sub("", in_one_order(statement)) for statement in STATEMENT.split("\n".join(lines)))


def in_one_order(statement: str) -> str:
    head, *columns = statement.split("\n")
    if not head.startswith("CREATE TABLE"):
        return statement
    return "\n".join((head, *sorted(column.removesuffix(",") for column in columns)))


@pytest.fixture
def upgraded(db: None) -> Iterator[str]:
    """The address of a database that 0.17.1 made and this program has brought up to date."""
    made = make_conninfo(conninfo(), dbname="upgraded")
    with psycopg.connect(conninfo(), autocommit=True) as server:
        server.execute("DROP DATABASE IF EXISTS upgraded")
        server.execute("CREATE DATABASE upgraded")
        try:
            stored = gzip.decompress(RELEASE.read_bytes())
            program("psql", "-q", "-X", "-1", "-v", "ON_ERROR_STOP=1", f"--dbname={made}", given=stored)
            done = manage(made, "migrate")
            assert done.returncode == 0, done.stderr
            yield made
        finally:
            server.execute("DROP DATABASE upgraded WITH (FORCE)")


def test_a_database_of_the_release_before_becomes_as_a_new_one(upgraded: str) -> None:
    assert schema(upgraded) == schema(conninfo())

    checked = json.loads(manage(upgraded, "check_memory", "--json").stdout)
    assert (checked["violations"], checked["checked"]["runs"]) == ([], 3)
    with psycopg.connect(upgraded) as reading:
        rows = reading.execute("SELECT kind, payload FROM memoryapp_runevent ORDER BY run_id, seq").fetchall()
        words = reading.execute("SELECT terms::text FROM memoryapp_topic ORDER BY id").fetchall()
        (run,) = reading.execute("SELECT id FROM memoryapp_run WHERE strategy = 'flash'").fetchone() or ("",)
    stored = [events.from_payload(kind, payload) for kind, payload in rows]
    assert sum(isinstance(event, events.RunFinished) for event in stored) == 3
    assert "'猫对'" in words[1][0]
    asked = json.loads(manage(upgraded, "why_not", str(run), "--message", "e1", "--json").stdout)
    assert asked["stage"] == "chosen"
