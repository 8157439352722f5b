"""Requests of an httpx client over connections of aiohttp, against a real server."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator
from contextlib import suppress

import httpx
import pytest

from memoryapp.engine.connections import Connections

PLACES = 8
CROWD = 3 * PLACES


class Server:
    """Answers once ``gate`` is open; ``asked`` is set when somebody waits for it, ``crowded`` when a crowd does."""

    def __init__(self) -> None:
        self.connections = self.requests = 0
        self.gate, self.asked, self.crowded = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.address = ""
        self.open = 0
        self.closed = asyncio.Condition()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open += 1
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                await self._answer(reader, writer)
        writer.close()
        async with self.closed:
            self.open -= 1
            self.closed.notify_all()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        self.requests += 1
        self.asked.set()
        if self.requests >= CROWD:
            self.crowded.set()
        await self.gate.wait()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    made = Server()
    listening = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.address = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/"
    yield made
    listening.close()
    async with asyncio.timeout(10), made.closed:
        await made.closed.wait_for(lambda: not made.open)


async def test_one_after_another_they_keep_one_connection(server: Server) -> None:
    server.gate.set()
    async with httpx.AsyncClient(transport=Connections()) as http:
        for _ in range(PLACES + 1):
            assert (await http.get(server.address)).text == "ok"
    assert server.connections == 1


async def test_a_crowd_is_under_way_at_once_and_leaves_its_connections_to_those_who_follow(server: Server) -> None:
    async with httpx.AsyncClient(transport=Connections()) as http:
        asking = [asyncio.create_task(http.get(server.address)) for _ in range(CROWD)]
        await server.crowded.wait()
        server.gate.set()
        assert {(await answer).text for answer in asking} == {"ok"}
        assert server.connections == CROWD
        assert (await http.get(server.address)).text == "ok"
    assert server.connections == CROWD


async def test_more_than_there_are_places_wait_for_their_turn(server: Server) -> None:
    server.gate.set()
    async with httpx.AsyncClient(transport=Connections(most=PLACES)) as http:
        answers = await asyncio.gather(*(http.get(server.address) for _ in range(CROWD)))
    assert {answer.text for answer in answers} == {"ok"}
    assert server.connections <= PLACES


async def test_an_endpoint_out_of_reach_is_said_as_ever_and_costs_no_place(server: Server) -> None:
    server.gate.set()
    async with httpx.AsyncClient(transport=Connections(most=PLACES)) as http:
        for _ in range(PLACES):
            with pytest.raises(httpx.ConnectError):
                await http.get("http://127.0.0.1:9/")
        assert (await http.get(server.address)).text == "ok"


async def test_each_endpoint_keeps_its_own_connection(server: Server) -> None:
    server.gate.set()
    other = server.address.replace("127.0.0.1", "localhost")
    async with httpx.AsyncClient(transport=Connections()) as http:
        for _ in range(3):
            assert (await http.get(server.address)).text == "ok"
            assert (await http.get(other)).text == "ok"
    assert server.connections == 2


async def test_who_finds_all_places_taken_is_told_so_in_time(server: Server) -> None:
    async with httpx.AsyncClient(transport=Connections(most=1)) as http:
        first = asyncio.create_task(http.get(server.address))
        await server.asked.wait()
        with pytest.raises(httpx.ConnectTimeout):
            await http.get(server.address, timeout=httpx.Timeout(5, pool=0.05))
        server.gate.set()
        assert (await first).text == "ok"
        assert (await http.get(server.address)).text == "ok"


async def hanging_up(said: bytes) -> tuple[asyncio.Server, str]:
    """A server that hears a request, says those bytes and hangs up; and its address."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(said)
        writer.close()

    listening = await asyncio.start_server(answer, "127.0.0.1", 0)
    return listening, f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/"


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhalf\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 200_000 + b"\r\n\r\n",
    ],
    ids=["nothing", "half a body", "half a stream", "no chunk", "another protocol", "endless header"],
)
async def test_an_answer_that_breaks_off_is_a_protocol_error_that_says_something(said: bytes) -> None:
    listening, address = await hanging_up(said)
    async with listening, httpx.AsyncClient(transport=Connections()) as http:
        with pytest.raises(httpx.RemoteProtocolError, match=r"\w"):
            await http.get(address)


async def test_a_packed_body_is_unpacked_once(server: Server) -> None:
    packed = gzip.compress("спасибо".encode())
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed)
    listening, address = await hanging_up(head + packed)
    async with listening, httpx.AsyncClient(transport=Connections()) as http:
        assert (await http.get(address)).content.decode() == "спасибо"


async def test_silence_ends_when_reading_was_to_end(server: Server) -> None:
    async with httpx.AsyncClient(transport=Connections()) as http:
        with pytest.raises(httpx.ReadTimeout):
            await http.get(server.address, timeout=httpx.Timeout(5, read=0.05))
        server.gate.set()
        assert (await http.get(server.address)).text == "ok"


async def test_a_body_left_unread_takes_its_connection_along(server: Server) -> None:
    server.gate.set()
    listening, address = await hanging_up(b"HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\n" + b"x" * 4_000)
    async with listening, httpx.AsyncClient(transport=Connections(most=1)) as http:
        async with http.stream("GET", address) as answer:
            assert answer.status_code == 200
        assert (await http.get(server.address)).text == "ok"


async def test_an_address_of_no_web_server_is_refused_as_such() -> None:
    async with httpx.AsyncClient(transport=Connections()) as http:
        with pytest.raises(httpx.UnsupportedProtocol):
            await http.get("ftp://127.0.0.1/")


async def test_a_large_body_arrives_whole_and_headers_are_only_those_asked_for() -> None:
    heard = asyncio.get_running_loop().create_future()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        heard.set_result((head, await reader.readexactly(3_000_000)))
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        writer.close()

    listening = await asyncio.start_server(answer, "127.0.0.1", 0)
    address = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/"
    picture = bytes(range(250)) * 12_000
    async with listening, httpx.AsyncClient(transport=Connections()) as http:
        assert (await http.post(address, content=picture, headers={"X-Title": "ours"})).status_code == 204
    head, body = await heard
    assert body == picture
    lines = head.split("\r\n")[1:-2]
    names = sorted(line.partition(":")[0] for line in lines)
    assert names == ["accept", "accept-encoding", "connection", "content-length", "host", "user-agent", "x-title"]
    assert any("python-httpx" in line for line in lines)
