"""`manage.py` on a database that is unreachable, missing or empty: a sentence says what to do."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from django.db import DataError, OperationalError, connection
from django.db.migrations.recorder import MigrationRecorder
from psycopg.conninfo import make_conninfo

from memoryapp.platform import database as startup
from memoryapp.platform.database import conninfo
from memoryapp.platform.embedded import command_line, paths
from memoryapp.platform.embedded.lease import Lease
from memoryapp.platform.embedded.paths import CHECKOUT, Cluster
from tests.support import forked
from tests.support.stack import free_port

COMMANDS = (
    ("check_memory",),
    ("archive", "--now"),
    ("recall", "--user", "anna", "what about tea?"),
    ("import_chat", "chat.jsonl", "--user", "anna"),
)


def run(database: str, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "DATABASE_URL": database, "DATABASE_WAIT": "0", **more}
    return forked.run([forked.MANAGE, *arguments], environment)


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


def main_says(*arguments: str) -> str:
    """With what ``manage.py`` ends within this process, whose transaction it works in."""
    with pytest.raises(SystemExit) as ended:
        command_line.main(["manage.py", *arguments])
    assert isinstance(ended.value.code, str), ended.value.code
    return ended.value.code


def test_a_database_of_a_newer_version_is_refused_in_a_sentence(db: None) -> None:
    MigrationRecorder(connection).record_applied("memoryapp", "9999_from_the_future")
    sentence = "The database was last used by a newer version of this program, which made memoryapp.9999_from_the_"
    assert main_says("check_memory").startswith(sentence)
    with pytest.raises(startup.UnusableDatabase):
        startup.check_version()
    assert startup.refusal().startswith(sentence)


@pytest.mark.parametrize("command", ["check_memory", "migrate"])
def test_a_database_from_before_the_first_migration_is_refused_in_a_sentence(db: None, command: str) -> None:
    MigrationRecorder(connection).record_unapplied("memoryapp", "0004_words_again")
    sentence = (
        "The database was last used by a version before 0.17.1: upgrade through 0.17.1 first, then start this one."
    )
    assert main_says(command) == sentence
    assert startup.refusal() == sentence


def test_a_command_after_an_update_says_to_migrate_first(db: None) -> None:
    MigrationRecorder(connection).record_unapplied("memoryapp", "0002_release_0_18")
    assert main_says("archive", "--now").startswith("The database's tables are those of an earlier version: run ")
    assert startup.refusal() == ""


@pytest.fixture
def bare(db: None) -> Iterator[str]:
    """The address of a database of one's own in which no superuser created pgvector."""
    with psycopg.connect(conninfo(), autocommit=True) as server:
        server.execute("DROP DATABASE IF EXISTS bare")
        server.execute("CREATE DATABASE bare TEMPLATE template0")
        yield make_conninfo(conninfo(), dbname="bare")
        server.execute("DROP DATABASE bare WITH (FORCE)")


def test_a_role_that_may_not_create_the_extension_is_one_sentence(bare: str, tmp_path: Path) -> None:
    refused = run(bare, "up", "--port", str(free_port()), "--data-dir", str(tmp_path / "data"))
    sentence = 'The database\'s role may not do what is needed: permission denied to create extension "vector". Have'
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1), refused.stderr
    assert refused.stderr.startswith(sentence)


@pytest.mark.parametrize("port", ["abc", "0", "-1", "70000", "٣", "9" * 5000])
def test_a_port_that_is_none_is_one_sentence(port: str) -> None:
    assert main_says("up", f"--port={port}") == f"--port must be a whole number between 1 and 65535, not {port!r}."


def test_a_data_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / "data"
    for more in ({}, {"SECRET_KEY": "of-thirty-two-characters-at-least"}):
        refused = run(os.environ["DATABASE_URL"], "up", "--port", str(free_port()), DATA_DIR=str(folder), **more)
        assert_one_sentence(refused, f"The data folder {folder} can't be made: Not a directory.")


def test_help_begins_with_our_own_commands() -> None:
    shown = forked.run([forked.MANAGE, "help"], os.environ).stdout
    ours = shown.partition("Available subcommands")[0]
    assert re.findall(r"^    (\w+)  ", ours, re.M) == sorted(command_line._OURS)
    assert {"up", "import_chat", "recall"} <= set(command_line._OURS)


def test_a_command_waits_for_a_database_that_starts_again() -> None:
    with tempfile.TemporaryDirectory(prefix="mnemoscope restart ") as name:
        os.chmod(name, 0o711)
        server = Cluster(Path(name).resolve() / "postgres", throwaway=True)
        lease = Lease(server)
        address = make_conninfo(
            host=str(server.socket), user=paths.ROLE, dbname="postgres", passfile=str(server.passfile)
        )
        command = subprocess.Popen(
            [sys.executable, "manage.py", "check_memory"],
            cwd=CHECKOUT,
            env={**os.environ, "DATABASE_URL": address, "DATABASE_WAIT": "10m"},
            stderr=subprocess.PIPE,
            text=True,
        )
        assert command.stderr
        assert command.stderr.readline() == "The database does not answer; waiting up to 600 s for it ...\n"
        with paths.opened(server.base / paths.SUPERVISOR) as lock:
            with lease:
                _, errors = command.communicate()
            paths.acquire(lock)
    assert errors.startswith("The database has no tables yet: ")


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


def test_a_command_imports_no_page(db: None) -> None:
    shown = {"DATABASE_URL": conninfo(), "PYTHONPROFILEIMPORTTIME": "1"}
    command = [sys.executable, "manage.py", "check_memory"]
    done = subprocess.run(command, cwd=CHECKOUT, env={**os.environ, **shown}, capture_output=True, text=True)
    assert done.returncode == 0
    assert "memoryapp.runs.endings" in done.stderr
    assert "rerankui.views" not in done.stderr


def test_whoever_stops_reading_ends_the_command_without_a_word() -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "manage.py", "help"]
    done = subprocess.run(command, cwd=CHECKOUT, stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, "")
