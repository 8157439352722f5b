"""Follows a run: reads the events stored so far, and then those to come, whichever process records them.

The rows are the truth: a follower reads those after the last number it has. Runs of this process wake their followers
directly, runs of other processes through the channel layer; without a notice a follower looks again after a second. So
a notice may be lost or doubled, and a follower that was disconnected continues from its last number."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from psycopg.rows import class_row
from psycopg_pool import AsyncConnectionPool

from memoryapp.engine.beside import table_beside
from memoryapp.engine.events import Event, RunFinished, from_payload
from memoryapp.engine.outline import to_wire
from memoryapp.models import RunEvent
from memoryapp.runs.notices import is_set_within
from memoryapp.runs.runner import Runner

LOOK_AGAIN = 1.0
KEEP_ALIVE = 10.0
AT_A_TIME = 100
_SQL = table_beside(__file__)
AFTER: str = _SQL["after"]
STILL: str = _SQL["still"]


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """A stored event: ``seq`` counts from 1, ``at`` is when it was recorded."""

    seq: int
    at: datetime
    event: Event


def stored(run_id: UUID) -> list[StoredEvent]:
    rows = RunEvent.objects.filter(run_id=run_id).order_by("seq")
    return [
        StoredEvent(row.seq, row.at, from_payload(row.kind, row.payload))
        for row in rows.only("seq", "at", "kind", "payload")
    ]


@dataclass(frozen=True, slots=True)
class EventText:
    """An event as programs receive it; ``stored`` is the JSON text of its row."""

    seq: int
    kind: str
    at: datetime
    stored: str

    @property
    def payload(self) -> str:
        """The event as one line of JSON text."""
        return to_wire(self.kind, self.stored)


async def texts(pool: AsyncConnectionPool, run_id: UUID, after: int = 0) -> AsyncGenerator[EventText, None]:
    """The events recorded so far with a number above ``after``; at most a hundred are in memory at a time."""
    while True:
        async with pool.connection() as connection:
            cursor = connection.cursor(row_factory=class_row(EventText))
            found = await (await cursor.execute(AFTER, [run_id, after, AT_A_TIME])).fetchall()
        for text in found:
            yield text
        if len(found) < AT_A_TIME:
            return
        after = found[-1].seq


async def follow(
    runner: Runner, run_id: UUID, after: int = 0, *, token: int | None = None
) -> AsyncGenerator[EventText | None, None]:
    """Each event with a number above ``after``, up to the last one; None whenever no event came for ten seconds. It
    also ends when the token with the id ``token`` is revoked."""
    pool = (await runner.clients()).pool
    quiet = 0.0
    async with aclosing(looks(runner, run_id)) as each_look:
        async for is_noticed in each_look:
            quiet += 0.0 if is_noticed else LOOK_AGAIN
            async with aclosing(texts(pool, run_id, after)) as recorded:
                async for text in recorded:
                    yield text
                    after, quiet = text.seq, 0.0
                    if text.kind == RunFinished.kind:
                        return
            if not is_noticed and await _is_over(pool, run_id, token, after):
                return
            if quiet >= KEEP_ALIVE:
                quiet = 0.0
                yield None


async def looks(runner: Runner, run_id: UUID) -> AsyncGenerator[bool, None]:
    """Yields whenever the run may have new events: True at first and after each notice, False after a second without
    one. Notices that arrive while the caller is reading count as one."""
    async with _notices(runner, run_id) as more:
        is_noticed = True
        while True:
            more.clear()
            yield is_noticed
            is_noticed = await is_set_within(more, LOOK_AGAIN)


@asynccontextmanager
async def _notices(runner: Runner, run_id: UUID) -> AsyncIterator[asyncio.Event]:
    """An event that is set whenever the run may have new events."""
    with runner.listening(run_id) as more:
        if runner.executes(run_id):
            yield more
            return
        async with runner.elsewhere.following(run_id, more):
            yield more


async def _is_over(pool: AsyncConnectionPool, run_id: UUID, token: int | None, after: int) -> bool:
    """Whether nothing more is to come: the run was erased, the token was revoked, or the last event was sent."""
    async with pool.connection() as connection:
        return await (await connection.execute(STILL, [run_id, token, after])).fetchone() is None
