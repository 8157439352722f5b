"""The embedded channel layer: notices of other processes arrive again after a restart of the database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from copy import deepcopy
from typing import Any

import psycopg
import pytest
from channels_postgres import core, db
from django.db import connection

from memoryapp.platform import channel_layer
from memoryapp.platform.channel_layer import PersistentChannelLayer
from memoryapp.platform.database import conninfo
from tests.support.clock import PATIENCE

LISTENERS = "SELECT pid FROM pg_stat_activity WHERE query LIKE 'LISTEN%%' AND datname = current_database()"

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("thread_closed")]


@pytest.fixture
async def layer(transactional_db: None) -> AsyncIterator[PersistentChannelLayer]:
    made = PersistentChannelLayer(**deepcopy(connection.settings_dict))
    yield made
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        if "listen_to_all_channels" in repr(task):
            task.cancel()
    if db.connection_pool is not None:
        await db.connection_pool.close()
        db.connection_pool = None
    core.ASYNCIO_EVENT_CHANNEL_MAPPING.clear()


async def listener(other: psycopg.AsyncConnection[Any], but: int = 0) -> int:
    """Returns the server process through which a layer listens, once there is one other than ``but``."""
    async with asyncio.timeout(PATIENCE):
        while True:
            rows = await (await other.execute(LISTENERS)).fetchall()
            if others := [pid for (pid,) in rows if pid != but]:
                return int(others[0])


async def test_notices_come_after_the_connection_they_came_through_was_lost(
    layer: PersistentChannelLayer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel_layer, "PAUSE", 0.01)
    channel = await layer.new_channel()
    async with await psycopg.AsyncConnection.connect(conninfo(), autocommit=True) as other:
        waiting = asyncio.create_task(layer.receive(channel))
        first = await listener(other)
        await other.execute("SELECT pg_terminate_backend(%s)", [first])
        await listener(other, but=first)
        await layer.send(channel, {"type": "run.more"})
        assert await asyncio.wait_for(waiting, PATIENCE) == {"type": "run.more"}


async def test_those_who_wait_before_there_is_a_listener_share_one(layer: PersistentChannelLayer) -> None:
    channels = [await layer.new_channel() for _ in range(5)]
    async with await psycopg.AsyncConnection.connect(conninfo(), autocommit=True) as other:
        waiting = [asyncio.create_task(layer.receive(channel)) for channel in channels]
        await listener(other)
        for channel in channels:
            await layer.send(channel, {"type": "run.more"})
        await asyncio.wait_for(asyncio.gather(*waiting), PATIENCE)
        assert len(await (await other.execute(LISTENERS)).fetchall()) == 1
