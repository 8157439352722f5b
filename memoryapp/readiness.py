"""Whether this process can do its part: record runs, and ask the models it is told to ask.

It is asked through the connections that runs use, for others of the same database may work while those do not. A
provider that cannot be reached is named and takes no process out of service: it would take all of them.
"""

from __future__ import annotations

import asyncio

import psycopg
from django.db import DatabaseError

from memoryapp.runner import Runner

SECONDS = 2.0
# So many calls in a row without any answer are no accident.
FAILURES = 5
# Changes nothing, and is refused where nothing can be changed.
_WRITE = "UPDATE memoryapp_run SET heartbeat_at = heartbeat_at WHERE false"


def recording(runner: Runner) -> str:
    """``ok``, or why no run could be recorded now; from another thread than the runs'."""
    if runner.loop is None:
        return "ok"
    asked = asyncio.run_coroutine_threadsafe(_write(runner), runner.loop)
    try:
        asked.result(SECONDS * 2)
    except TimeoutError:
        asked.cancel()
        return "the event loop is busy or the database does not answer"
    except (psycopg.Error, DatabaseError) as error:
        return f"nothing can be written ({type(error).__name__})"
    return "ok"


async def _write(runner: Runner) -> None:
    async with asyncio.timeout(SECONDS), (await runner.clients()).pool.connection(SECONDS) as connection:
        await connection.execute(_WRITE)


def provider(runner: Runner) -> str:
    """``ok``, or how many calls in a row the models of this process left without an answer."""
    failed = runner.unanswered
    return f"no answer to the last {failed} calls" if failed >= FAILURES else "ok"
