"""Many connections to one endpoint, without looking at all of them for each request.

httpcore's pool asks every connection about its state when a request begins and again when it ends, and an idle
one about its socket: with 50 reranks at once that is most of what their requests cost (measured: 9.7 ms a rerank
in one pool, 5.4 in lanes). So connections are dealt out to small pools. A request takes the first that is not
full, so that a quiet program keeps using the connection it has.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import cast

import httpx

PLACES = 8


class Lanes(httpx.AsyncBaseTransport):
    """For one event loop. ``most`` requests are under way at once, further ones wait for their timeout."""

    def __init__(self, most: int = 1_000) -> None:
        # One context for all: loading the certificates takes 30 ms.
        trusted = httpx.create_ssl_context()
        self._lanes = [_Lane(httpx.AsyncHTTPTransport(verify=trusted, limits=_LIMITS)) for _ in range(most // PLACES)]

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """The response; it has its place in the lane until it is closed."""
        lane = next((lane for lane in self._lanes if lane.busy < PLACES), None) or min(self._lanes, key=_Lane.load)
        return await lane.answer(request)

    async def aclose(self) -> None:
        for lane in self._lanes:
            await lane.transport.aclose()


_LIMITS = httpx.Limits(max_connections=PLACES, max_keepalive_connections=PLACES)


class _Lane:
    def __init__(self, transport: httpx.AsyncHTTPTransport) -> None:
        self.transport = transport
        self.busy = 0

    def load(self) -> int:
        return self.busy

    async def answer(self, request: httpx.Request) -> httpx.Response:
        self.busy += 1
        try:
            response = await self.transport.handle_async_request(request)
        except BaseException:
            self.busy -= 1
            raise
        response.stream = _Held(cast("httpx.AsyncByteStream", response.stream), self)
        return response


class _Held(httpx.AsyncByteStream):
    """A body being read; the place is free when it is closed, once."""

    def __init__(self, stream: httpx.AsyncByteStream, lane: _Lane) -> None:
        self._stream = stream
        self._lane: _Lane | None = lane

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._stream:
            yield part

    async def aclose(self) -> None:
        if self._lane is not None:
            self._lane.busy -= 1
            self._lane = None
        await self._stream.aclose()
