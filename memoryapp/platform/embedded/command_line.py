"""Django's command line with a running database: the first code that runs inside `.venv`.

Without ``DATABASE_URL`` a command holds a lease on the embedded server while it runs; with it, a command waits until
that server accepts connections. ``up`` takes its lease itself, after it has checked that it may start. ``test`` gets a
throwaway server and none of the settings in the environment."""

import argparse
import os
import sys
import time
import urllib.parse
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import django
import psycopg
from django.core.management import BaseCommand, ManagementUtility, find_commands, load_command_class
from django.db import DatabaseError
from psycopg.conninfo import make_conninfo

from memoryapp.platform import database, environment
from memoryapp.platform.embedded import paths
from memoryapp.platform.embedded.lease import Lease, throwaway
from memoryapp.platform.embedded.paths import CHECKOUT, Cluster, ServerError
from memoryapp.platform.environment import IS_INSTALLED, PROGRAM

# By their names the packages of this program's commands, and of those that only a checkout has.
_OURS = {
    name: package
    for package in ("memoryapp", "tools.bench")
    for name in find_commands(str(CHECKOUT.joinpath(*package.split("."), "management")))
}

_WITHOUT_DATABASE = {
    *("up", "help", "version", "--help", "-h", "--version", "check", "diffsettings", "collectstatic", "findstatic"),
    *("makemessages", "compilemessages", "startapp", "startproject"),
}
# A backup is made of the tables as they are, and restored where there are none.
_WITH_ANY_TABLES = {"test", "backup", "restore"}
_WITH_DATA_DIR = ("up", "backup", "restore")
# The settings that `test` clears, by name and by prefix.
_SETTINGS = {
    *("DATABASE_URL", "REDIS_URL", "SECRET_KEY", "ALLOWED_HOSTS", "DATA_DIR", "DEBUG", "SECURE_COOKIES"),
    *("DATABASE_URL_FILE", "REDIS_URL_FILE", "SECRET_KEY_FILE"),
    *("CSRF_TRUSTED_ORIGINS", "MAX_CHUNK_SIZE", "TOPIC_LEAST_MESSAGES", "MAX_MERGED_SIZE_CHARS", "PUBLIC_URL"),
    *("WEB_CONCURRENCY", "CELLS", "HANG_TIMEOUT", "DRAIN_SECONDS", "DATABASE_WAIT"),
    *("CLIENT_ADDRESS_HEADER", "SOCKETS_PER_SESSION", "PROPOSAL_TIMEOUT", "MEDIA_MAX_BYTES"),
    *("IMPORT_MAX_BYTES", "IMPORT_KEEP", "DISK_RESERVE_BYTES", "FACT_SIMILARITY_THRESHOLD", "UPGRADE_BACKUP"),
    *("ENABLE_AGENT", "SEARCH_CACHE_TTL", "TOOL_TIMEOUT_S", "RRF_K", "MMR_LAMBDA", "MMR_OUTPUT_K"),
    *("PASSWORD_LOGIN", "SECOND_FACTOR", "REQUIRE_SECOND_FACTOR", "MCP_OAUTH", "INVITATION_KEEP", "DEMO_READ_ONLY"),
    *("GUARD", "GUARD_OUT", "BACKUP_DIR", "DAILY_CAP_USD"),
}
_FAMILIES = (
    *("CELERY_", "DJANGO_", "LLM_", "ARCHIVIST_", "EMBEDDING_", "RERANK_", "RERANKER_", "SPLITTER_", "MERGER_"),
    *("VERIFIER_", "ENRICHER_", "CHUNK_", "SPLIT_", "CONSOLIDATION_", "LOGIN_", "API_", "METRICS_", "LOG_", "AGENT_"),
    *("CHAT_", "WEBHOOK_", "EMAIL_", "AUDIT_", "OIDC_", "ALARM_", "QUOTA_"),
)


def main(argv: Sequence[str]) -> None:
    """Runs one command. For a wrong setting or an unusable database it prints one sentence and exits with code 1."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "memoryapp.settings")
    command = argv[1] if len(argv) > 1 else "help"
    if command == "test" and IS_INSTALLED:
        sys.exit("The tests are in a checkout of the program, not in its package.")
    try:
        # Before the settings are read.
        if command in _WITH_DATA_DIR:
            parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
            parser.add_argument("--data-dir", default="")
            folder = parser.parse_known_args(argv[2:])[0].data_dir
            if folder:
                os.environ["DATA_DIR"] = os.path.abspath(os.path.expanduser(folder))
        with _database(command):
            _check(command, argv)
            execute_from_command_line(list(argv))
        sys.stdout.flush()
    except (environment.SettingError, ServerError, database.StagePaused) as error:
        sys.exit(environment.without_passwords(str(error)))
    except (DatabaseError, psycopg.Error) as error:
        sentence = _database_sentence(error)
        if not sentence:
            raise
        sys.exit(environment.without_passwords(sentence))
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # The reader, such as `head`, has closed the output; without this, Python would write the rest at its exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)


def execute_from_command_line(argv: Sequence[str]) -> None:
    """Works like Django's function of this name, except for the list of commands and the checks before one."""
    _CommandLine(list(argv)).execute()


