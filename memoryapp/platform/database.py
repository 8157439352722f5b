"""Connections for code that runs in an event loop.

The ORM gives each thread one connection, for which a hundred reranks in one loop would queue (measured: 50 at once
2.0 s, against 0.6 s through a pool). So runs read and write through this pool with plain SQL, and hold no connection
while they wait for a model.
"""

import asyncio
import logging
import re
import select
import threading
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar
from uuid import UUID

import psycopg
from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.management.commands import migrate
from django.db import DatabaseError, connection, transaction
from django.db.backends.signals import connection_created
from django.db.migrations import Migration
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.state import ProjectState
from django.db.models import Q
from django.utils import timezone
from pgvector.psycopg.halfvec import register_halfvec_info
from psycopg.conninfo import make_conninfo
from psycopg.pq import PipelineStatus
from psycopg.types import TypeInfo
from psycopg_pool import AsyncConnectionPool

from memoryapp.engine.cells import cell, within
from memoryapp.platform import environment
from memoryapp.platform.environment import PROGRAM
from memoryapp.platform.sights import SeeingPool, schema
from memoryapp.platform.statements import fetched

# The web processes share these connections: more than a small server has cores would only wait for each other there.
# Measured in two processes on two cores, 50 reranks at once, median of many loads: two connections each 1.4 times the
# floor, three 1.5.
MOST_CONNECTIONS = 4
LEAST_CONNECTIONS = 2
# The pool tries to connect for these seconds, with pauses that double; then it begins again with short ones.
RECONNECTING = 4.0

Given = ParamSpec("Given")
Result = TypeVar("Result")
Meaning = TypeVar("Meaning")
SqlStatement = tuple[str, Mapping[str, Any]]


class Unprepared(NamedTuple):
    """A statement that is planned for its values each time, because the best plan depends on them."""

    sql: str
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SqlRead(Generic[Meaning]):
    """A statement, and what its rows mean. Without a ``statement`` nothing is sent, and there are no rows."""

    statement: SqlStatement | Unprepared | None
    meaning: Callable[[list[Any]], Meaning]


class SqlAnswer(Generic[Meaning]):
    """What the database answered, as the statement's reader understands it: ``value`` is there after the trip."""

    value: Meaning


class RoundTrip:
    """Statements that are sent in one round trip and one transaction, in the order in which they were asked."""

    def __init__(self) -> None:
        self._asked: list[tuple[SqlRead[Any], SqlAnswer[Any]]] = []

    def ask(self, read: SqlRead[Meaning]) -> SqlAnswer[Meaning]:
        """Adds the statement."""
        answer = SqlAnswer[Meaning]()
        self._asked.append((read, answer))
        return answer

    async def make(self, connection: psycopg.AsyncConnection[Any]) -> None:
        """Sends all statements, and reads their rows into the answers."""
        found = await round_trip(connection, *(read.statement for read, _answer in self._asked))
        for (read, answer), rows in zip(self._asked, found, strict=True):
            answer.value = read.meaning(rows)


def conninfo() -> str:
    """Returns the address of the default database, in the format of libpq."""
    database = settings.DATABASES["default"]
    named = {"dbname": "NAME", "user": "USER", "password": "PASSWORD", "host": "HOST", "port": "PORT"}
    parts = {key: database[setting] for key, setting in named.items() if database.get(setting)}
    return make_conninfo(**parts, **database.get("OPTIONS", {}))


