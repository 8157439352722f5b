"""A provider of chat models over real HTTP, working or failing, in the event loop of the test."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from tools.bench import peer

LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
# A limit of one second ends before.
LATE = 1.5


class Provider:
    """``mood`` is how it answers further requests; ``open`` are its open connections."""

    def __init__(self) -> None:
        self.mood = "well"
        self.open: set[asyncio.StreamWriter] = set()
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open.add(writer)
        with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            while not writer.is_closing():
                head = await reader.readuntil(b"\r\n\r\n")
                length = LENGTH.search(head)
                assert length
                await self._answer(await reader.readexactly(int(length[1])), writer)
        self.open.discard(writer)
        writer.close()

    async def _answer(self, request: bytes, writer: asyncio.StreamWriter) -> None:
        if self.mood == "resets":
            writer.transport.abort()
            return
        if self.mood == "drips":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
            while not writer.is_closing():
                writer.write(b"1\r\n:\r\n")
                await writer.drain()
                await asyncio.sleep(0.02)
        if self.mood == "late":
            await asyncio.sleep(LATE)
        writer.write(peer.answer(request))


@asynccontextmanager
async def provider() -> AsyncIterator[Provider]:
    made = Provider()
    listening = await asyncio.start_server(made.serve, "127.0.0.1", 0, backlog=1000)
    made.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
    try:
        yield made
    finally:
        listening.close()
