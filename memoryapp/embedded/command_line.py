"""Django's command line with its database up: the first code that runs inside `.venv`.

Without ``DATABASE_URL`` a command shares the embedded server for as long as it runs; one of your own is waited for
while it starts again. ``up`` takes its own share, after it checked that it may start at all; ``test`` gets a throwaway
server, and no setting of yours leaks into it.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import urllib.parse
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

import django
import psycopg
from django.core.management import ManagementUtility, find_commands, load_command_class
from django.db import DatabaseError
from psycopg.conninfo import make_conninfo

from memoryapp import environment, outages
from memoryapp.embedded import places
from memoryapp.embedded.hold import Hold, throwaway
from memoryapp.embedded.places import CHECKOUT, Cluster, ServerError

_OURS = sorted(find_commands(str(CHECKOUT / "memoryapp" / "management")))

_WITHOUT_DATABASE = {
    *("up", "help", "version", "--help", "-h", "--version", "check", "diffsettings", "collectstatic", "findstatic"),
    *("makemessages", "compilemessages", "startapp", "startproject"),
}
_SETTINGS = {
    *("DATABASE_URL", "REDIS_URL", "SECRET_KEY", "ALLOWED_HOSTS", "DATA_DIR", "DEBUG", "SECURE_COOKIES", "LOG_LEVEL"),
    *("CSRF_TRUSTED_ORIGINS", "MAX_CHUNK_SIZE", "MAX_MERGED_SIZE_CHARS", "ENABLE_AGENT", "TOOL_TIMEOUT_S", "RRF_K"),
    *("WEB_CONCURRENCY", "HANG_TIMEOUT", "DATABASE_WAIT"),
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
            _check(command, argv)
            execute_from_command_line(list(argv))
    except (environment.SettingError, ServerError) as error:
        sys.exit(environment.without_passwords(str(error)))
    except (DatabaseError, psycopg.Error) as error:
        sentence = _said_by_database(error)
        if not sentence:
            raise
        sys.exit(environment.without_passwords(sentence))
    except KeyboardInterrupt:
        sys.exit(130)


def execute_from_command_line(argv: Sequence[str]) -> None:
    """As Django does it, but for the list of commands."""
    _CommandLine(list(argv)).execute()


class _CommandLine(ManagementUtility):
    def main_help_text(self, commands_only: bool = False) -> str:
        """This program's own commands first, with what they do."""
        others = super().main_help_text(commands_only)
        if commands_only:
            return others
        width = max(map(len, _OURS))
        told = [f"    {name:{width}}  {load_command_class('memoryapp', name).help}" for name in _OURS]
        return "\n".join(("Mnemoscope's commands:", "", *told, "", "All of them, Django's too:", others))


def _check(command: str, argv: Sequence[str]) -> None:
    """Ends the process with a sentence where the database is not one for this program's commands."""
    if command not in _OURS or command in _WITHOUT_DATABASE or command == "test" or {"-h", "--help"} & {*argv}:
        return
    django.setup()
    from memoryapp import startup  # noqa: PLC0415 it asks for the settings, which are read only now

    try:
        startup.check_tables()
        startup.check_pooling()
    except startup.UnusableDatabase as refusal:
        sys.exit(str(refusal))


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
    given = environment.text("DATABASE_URL")
    if given and (command == "up" or command not in _WITHOUT_DATABASE):
        _await_server(given, environment.seconds("DATABASE_WAIT", "30s", most=3600))
    if given or command in _WITHOUT_DATABASE:
        return nullcontext()
    return Hold(places.cluster(places.data_dir()))


def _await_server(url: str, seconds: float) -> None:
    """Returns when the server takes connections, or after so long: what is wrong then is said by who connects."""
    deadline = time.monotonic() + seconds
    waits = False
    while not _takes_connections(url) and time.monotonic() < deadline:
        if not waits:
            waits = True
            print(f"The database does not answer; waiting up to {seconds:g} s for it ...", file=sys.stderr, flush=True)
        time.sleep(min(0.25, max(deadline - time.monotonic(), 0)))


def _takes_connections(url: str) -> bool:
    """Whether it does; True as well of an address that is none, for the settings tell what is wrong with it."""
    try:
        address = make_conninfo(url, connect_timeout=5)
    except psycopg.ProgrammingError:
        return True
    return psycopg.pq.PGconn.ping(address.encode()) in (psycopg.pq.Ping.OK, psycopg.pq.Ping.NO_ATTEMPT)


def _said_by_database(error: Exception) -> str:
    """A sentence when the database is away, empty or closed to our role; nothing when the fault is ours."""
    cause = error.__cause__ if isinstance(error, DatabaseError) else error
    if isinstance(cause, psycopg.errors.UndefinedTable):
        return "The database has no tables yet: run `python3 manage.py migrate` or `python3 manage.py up` first."
    if isinstance(cause, psycopg.errors.InsufficientPrivilege):
        return _said_of_rights(outages.reason(cause))
    if isinstance(cause, psycopg.errors.FeatureNotSupported | psycopg.errors.UndefinedFile) and "vector" in str(cause):
        return "The database's server has no pgvector: install version 0.8 or newer there."
    if not outages.is_outage(error):
        return ""
    given = environment.text("DATABASE_URL")
    advice = "Is DATABASE_URL right, and its server up?" if given else "`python3 manage.py up` starts it."
    return f"The database cannot be reached: {outages.reason(error)}. {advice}"


def _said_of_rights(reason: str) -> str:
    if "extension" in reason:
        return (
            f"The database's role may not do what is needed: {reason}. "
            "Have an administrator run `CREATE EXTENSION vector` in this database, and start again."
        )
    return f"The database's role may not do what is needed: {reason}. Make it the owner of its database and tables."


@contextmanager
def _tests_own() -> Iterator[None]:
    """The tests' server and folder in the environment, for the steps of ``test`` and what they start."""
    for name in [name for name in os.environ if name in _SETTINGS or name.startswith(_FAMILIES)]:
        del os.environ[name]
    with throwaway() as folder:
        server = Cluster(folder / "postgres")
        where = {"host": server.socket, "passfile": server.passfile}
        address = urllib.parse.urlencode(where, quote_via=urllib.parse.quote)
        os.environ["DATABASE_URL"] = f"postgresql://{places.ROLE}@/{places.DATABASE}?{address}"
        os.environ["DATA_DIR"] = str(folder / "data")
        os.environ["MNEMOSCOPE_THROWAWAY"] = "1"
        os.environ["DJANGO_SETTINGS_MODULE"] = "memoryapp.settings"
        yield
