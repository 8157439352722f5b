"""A socket that is opened while the database is unreachable."""

from __future__ import annotations

from typing import Any

import pytest
from channels.testing import WebsocketCommunicator
from django.db import OperationalError

from memoryapp.platform.database import database_outage
from rerankui.web.refusals import RefusedWithoutDatabase
from tests.support.clock import PATIENCE


async def out_of_reach(_scope: Any, _receive: Any, _send: Any) -> None:
    raise OperationalError("connection failed: no such file\nIs the server running?")


async def lost(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "websocket.accept"})
    await out_of_reach(scope, receive, send)


async def test_it_is_refused_with_one_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    for _connecting in range(2):
        socket = WebsocketCommunicator(RefusedWithoutDatabase(out_of_reach), "/ws/")
        assert (await socket.connect(timeout=PATIENCE))[0] is False
    sentence = "The database cannot be reached: connection failed: no such file. "
    assert [record.getMessage().partition("Requests")[0] for record in caplog.records] == [sentence]
    database_outage.end()


async def test_one_that_was_accepted_is_not_refused() -> None:
    socket = WebsocketCommunicator(RefusedWithoutDatabase(lost), "/ws/")
    assert (await socket.connect(timeout=PATIENCE))[0] is True
    with pytest.raises(OperationalError):
        await socket.wait(timeout=PATIENCE)
