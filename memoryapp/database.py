"""Connections for code that runs in an event loop.

The ORM gives a thread one connection, and a hundred reranks in one loop would queue behind it
(measured: 50 at once 2.0 s against 0.6 s through a pool). So runs read and write through this pool
with plain SQL, and never hold a connection while a model is thinking.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import connection
from psycopg.conninfo import make_conninfo
from psycopg_pool import AsyncConnectionPool

MOST_CONNECTIONS = 10

Given = ParamSpec("Given")
Result = TypeVar("Result")


def conninfo() -> str:
    """The address of the default database, as libpq reads it."""
    database = settings.DATABASES["default"]
    named = {"dbname": "NAME", "user": "USER", "password": "PASSWORD", "host": "HOST", "port": "PORT"}
    parts = {key: database[setting] for key, setting in named.items() if database.get(setting)}
    return make_conninfo(**parts, **database.get("OPTIONS", {}))


def pool() -> AsyncConnectionPool:
    """A pool that is not open yet; use it as an async context manager."""
    return AsyncConnectionPool(
        conninfo(),
        min_size=1,
        max_size=MOST_CONNECTIONS,
        open=False,
        kwargs={"autocommit": True},
        # After the server was restarted a run goes on with a new connection.
        check=AsyncConnectionPool.check_connection,
    )


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
