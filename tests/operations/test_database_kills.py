"""Backends of the database are killed while runs are recorded: all acknowledged events are stored, without gaps."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import psycopg
import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.db import Error, connection, connections
from psycopg_pool import AsyncConnectionPool

from memoryapp.intake.invariants import violations
from memoryapp.models import ChatUser, Run, RunEvent
from memoryapp.platform.database import conninfo
from memoryapp.runs import endings, lifecycle
from memoryapp.runs.clients import Clients, open_clients
from memoryapp.runs.journal import EventsLost, Journal, JournalEntry
from tests.support.clock import PATIENCE
from tests.support.executing import QUERY, memory_of_three
from tests.support.hesitating import Hesitant

AT_ONCE = 8

pytestmark = [pytest.mark.django_db(transaction=True)]


class Witness(Journal):
    """Remembers what was acknowledged: the run and the number of each event; ``heard`` is set at each."""

    def __init__(self, pool: AsyncConnectionPool) -> None:
        super().__init__(pool)
        self.acknowledged: set[tuple[UUID, int]] = set()
        self.heard = asyncio.Event()

    async def write(self, entry: JournalEntry) -> int | None:
        owner = await super().write(entry)
        if owner is not None:
            self.acknowledged |= {(entry.run_id, entry.first + place) for place in range(len(entry.events))}
            self.heard.set()
        return owner


@pytest.fixture
def memory(transactional_db: None) -> Iterator[ChatUser]:
    """A memory in a database that waits for its disk, as every database does except that of the tests."""
    name = connection.ops.quote_name(connection.settings_dict["NAME"])
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER DATABASE {name} SET synchronous_commit = on")
    yield async_to_sync(memory_of_three)()
    connections.close_all()
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER DATABASE {name} RESET synchronous_commit")


@pytest.mark.parametrize("kills", [30, pytest.param(500, marks=pytest.mark.thorough)])
def test_killed_backends_lose_nothing_that_was_acknowledged(memory: ChatUser, kills: int) -> None:
    waiting = [lifecycle.start(memory, QUERY).pk for _ in range(kills * AT_ONCE)]
    connections.close_all()
    acknowledged = asyncio.run(_run_and_kill(iter(waiting), kills))
    assert len(acknowledged) >= kills
    endings.close_abandoned(timedelta(0))
    begun_again = set(Run.objects.filter(attempt__gt=0).values_list("pk", flat=True))
    kept = {(run, seq) for run, seq in acknowledged if run not in begun_again}
    assert kept <= set(RunEvent.objects.values_list("run_id", "seq"))
    assert not Run.objects.filter(state=Run.State.RUNNING).exists()
    # On a slow machine some runs stay unclaimed, for longer than on a site in use.
    Run.objects.filter(state=Run.State.PENDING).delete()
    assert list(violations()) == []


async def _run_and_kill(waiting: Iterator[UUID], kills: int) -> set[tuple[UUID, int]]:
    over = asyncio.Event()
    async with open_clients() as opened:
        await sync_to_async(connections.close_all)()
        journal = Witness(opened.pool)
        clients = replace(opened, chat=Hesitant(), enricher=None, journal=journal)
        working = [asyncio.create_task(_work(waiting, clients, over)) for _ in range(AT_ONCE)]
        chance = random.Random(11)
        for _ in range(kills):
            journal.heard.clear()
            async with asyncio.timeout(PATIENCE):
                await journal.heard.wait()
            await asyncio.sleep(chance.random() * 0.2)  # this moment is what the test is about
            await kill_a_backend(chance)
        over.set()
        await asyncio.gather(*working)
    return journal.acknowledged


async def _work(waiting: Iterator[UUID], clients: Clients, over: asyncio.Event) -> None:
    while not over.is_set():
        for run in waiting:
            # A run that could not be claimed, read or closed is left to the sweep.
            with suppress(psycopg.Error, Error, EventsLost):
                await lifecycle.execute(run, clients)
            break
        else:
            return


async def kill_a_backend(chance: random.Random) -> None:
    """Kills a backend; the database then drops all connections and recovers, and this waits for that."""
    admin = await _connected()
    # Until the server has noticed it, it accepts connections, which it would drop too.
    with pytest.raises(psycopg.OperationalError):
        await _kill_until_dropped(admin, chance)
    await admin.close()
    await (await _connected()).close()


async def _kill_until_dropped(admin: psycopg.AsyncConnection, chance: random.Random) -> None:
    """Kills until the connection is dropped, because killing a backend that had just ended has no effect. Raises
    OperationalError."""
    async with asyncio.timeout(PATIENCE):
        while True:
            await _kill_another(admin, chance)
            await admin.execute("SELECT pg_sleep(1)")


async def _kill_another(admin: psycopg.AsyncConnection, chance: random.Random) -> None:
    asked = """SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend'
               AND datname = current_database() AND pid <> pg_backend_pid()"""
    others = [pid for (pid,) in await (await admin.execute(asked)).fetchall()]
    with suppress(IndexError, ProcessLookupError):
        os.kill(chance.choice(others), signal.SIGKILL)


async def _connected() -> psycopg.AsyncConnection:
    """Returns a connection as soon as the database accepts one again."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                made = await psycopg.AsyncConnection.connect(conninfo(), autocommit=True)
                await made.execute("SELECT 1")
            except psycopg.OperationalError:
                await asyncio.sleep(0.05)  # no event announces the end of a recovery
            else:
                return made
