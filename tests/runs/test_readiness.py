"""A process reports whether it can record runs and reach its provider, over the connections that runs use."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import httpx
import pytest

from memoryapp.engine.chat.attempt import send
from memoryapp.runs import runner as readiness
from memoryapp.runs.runner import Runner

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("thread_closed")]


@pytest.fixture
async def runner() -> AsyncIterator[Runner]:
    made = Runner()
    made.bind()
    await made.clients()
    yield made
    await made.close()


async def recording(runner: Runner) -> str:
    return await asyncio.to_thread(readiness.recording, runner)


async def test_a_process_that_executes_no_runs_yet_is_ready() -> None:
    assert (readiness.recording(Runner()), readiness.provider(Runner())) == ("ok", "ok")


async def test_a_process_whose_own_connections_are_gone_says_so_and_is_ready_again_with_them(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readiness, "SECONDS", 0.2)
    pool = (await runner.clients()).pool
    assert await recording(runner) == "ok"
    async with AsyncExitStack() as stack:
        for _ in range(pool.max_size):
            await stack.enter_async_context(pool.connection())
        assert await recording(runner) != "ok"
    assert await recording(runner) == "ok"
    await pool.close()
    assert await recording(runner) == "nothing can be written (PoolClosed)"


async def test_a_database_that_accepts_no_writes_is_reported(runner: Runner) -> None:
    pool = (await runner.clients()).pool
    async with AsyncExitStack() as stack:
        for connection in [await stack.enter_async_context(pool.connection()) for _ in range(pool.max_size)]:
            await connection.execute("SET default_transaction_read_only = on")
    assert await recording(runner) == "nothing can be written (ReadOnlySqlTransaction)"


async def test_a_provider_out_of_reach_is_named_until_it_answers(runner: Runner) -> None:
    http = (await runner.clients()).http
    assert http
    for _ in range(readiness.FAILURES):
        assert readiness.provider(runner) == "ok"
        with pytest.raises(httpx.ConnectError):
            await send(http, http.build_request("GET", "http://127.0.0.1:9/"))
    assert readiness.provider(runner) == "no answer to the last 5 calls"
    server = await asyncio.start_server(_answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    await (await send(http, http.build_request("GET", f"http://127.0.0.1:{port}/"))).aclose()
    assert readiness.provider(runner) == "ok"
    server.close()


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    writer.close()
