"""Connections for code that runs in an event loop.

The ORM gives a thread one connection, and a hundred reranks in one loop would queue behind it
(measured: 50 at once 2.0 s against 0.6 s through a pool). So runs read and write through this pool
with plain SQL, and never hold a connection while a model is thinking.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, ParamSpec, TypeVar
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

# The web processes share these, for more at once than a small server has cores only take turns there. Measured in two
# processes on two cores, 50 reranks at once, half of many loads: two connections each 1.4 times the floor, three 1.5.
MOST_CONNECTIONS = 4
LEAST_CONNECTIONS = 2
# Seconds of attempts to connect, with pauses that double, before they begin anew.
RECONNECTING = 4.0

Given = ParamSpec("Given")
Result = TypeVar("Result")
SqlStatement = tuple[str, Mapping[str, Any]]


class Unprepared(NamedTuple):
    """A statement that is planned for its values each time, for they decide how its rows are best read."""

    sql: str
    values: Mapping[str, Any]


def conninfo() -> str:
    """The address of the default database, as libpq reads it."""
    database = settings.DATABASES["default"]
    named = {"dbname": "NAME", "user": "USER", "password": "PASSWORD", "host": "HOST", "port": "PORT"}
    parts = {key: database[setting] for key, setting in named.items() if database.get(setting)}
    return make_conninfo(**parts, **database.get("OPTIONS", {}))


def pool(*, is_single: bool = False) -> AsyncConnectionPool:
    """A pool that is not open yet; use it as an async context manager.

    One that ``is_single`` has a single connection, and none until it is asked for it.
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
    """Try to connect again at once: with pauses that went on doubling it would be away twice as long as its server."""
    await pool.check()


async def _prepare(connection: psycopg.AsyncConnection[Any]) -> None:
    """Vectors travel as bytes: to write and to read one as text takes longer than a thousand comparisons."""
    halfvec = await TypeInfo.fetch(connection, "halfvec")
    assert halfvec
    register_halfvec_info(connection, halfvec)


async def _check(connection: psycopg.AsyncConnection[Any]) -> None:
    """After the server was restarted a run goes on with a new connection.

    A server that ends a connection says so on it, and sends nothing else on an idle one; so the server is asked
    only when there is something to read. Asking each time takes longer than storing an event.
    """
    listening = select.poll()
    listening.register(connection.fileno(), select.POLLIN)
    if listening.poll(0):
        await AsyncConnectionPool.check_connection(connection)


async def _refuse_unfinished(connection: psycopg.AsyncConnection[Any]) -> None:
    """Raise where a cancelled user left a pipeline open; the pool then closes the connection and opens another.

    With this callback the pool takes connections back in a task of its own, so that no cancellation can lose one.
    Transactions and statements that are still open the pool looks after by itself.
    """
    if connection.info.pipeline_status != PipelineStatus.OFF:
        raise psycopg.OperationalError("the connection was given back with an open pipeline")


async def in_thread(function: Callable[Given, Result], *args: Given.args, **kwargs: Given.kwargs) -> Result:
    """Run code that uses the ORM in a thread of its own, and end its connection with it.

    The wrapper that Channels brings closes connections in another context than the one they were opened in,
    so that each call would leave one behind (asgiref 3.13 with Channels 4.3).
    """

    def closing() -> Result:
        try:
            return function(*args, **kwargs)
        finally:
            connection.close()

    return await sync_to_async(closing, thread_sensitive=False)()


async def together(connection: psycopg.AsyncConnection[Any], *asked: SqlStatement | None) -> list[list[Any]]:
    """The rows of each statement with its values, all in one round trip and one transaction; None has no rows.

    Sent one after another, the statements of a search take a tenth longer beside the server, and more across a network.
    """
    if not any(asked):
        return [[] for _ in asked]
    # As text, columns of bytes would come as hexadecimal digits, twice as long.
    cursors = [connection.cursor(binary=True) if each else None for each in asked]
    async with pipeline(connection):
        for cursor, each in zip(cursors, asked, strict=True):
            if cursor and each:
                await cursor.execute(*each, prepare=False if isinstance(each, Unprepared) else None)
    return [await cursor.fetchall() if cursor else [] for cursor in cursors]


@asynccontextmanager
async def pipeline(connection: psycopg.AsyncConnection[Any]) -> AsyncIterator[None]:
    """A pipeline on the connection, which is closed where the pipeline does not come to its end.

    After a pipeline was cut off, psycopg 3.3 takes statements for prepared that the server never saw, and whoever gets
    the connection next would fail. The end of such a pipeline may also raise an OperationalError in place of the
    cancellation, which no timeout would recognise as its own; so the cancellation is raised again. Where a busy loop
    cancels it twice, psycopg would read results from the closed connection once its generator is collected, and
    complain on stderr; so no results are left to be read.
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
    """A list as the database reads it: psycopg looks at each item three times before it writes it."""
    return "{" + ",".join(map(str, listed)) + "}"
