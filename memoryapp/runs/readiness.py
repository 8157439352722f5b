"""Checks whether this process can record runs and reach its models.

Recording is tested with the connections that runs use, because other connections to the same database may work while
these do not. A provider that cannot be reached is reported, but the process stays in service: otherwise all processes
would be taken out of service at once.
"""

from __future__ import annotations

import asyncio

import psycopg
from django.db import DatabaseError

from memoryapp.runs.runner import Runner

SECONDS = 2.0
# Fewer failures in a row may be chance.
FAILURES = 5
# Changes no row, and fails when the database accepts no writes.
_WRITE = "UPDATE memoryapp_run SET heartbeat_at = heartbeat_at WHERE false"


def recording(runner: Runner) -> str:
    """``ok``, or the reason why no run can be recorded. Call it from another thread than that of the runs."""
    if runner.loop is None:
        return "ok"
    written = asyncio.run_coroutine_threadsafe(_write(runner), runner.loop)
    try:
        written.result(SECONDS * 2)
    except TimeoutError:
        written.cancel()
        return "the event loop is busy or the database does not answer"
    except (psycopg.Error, DatabaseError) as error:
        return f"nothing can be written ({type(error).__name__})"
    return "ok"


async def _write(runner: Runner) -> None:
    async with asyncio.timeout(SECONDS), (await runner.clients()).pool.connection(SECONDS) as connection:
        await connection.execute(_WRITE)


def provider(runner: Runner) -> str:
    """``ok``, or how many calls in a row got no answer from the providers."""
    failed = runner.unanswered
    return f"no answer to the last {failed} calls" if failed >= FAILURES else "ok"
