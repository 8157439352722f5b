"""Django's command line with its database up: the first code that runs inside `.venv`.

Without ``DATABASE_URL`` a command shares the embedded server for as long as it runs. ``up`` takes its own share, after
it checked that it may start at all; ``test`` gets a throwaway server, and no setting of yours leaks into it.
"""

from __future__ import annotations

import argparse
import os
import sys
import urllib.parse
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

import psycopg
from django.core.management import execute_from_command_line
from django.db import DatabaseError

from memoryapp import environment
from memoryapp.embedded import places
from memoryapp.embedded.hold import Hold, throwaway
from memoryapp.embedded.places import Cluster, ServerError

_WITHOUT_DATABASE = {
    *("up", "help", "version", "--help", "-h", "--version", "check", "diffsettings", "collectstatic", "findstatic"),
    *("makemessages", "compilemessages", "startapp", "startproject"),
}
_SETTINGS = {
    *("DATABASE_URL", "REDIS_URL", "SECRET_KEY", "ALLOWED_HOSTS", "DATA_DIR", "DEBUG", "SECURE_COOKIES", "LOG_LEVEL"),
    *("CSRF_TRUSTED_ORIGINS", "MAX_CHUNK_SIZE", "MAX_MERGED_SIZE_CHARS", "ENABLE_AGENT", "TOOL_TIMEOUT_S", "RRF_K"),
    *("CLIENT_ADDRESS_HEADER", "METRICS_TOKEN", "SOCKETS_PER_SESSION"),
}
_FAMILIES = (
    *("CELERY_", "DJANGO_", "LLM_", "EMBEDDING_", "RERANK_", "RERANKER_", "SPLITTER_", "MERGER_", "ARCHIVIST_"),
    *("ENRICHER_", "CHUNK_", "SPLIT_", "CONSOLIDATION_", "AGENT_", "MMR_", "LOGIN_"),
)


def main(argv: Sequence[str]) -> None:
    """Runs one command. A wrong setting or a database that can't serve is one sentence and exit 1."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "memoryapp.settings")
    command = argv[1] if len(argv) > 1 else "help"
    try:
        _take_data_dir(command, argv[2:])
        with _database(command):
            execute_from_command_line(list(argv))
    except (environment.SettingError, ServerError) as error:
        sys.exit(str(error))
    except (DatabaseError, psycopg.Error) as error:
        sentence = _said_by_database(error)
        if not sentence:
            raise
        sys.exit(sentence)
    except KeyboardInterrupt:
        sys.exit(130)


def _take_data_dir(command: str, arguments: Sequence[str]) -> None:
    """``up --data-dir`` counts before the settings are read."""
    if command == "up":
        parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
        parser.add_argument("--data-dir", default="")
        given = parser.parse_known_args(arguments)[0].data_dir
        if given:
            os.environ["DATA_DIR"] = os.path.abspath(os.path.expanduser(given))


def _database(command: str) -> AbstractContextManager[object]:
    if command == "test":
        return _tests_own()
    if command in _WITHOUT_DATABASE or environment.text("DATABASE_URL"):
        return nullcontext()
    return Hold(places.cluster(places.data_dir()))


def _said_by_database(error: Exception) -> str:
    """A sentence when the database is away or empty; nothing when the fault is ours."""
    cause = error.__cause__ if isinstance(error, DatabaseError) else error
    if isinstance(cause, psycopg.errors.UndefinedTable):
        return "The database has no tables yet: run `python3 manage.py migrate` or `python3 manage.py up` first."
    if not isinstance(cause, psycopg.OperationalError) or not _no_connection(cause):
        return ""
    reason = str(cause).strip().partition("\n")[0].rstrip(".:")
    given = environment.text("DATABASE_URL")
    advice = "Is DATABASE_URL right, and its server up?" if given else "`python3 manage.py up` starts it."
    return f"The database cannot be reached: {reason}. {advice}"


def _no_connection(error: psycopg.OperationalError) -> bool:
    """Whether there is no connection, or none any more: others of this class tell of one statement."""
    return error.sqlstate is None or error.sqlstate.startswith(("08", "28", "3D", "57P"))


@contextmanager
def _tests_own() -> Iterator[None]:
    """The tests' server and folder in the environment, for the steps of ``test`` and what they start."""
    for name in [name for name in os.environ if name in _SETTINGS or name.startswith(_FAMILIES)]:
        del os.environ[name]
    with throwaway() as folder:
        address = urllib.parse.urlencode({"host": Cluster(folder / "postgres").socket}, quote_via=urllib.parse.quote)
        os.environ["DATABASE_URL"] = f"postgresql://{places.ROLE}@/{places.DATABASE}?{address}"
        os.environ["DATA_DIR"] = str(folder / "data")
        os.environ["MNEMOSCOPE_THROWAWAY"] = "1"
        os.environ["DJANGO_SETTINGS_MODULE"] = "memoryapp.settings"
        yield