def pool(*, is_single: bool = False) -> AsyncConnectionPool:
    """Returns a pool that is not open yet; use it as an async context manager. If ``is_single``, it opens one
    connection at most, and only when it is needed."""
    most = 1 if is_single else max(LEAST_CONNECTIONS, MOST_CONNECTIONS // settings.WEB_CONCURRENCY)
    return SeeingPool(
        conninfo(),
        min_size=0 if is_single else 1,
        max_size=most,
        open=False,
        kwargs={"autocommit": True},
        check=_check,
        configure=_prepare,
        reset=_refuse_unfinished,
        reconnect_timeout=RECONNECTING,
        reconnect_failed=_begin_anew,
    )


async def _begin_anew(pool: AsyncConnectionPool) -> None:
    """Tries to connect again at once: if the pauses went on doubling, an outage would seem twice as long as it is."""
    await pool.check()


async def _prepare(connection: psycopg.AsyncConnection[Any]) -> None:
    """Has vectors sent as bytes: writing and reading one as text takes longer than a thousand comparisons."""
    halfvec = await TypeInfo.fetch(connection, "halfvec")
    assert halfvec
    register_halfvec_info(connection, halfvec)


async def _check(connection: psycopg.AsyncConnection[Any]) -> None:
    """Replaces a connection that the server has ended, so that a run continues after a restart of the server.

    The server sends a message when it ends a connection, and nothing else on an idle one. So the connection is checked
    only when there is something to read; a check each time would take longer than storing an event.
    """
    listening = select.poll()
    listening.register(connection.fileno(), select.POLLIN)
    if listening.poll(0):
        await AsyncConnectionPool.check_connection(connection)


async def _refuse_unfinished(connection: psycopg.AsyncConnection[Any]) -> None:
    """Raises OperationalError when a cancelled user left a pipeline open; the pool then replaces the connection.

    With this callback the pool takes connections back in a task of its own, so that no cancellation can lose one.
    The pool itself ends transactions and statements that are still open.
    """
    if connection.info.pipeline_status != PipelineStatus.OFF:
        raise psycopg.OperationalError("the connection was given back with an open pipeline")


async def in_thread(function: Callable[Given, Result], *args: Given.args, **kwargs: Given.kwargs) -> Result:
    """Runs code that uses the ORM in a thread of its own, and closes its connection afterwards.

    The wrapper of Channels closes connections in another context than that in which they were opened, so each call
    would leave one open (asgiref 3.13 with Channels 4.3).
    """

    def closing() -> Result:
        try:
            return function(*args, **kwargs)
        finally:
            connection.close()

    return await sync_to_async(closing, thread_sensitive=False)()


async def round_trip(connection: psycopg.AsyncConnection[Any], *asked: SqlStatement | None) -> list[list[Any]]:
    """Returns the rows of each statement, all in one round trip and one transaction; no rows for None. Sent one after
    another, the statements of a search take a tenth longer beside the server, and more over a network."""
    if not any(asked):
        return [[] for _ in asked]
    # In text format, columns of bytes arrive as hexadecimal digits, twice as long.
    cursors = [connection.cursor(binary=True) if each else None for each in asked]
    async with pipeline(connection):
        for cursor, each in zip(cursors, asked, strict=True):
            if cursor and each:
                await cursor.execute(*each, prepare=False if isinstance(each, Unprepared) else None)
    return [await cursor.fetchall() if cursor else [] for cursor in cursors]


@asynccontextmanager
async def pipeline(connection: psycopg.AsyncConnection[Any]) -> AsyncIterator[None]:
    """Opens a pipeline on the connection, and closes the connection when the pipeline is interrupted.

    After an interrupted pipeline, psycopg 3.3 believes that statements are prepared which the server never received, so
    the next user of the connection would fail. The end of such a pipeline may also raise an OperationalError instead of
    the cancellation, which no timeout would recognise as its own; so the cancellation is raised again. If a busy loop
    cancels it twice, psycopg would read results from the closed connection when its generator is collected, and
    complain on stderr; so the results are removed.
    """
    opened: psycopg.AsyncPipeline | None = None
    try:
        async with connection.pipeline() as opened:
            yield
    except BaseException as error:
        await connection.close()
        if opened:
            opened.result_queue.clear()
        if isinstance(error.__context__, asyncio.CancelledError):
            raise error.__context__ from None
        raise


def array(listed: Iterable[int | UUID]) -> str:
    """Returns the list as PostgreSQL reads an array; faster than psycopg, which looks at each item three times."""
    return "{" + ",".join(map(str, listed)) + "}"


# Advisory locks of PostgreSQL, with which processes agree which of them does a piece of work.
#
# A lock is named by a word and a number and belongs to a connection. PostgreSQL releases it when the connection is
# lost, so a killed worker blocks no other process.

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
    """Takes the lock if it is free now or within ``wait``; returns False if another connection still holds it. While it
    waits, ``meanwhile`` is called about ten times a second."""
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


# Faults in requests and sweeps.
#
# An outage is logged as one line a minute for a process, instead of a traceback each time. Another fault, of whatever
# kind, concerns one row, and keeps no other from getting its turn.

INTERVAL = 60.0
# After each fault of a row, in seconds.
RESTS = (60.0, 600.0, 3600.0)

Row = TypeVar("Row")

logger = logging.getLogger(__name__)


class StagePaused(Exception):
    """This kind of work was paused while the worker did it; what is done stays, the rest waits."""


class OutageLog:
    """Logs an outage once for all threads of a process. Work that cannot be done meanwhile remains in the rows."""

    def __init__(self, interval: float = INTERVAL) -> None:
        self._interval = interval
        self._lock = threading.Lock()
        self._since = self._logged = 0.0
        # When a cell was last out of reach; nothing announces that it is back.
        self._of_cell = float("-inf")

    def report(self, error: BaseException) -> None:
        is_of_cell = is_outage_of_cell(error)
        with self._lock:
            now = time.monotonic()
            if is_of_cell:
                self._of_cell = now
            if not self._since and not is_of_cell:
                self._since = now
            elif now - self._logged < self._interval:
                return
            self._logged = now
        what = "A cell" if is_of_cell else "The database"
        sentence = "%s cannot be reached: %s. Requests are refused and work waits until it is back."
        logger.warning(sentence, what, reason(error))

    @property
    def is_going_on(self) -> bool:
        return bool(self._since) or time.monotonic() - self._of_cell < self._interval

    def end(self, **_named: Any) -> None:
        with self._lock:
            since, self._since = self._since, 0.0
        if since:
            logger.warning("The database is back after %.0f s.", time.monotonic() - since)


database_outage = OutageLog()
# A task that needs no database would end it too early.
connection_created.connect(database_outage.end)


def is_outage(error: BaseException) -> bool:
    """Whether the connection failed or was lost; other errors of the same classes concern only one statement."""
    cause = error.__cause__ if isinstance(error, DatabaseError) else error
    if isinstance(cause, psycopg.InterfaceError):
        return "connection" in str(cause)
    if isinstance(cause, psycopg.errors.InternalError_):
        return _LOST_BY_CITUS.search(str(cause)) is not None
    if not isinstance(cause, psycopg.OperationalError):
        return False
    return cause.sqlstate is None or cause.sqlstate.startswith(("08", "28", "3D", "57P"))


# Of a machine that ends while a transaction is committed there.
_LOST_BY_CITUS = re.compile("server closed the connection|could not commit transaction for shard|failure on connection")


def is_outage_of_cell(error: BaseException) -> bool:
    """Whether an outage concerns the machine of one cell: the server that was asked says so, and answers."""
    cause = error.__cause__ if isinstance(error, DatabaseError) else error
    return is_outage(error) and getattr(cause, "sqlstate", None) in ("08006", "XX000")


def is_gone(error: BaseException) -> bool:
    """Whether a row was not written because what it belongs to was deleted meanwhile, which is no fault."""
    cause = error.__cause__ if isinstance(error, DatabaseError) else error
    return isinstance(cause, psycopg.errors.ForeignKeyViolation)


@contextmanager
def log_and_continue(
    message: str, number: object, keep: Callable[[Exception], object] = lambda error: None
) -> Iterator[None]:
    """Logs a fault in the block, with the sentence and what it names, and goes on; ``keep`` writes it into a row, so
    that people see it and the next attempt waits. An outage of the database and a pause are raised."""
    try:
        yield
    except StagePaused:
        raise
    except Exception as error:
        if is_outage(error):
            raise
        if is_gone(error):
            return
        log_fault(message, number)
        keep(error)


class Rests:
    """Rows with a fault whose table has no place for it: each rests in this process, longer after each fault."""

    def __init__(self) -> None:
        self._faults: dict[object, tuple[int, float]] = {}

    def holds(self, key: object) -> bool:
        return time.monotonic() < self._faults.get(key, (0, 0.0))[1]

    def begin(self, key: object, _error: Exception | None = None) -> None:
        faults, _until = self._faults.get(key, (0, 0.0))
        self._faults[key] = faults + 1, time.monotonic() + RESTS[min(faults, len(RESTS) - 1)]

    def end(self, key: object) -> None:
        self._faults.pop(key, None)

    def end_all(self) -> None:
        self._faults.clear()


rests = Rests()


def each_alone(rows: Iterable[Row], message: str, act: Callable[[Row], object]) -> None:
    """Does this for each of the rows, or their numbers, which do not rest; a fault is its row's own."""
    for row in rows:
        number = getattr(row, "pk", row)
        if not rests.holds((message, number)):
            with log_and_continue(message, number, partial(rests.begin, (message, number))):
                act(row)
                rests.end((message, number))


def log_fault(message: str, number: object) -> None:
    """Logs the exception that is being handled, and closes a connection that it left unusable."""
    logger.exception(message, number)
    if not connection.is_usable():
        connection.close()


def reason(error: BaseException) -> str:
    """Returns the first line of the message, without its final punctuation."""
    return str(error).strip().partition("\n")[0].rstrip(".:")


# Waits and leases that end at a time in a row.
#
# If that time is much further ahead than such a wait lasts, it was written while a clock was ahead. The wait then
# counts as over, because otherwise it would last until the clock reaches that time again.


def waits(until: datetime | None, longest: timedelta) -> bool:
    """Whether a wait of at most ``longest`` goes on; None means no wait. Clocks may differ by up to ``longest``."""
    now = timezone.now()
    return until is not None and now < until <= now + 2 * longest


def waiting(column: str, longest: timedelta) -> Q:
    """Returns the condition that a row's wait, which ends at the time in ``column``, goes on."""
    now = timezone.now()
    return Q(**{f"{column}__gt": now, f"{column}__lte": now + 2 * longest})


def lease_holds(column: str, lease: timedelta) -> Q:
    """Returns the condition that a row's lease, last renewed at the time in ``column``, still holds."""
    now = timezone.now()
    return Q(**{f"{column}__gte": now - lease, f"{column}__lte": now + lease})


def enough_after(seconds: float) -> Callable[[], bool]:
    """Returns a function that returns True when so many seconds have passed."""
    end = time.monotonic() + seconds
    return lambda: time.monotonic() >= end


# A migration is made and recorded in one transaction, so that a killed process leaves both or neither.
#
# Django records one with deferred statements, such as those of foreign keys, after its transaction. A process that is
# killed in between leaves tables that the next start makes again, and fails.


class WholeExecutor(MigrationExecutor):
    def apply_migration(
        self, state: ProjectState, migration: Migration, fake: bool = False, fake_initial: bool = False
    ) -> ProjectState:
        with within(cell() or 0), transaction.atomic(self.connection.alias) if migration.atomic else nullcontext():
            return super().apply_migration(state, migration, fake, fake_initial)


def use() -> None:
    """Has the command ``migrate`` of this process do so."""
    migrate.MigrationExecutor = WholeExecutor  # type: ignore[attr-defined]


# Checks the database before a process uses it; each refusal is a sentence for the person who starts the process.

_NEWEST = "The database was last used by a newer version of this program, which made {name}: start that version again."
_BEFORE = "The database was last used by a version before 0.17.1: upgrade through 0.17.1 first, then start this one."
_OLDER = f"The database's tables are those of an earlier version: run `{PROGRAM} migrate` or `{PROGRAM} up` first."
_FEWER = (
    "Memories lie in cells up to number {last}, and CELLS is {cells}: set it to {last} or more, or move them first with"
    " move_memory."
)
_POOLED = (
    "The database is behind a pooler that gives each transaction another connection, which locks and notices of this "
    "program do not survive: set PgBouncer's pool_mode to session, or connect to PostgreSQL itself."
)
_TRIES = 3


class UnusableDatabase(Exception):
    """The database can be reached but must not be used; the text is a sentence for people."""


def refusal() -> str:
    """Why a web process, the worker or beat may not start; empty if it may, and during an outage: they wait."""
    try:
        check_pooling()
        check_version()
        _check_cells()
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
    _check_cells()


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


def _check_cells() -> None:
    """Raises UnusableDatabase where memories lie in cells that the settings do not know, and where the tables of a cell
    are missing or not those of this version."""
    there = {name for (name,) in fetched(r"SELECT nspname FROM pg_namespace WHERE nspname ~ '^memoryapp_cell_\d+$'")}
    wanted = {schema(number) for number in range(1, settings.CELLS + 1)} if settings.CELLS > 1 else set()
    last = fetched("SELECT max(cell) FROM memoryapp_chatuser")[0][0] if there else None
    if last and schema(last) not in wanted:
        raise UnusableDatabase(_FEWER.format(last=last, cells=settings.CELLS))
    applied = "SELECT count(*) FROM {}.django_migrations WHERE app = 'memoryapp'"
    if wanted - there or any(fetched(applied.format(name)) != fetched(applied.format("public")) for name in wanted):
        raise UnusableDatabase(_OLDER)


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
    """Returns the pid of the server process; None when a pooler allows no transactions at all. PgBouncer has one code
    for this and for a server that it cannot reach, which is an outage."""
    try:
        row = connection.execute("SELECT pg_backend_pid()").fetchone()
    except psycopg.errors.ProtocolViolation as error:
        if "pooling mode" not in str(error):
            raise
        return None
    return int(row[0]) if row else None
