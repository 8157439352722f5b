"""`manage.py` on a database that is away, missing or empty: a sentence that says what to do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.db import DataError, OperationalError, connection
from psycopg.conninfo import make_conninfo

from memoryapp.database import conninfo
from memoryapp.embedded import command_line
from memoryapp.embedded.places import CHECKOUT
from tests.stack import free_port

COMMANDS = (
    ("check_memory",),
    ("archive", "--now"),
    ("recall", "--user", "anna", "what about tea?"),
    ("import_chat", "chat.jsonl", "--user", "anna"),
)


def run(database: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "manage.py", *arguments]
    environment = {**os.environ, "DATABASE_URL": database}
    return subprocess.run(command, cwd=CHECKOUT, env=environment, capture_output=True, text=True)


def assert_one_sentence(done: subprocess.CompletedProcess[str], beginning: str) -> None:
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(beginning)
    assert done.stderr.count("\n") == 1, done.stderr


@pytest.mark.parametrize("command", ["check_memory", "up"])
def test_a_server_that_is_away_is_one_sentence(command: str, tmp_path: Path) -> None:
    more = ("--port", str(free_port()), "--data-dir", str(tmp_path)) if command == "up" else ()
    away = run("postgresql://someone@/memory?host=/nowhere", command, *more)
    assert_one_sentence(away, "The database cannot be reached: ")
    assert away.stderr.endswith("Is DATABASE_URL right, and its server up?\n")


def test_a_database_that_is_not_there_is_one_sentence(db: None) -> None:
    missing = run(make_conninfo(conninfo(), dbname="never-made"), "check_memory")
    assert_one_sentence(missing, "The database cannot be reached: ")
    assert 'database "never-made" does not exist' in missing.stderr


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda arguments: arguments[0])
def test_a_database_without_tables_is_one_sentence(db: None, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    chat = tmp_path / "chat.jsonl"
    chat.write_text('{"messages": [{"id": "1", "role": "user", "ts": "2025-01-01T00:00:00Z", "text": "hi"}]}')
    given = [str(chat) if word == chat.name else word for word in arguments]
    # Every PostgreSQL server has this database, and nobody keeps tables there.
    empty = run(make_conninfo(conninfo(), dbname="postgres"), *given)
    assert_one_sentence(empty, "The database has no tables yet: run `python3 manage.py migrate` or ")


def test_a_fault_of_the_program_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(argv: list[str]) -> None:
        raise DataError("a value of ours")

    monkeypatch.setattr(command_line, "execute_from_command_line", fail)
    with pytest.raises(DataError):
        command_line.main(["manage.py", "check"])


def test_a_statement_that_failed_is_not_called_an_unreachable_database(
    db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def time_out(argv: list[str]) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL statement_timeout = 1; SELECT pg_sleep(5)")

    monkeypatch.setattr(command_line, "execute_from_command_line", time_out)
    with pytest.raises(OperationalError, match="statement timeout"):
        command_line.main(["manage.py", "check"])