class _CommandLine(ManagementUtility):
    def fetch_command(self, subcommand: str) -> BaseCommand:
        """Returns a command of this program without Django's checks: they examine the code, and import every page for
        it, which takes as long as the start of the command itself."""
        command = super().fetch_command(subcommand)
        if subcommand in ("migrate", "up"):
            database.use()
        if subcommand in _OURS:
            command.requires_system_checks = []
        return command

    def main_help_text(self, commands_only: bool = False) -> str:
        """Returns this program's own commands first, each with its help text."""
        others = super().main_help_text(commands_only)
        if commands_only:
            return others
        width = max(map(len, _OURS))
        lines = [f"    {name:{width}}  {load_command_class(_OURS[name], name).help}" for name in sorted(_OURS)]
        return "\n".join(("Mnemoscope's commands:", "", *lines, "", "All commands, Django's included:", others))


def _check(command: str, argv: Sequence[str]) -> None:
    """Ends the process with a sentence if this program's commands cannot work on the database."""
    if command not in {*_OURS, "migrate"} - _WITHOUT_DATABASE - _WITH_ANY_TABLES or {"-h", "--help"} & {*argv}:
        return
    django.setup()
    try:
        if command == "migrate":
            database.check_version()
        else:
            database.check_tables()
            database.check_pooling()
    except database.UnusableDatabase as refusal:
        sys.exit(str(refusal))


def _database(command: str) -> AbstractContextManager[object]:
    if command == "test":
        return _throwaway_database()
    url = environment.text("DATABASE_URL")
    if url and (command == "up" or command not in _WITHOUT_DATABASE):
        _await_server(url, environment.seconds("DATABASE_WAIT", "30s", most=3600))
    if url or command in _WITHOUT_DATABASE:
        return nullcontext()
    return Lease(paths.cluster(paths.open_data_dir(paths.data_dir())))


def _await_server(url: str, seconds: float) -> None:
    """Waits until the server accepts connections, at most ``seconds``; a later connection raises the reason."""
    deadline = time.monotonic() + seconds
    has_reported = False
    while not _takes_connections(url) and time.monotonic() < deadline:
        if not has_reported:
            has_reported = True
            print(f"The database does not answer; waiting up to {seconds:g} s for it ...", file=sys.stderr, flush=True)
        time.sleep(min(0.25, max(deadline - time.monotonic(), 0)))


def _takes_connections(url: str) -> bool:
    """Whether the server accepts connections; also True for a malformed address, which the settings refuse."""
    try:
        address = make_conninfo(url, connect_timeout=5)
    except psycopg.ProgrammingError:
        return True
    return psycopg.pq.PGconn.ping(address.encode()) in (psycopg.pq.Ping.OK, psycopg.pq.Ping.NO_ATTEMPT)


def _database_sentence(error: Exception) -> str:
    """Returns a sentence if the database is unreachable, has no tables or refuses our role; empty for other errors."""
    cause = error.__cause__ if isinstance(error, DatabaseError) else error
    if isinstance(cause, psycopg.errors.UndefinedTable):
        return f"The database has no tables yet: run `{PROGRAM} migrate` or `{PROGRAM} up` first."
    if isinstance(cause, psycopg.errors.InsufficientPrivilege):
        refused = f"The database's role may not do what is needed: {database.reason(cause)}."
        if "extension" in refused:
            return f"{refused} Have an administrator run `CREATE EXTENSION vector` in this database, and start again."
        return f"{refused} Make it the owner of its database and tables."
    if isinstance(cause, psycopg.errors.FeatureNotSupported | psycopg.errors.UndefinedFile) and "vector" in str(cause):
        return "The database's server has no pgvector: install version 0.8 or newer there."
    if not database.is_outage(error):
        return ""
    is_own = bool(environment.text("DATABASE_URL"))
    advice = "Is DATABASE_URL right, and its server up?" if is_own else f"`{PROGRAM} up` starts it."
    return f"The database cannot be reached: {database.reason(error)}. {advice}"


@contextmanager
def _throwaway_database() -> Iterator[None]:
    """Sets the throwaway server and data folder in the environment, for ``test`` and the processes it starts."""
    for name in [name for name in os.environ if name in _SETTINGS or name.startswith(_FAMILIES)]:
        del os.environ[name]
    with throwaway() as folder:
        os.environ.update(throwaway_environment(folder))
        os.environ["DJANGO_SETTINGS_MODULE"] = "memoryapp.settings"
        yield


def throwaway_environment(folder: Path) -> dict[str, str]:
    """Returns the environment of a process that tests on the server which ``throwaway`` made in this folder."""
    server = Cluster(folder / "postgres")
    where = {"host": server.socket, "passfile": server.passfile}
    address = urllib.parse.urlencode(where, quote_via=urllib.parse.quote)
    return {
        "DATABASE_URL": f"postgresql://{paths.ROLE}@/{paths.DATABASE}?{address}",
        "DATA_DIR": str(folder / "data"),
        "MNEMOSCOPE_THROWAWAY": "1",
    }
