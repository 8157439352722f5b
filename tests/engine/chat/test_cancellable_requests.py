"""Requests cancelled at any moment, against a real server: the next request works and no connection is left open."""

import asyncio
import itertools
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Any

import httpx
import pytest

from memoryapp.engine.budget import Budget
from memoryapp.engine.chat.attempt import AttemptEnd, attempt, send
from memoryapp.engine.chat.protocol import Reply
from memoryapp.platform.llm.clients import LIMITS, http_client
from tests.support.clock import PATIENCE

# More turns of the event loop than a request takes on a connection that has to be opened first.
TURNS = 40
BODY = b'{"choices": [{"finish_reason": "stop", "message": {"role": "assistant", "content": "ok"}}]}'
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


class Server:
    """Answers each request in pieces once ``gate`` is open; ``open`` are its open connections."""

    def __init__(self) -> None:
        self.open: set[asyncio.StreamWriter] = set()
        self.opened = self.asked = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.pieces: list[bytes] = [HEAD, b"%x\r\n%b\r\n" % (len(BODY), BODY), b"0\r\n\r\n"]
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.opened += 1
        self.open.add(writer)
        with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            while True:
                await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(2)
                self.asked += 1
                await self.gate.wait()
                for piece in self.pieces:
                    writer.write(piece)
                    await asyncio.sleep(0)
        self.open.discard(writer)
        writer.close()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    made = Server()
    listening = await asyncio.start_server(made.serve, "127.0.0.1", 0, backlog=1000)
    made.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/"
    yield made
    listening.close()


@pytest.fixture(scope="module")
def trusted() -> ssl.SSLContext:
    """Certificates, which take longer to load than everything else here."""
    return httpx.create_ssl_context()


async def ask(http: httpx.AsyncClient, url: str, seconds: float = 20.0) -> str:
    """Returns the answer of the model behind the server."""
    async with aclosing(attempt(http, url, httpx.Headers(), {}, Budget(seconds))) as steps:
        outcomes = [step.outcome async for step in steps if isinstance(step, AttemptEnd)]
    assert isinstance(outcomes[-1], Reply)
    return outcomes[-1].text


async def cancelled(work: Awaitable[Any], after: int, again: int | None) -> bool:
    """Cancels the work after some turns of the event loop, and once more after ``again``; returns whether it was still
    running."""
    task = asyncio.ensure_future(work)
    for _ in range(after):
        await asyncio.sleep(0)
    if task.done():
        return False
    task.cancel()
    if again is not None:
        for _ in range(again):
            await asyncio.sleep(0)
        task.cancel()
    await asyncio.wait([task])
    return True


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        for _ in itertools.count():
            if holds():
                return
            await asyncio.sleep(0)


async def settled(http: httpx.AsyncClient, server: Server) -> None:
    """Returns once the client has only idle connections, and the server no others."""
    pool = http._transport._pool  # type: ignore[attr-defined]

    def is_settled() -> bool:
        left = [each for each in pool.connections if not each.is_closed()]
        return not pool._requests and all(each.is_idle() for each in left) and len(server.open) == len(left)

    await until(is_settled)


@pytest.mark.slow
@pytest.mark.parametrize("kept", [False, True], ids=["a new connection", "a kept connection"])
async def test_at_whatever_moment_a_request_is_cancelled_nothing_is_left_and_the_next_one_works(
    server: Server, trusted: ssl.SSLContext, kept: bool
) -> None:
    moments = 0
    for after in range(TURNS):
        for again in (None, 0, 1, 2, 3):
            async with httpx.AsyncClient(verify=trusted, limits=LIMITS) as http:
                if kept:
                    await ask(http, server.url)
                moments += await cancelled(ask(http, server.url), after, again)
                await settled(http, server)
                assert await ask(http, server.url, seconds=PATIENCE) == "ok"
                await settled(http, server)
    assert moments > TURNS


@pytest.mark.slow
async def test_after_waves_of_timeouts_lone_requests_work_at_once(server: Server) -> None:
    async def late(http: httpx.AsyncClient, seconds: float) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(seconds):
                await ask(http, server.url, seconds)

    async with http_client() as http:
        for _ in range(5):
            server.gate.clear()
            await asyncio.gather(*(late(http, 0.05 + 0.0005 * place) for place in range(80)))
            server.gate.set()
        await settled(http, server)
        for _ in range(20):
            assert await ask(http, server.url, seconds=PATIENCE) == "ok"
        await settled(http, server)
        assert len(server.open) == 1


async def test_one_after_another_they_keep_one_connection(server: Server) -> None:
    async with http_client() as http:
        for _ in range(9):
            assert await ask(http, server.url) == "ok"
    assert server.opened == 1


async def test_a_crowd_is_under_way_at_once_and_leaves_its_connections_to_those_who_follow(server: Server) -> None:
    server.gate.clear()
    async with http_client() as http:
        asking = [asyncio.create_task(ask(http, server.url)) for _ in range(24)]
        await until(lambda: server.asked == len(asking))
        server.gate.set()
        assert set(await asyncio.gather(*asking)) == {"ok"}
        assert await ask(http, server.url) == "ok"
    assert server.opened == len(asking)


async def test_a_body_is_read_no_faster_than_it_is_taken(server: Server) -> None:
    part = b"x" * 60_000
    server.pieces = [HEAD, *[b"%x\r\n%b\r\n" % (len(part), part)] * 200, b"0\r\n\r\n"]
    async with http_client() as http:
        async with aclosing(await send(http, http.build_request("POST", server.url, content=b"{}"))) as response:
            assert await anext(response.aiter_raw())
            (writer,) = server.open
            for _ in range(100):
                await asyncio.sleep(0)
            assert writer.transport.get_write_buffer_size() > 1_000_000
        await settled(http, server)
    assert not server.open


async def test_what_breaks_a_body_is_raised_where_it_is_read(server: Server) -> None:
    server.pieces = [HEAD, b"5\r\nhello\r\n", b"nonsense\r\n"]
    async with http_client() as http:
        async with aclosing(await send(http, http.build_request("POST", server.url, content=b"{}"))) as response:
            with pytest.raises(httpx.RemoteProtocolError):
                await response.aread()
        with pytest.raises(httpx.ConnectError):
            await send(http, http.build_request("GET", "http://127.0.0.1:9/"))
        await settled(http, server)
