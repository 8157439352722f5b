"""Connections for code that runs in an event loop.

The ORM gives each thread one connection, for which a hundred reranks in one loop would queue (measured: 50 at once
2.0 s, against 0.6 s through a pool). So runs read and write through this pool with plain SQL, and hold no connection
while they wait for a model.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar
from uuid import UUID

import psycopg
from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import connection
from pgvector.psycopg.halfvec import register_halfvec_info
from psycopg.conninfo import make_conninfo
from psycopg.pq import PipelineStatus
from psycopg.types import TypeInfo
from psycopg_pool import AsyncConnectionPool

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
    """Returns a pool that is not open yet; use it as an async context manager.

    If ``is_single``, it opens one connection at most, and only when it is needed.
    """
    most = 1 if is_single else max(LEAST_CONNECTIONS, MOST_CONNECTIONS // settings.WEB_CONCURRENCY)
    return AsyncConnectionPool(
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
    """Returns the rows of each statement, all in one round trip and one transaction; no rows for None.

    Sent one after another, the statements of a search take a tenth longer beside the server, and more over a network.
    """
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
