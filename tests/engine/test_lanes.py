"""Requests dealt out to connections of their own, against a real server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import httpx
import pytest

from memoryapp.engine.lanes import Lanes

PLACES = 8
CROWD = 3 * PLACES


class Server:
    """Answers once ``gate`` is open; ``asked`` is set when somebody waits for it, ``crowded`` when a crowd does."""

    def __init__(self) -> None:
        self.connections = self.requests = 0
        self.gate, self.asked, self.crowded = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.address = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                await self._answer(reader, writer)
        writer.close()

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


async def test_one_after_another_they_keep_one_connection(server: Server) -> None:
    server.gate.set()
    async with httpx.AsyncClient(transport=Lanes()) as http:
        for _ in range(PLACES + 1):
            assert (await http.get(server.address)).text == "ok"
    assert server.connections == 1


async def test_a_crowd_is_under_way_at_once_and_leaves_its_connections_to_those_who_follow(server: Server) -> None:
    async with httpx.AsyncClient(transport=Lanes()) as http:
        asking = [asyncio.create_task(http.get(server.address)) for _ in range(CROWD)]
        await server.crowded.wait()
        server.gate.set()
        assert {(await answer).text for answer in asking} == {"ok"}
        assert server.connections == CROWD
        assert (await http.get(server.address)).text == "ok"
    assert server.connections == CROWD


async def test_more_than_there_are_places_wait_for_their_turn(server: Server) -> None:
    server.gate.set()
    async with httpx.AsyncClient(transport=Lanes(most=PLACES)) as http:
        answers = await asyncio.gather(*(http.get(server.address) for _ in range(CROWD)))
    assert {answer.text for answer in answers} == {"ok"}
    assert server.connections <= PLACES


async def test_an_endpoint_out_of_reach_is_said_as_ever_and_costs_no_place(server: Server) -> None:
    server.gate.set()
    async with httpx.AsyncClient(transport=Lanes(most=PLACES)) as http:
        for _ in range(PLACES):
            with pytest.raises(httpx.ConnectError):
                await http.get("http://127.0.0.1:9/")
        assert (await http.get(server.address)).text == "ok"


async def test_each_endpoint_keeps_its_own_connection(server: Server) -> None:
    server.gate.set()
    other = server.address.replace("127.0.0.1", "localhost")
    async with httpx.AsyncClient(transport=Lanes()) as http:
        for _ in range(3):
            assert (await http.get(server.address)).text == "ok"
            assert (await http.get(other)).text == "ok"
    assert server.connections == 2


async def test_who_finds_all_places_taken_is_told_so_in_time(server: Server) -> None:
    async with httpx.AsyncClient(transport=Lanes(most=1)) as http:
        first = asyncio.create_task(http.get(server.address))
        await server.asked.wait()
        with pytest.raises(httpx.PoolTimeout, match="all connections"):
            await http.get(server.address, timeout=httpx.Timeout(5, pool=0.05))
        server.gate.set()
        assert (await first).text == "ok"
        assert (await http.get(server.address)).text == "ok"
