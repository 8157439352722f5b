"""Whether this process can record runs and reach its models.

Recording is tested through the connections that runs use, because others to the same database may work while those do
not. A provider that cannot be reached is reported and takes no process out of service: it would take all of them.
"""

from __future__ import annotations

import asyncio

import psycopg
from django.db import DatabaseError

from memoryapp.runs.runner import Runner

SECONDS = 2.0
# Fewer calls in a row without an answer may be chance.
FAILURES = 5
# Changes no row, and fails where nothing can be written.
_WRITE = "UPDATE memoryapp_run SET heartbeat_at = heartbeat_at WHERE false"


def recording(runner: Runner) -> str:
    """``ok``, or why no run could be recorded now. Call it from a thread other than that of the runs."""
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
    """``ok``, or how many calls in a row got no answer from the models of this process."""
    failed = runner.unanswered
    return f"no answer to the last {failed} calls" if failed >= FAILURES else "ok"
