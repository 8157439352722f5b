"""Many connections to one endpoint, without looking at all of them for each request.

httpcore's pool asks every connection about its state when a request begins and again when it ends, and an idle
one about its socket: with 50 reranks at once that is most of what their requests cost (measured: 9.7 ms a rerank
in one pool, 5.4 in pools of eight, 4.6 in pools of one). So each connection is a pool of its own. A request takes the
one to its endpoint that was used last, so that a quiet program keeps using the connection it has.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from typing import cast

import httpx

_LIMITS = httpx.Limits(max_connections=1, max_keepalive_connections=1)


class Lanes(httpx.AsyncBaseTransport):
    """For one event loop. ``most`` requests are under way at once, further ones wait for their timeout."""

    def __init__(self, most: int = 1_000) -> None:
        # One context for all: loading the certificates takes 30 ms.
        self._trusted = httpx.create_ssl_context()
        self._places = asyncio.Semaphore(most)
        self._lanes: list[httpx.AsyncHTTPTransport] = []
        self._free: defaultdict[str, list[httpx.AsyncHTTPTransport]] = defaultdict(list)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """The response; it has its lane until it is closed. Raises PoolTimeout where none becomes free in time."""
        await self._place(request)
        free = self._free[f"{request.url.scheme} {request.url.netloc!r}"]
        lane = free.pop() if free else self._new()

        def give_back() -> None:
            free.append(lane)
            self._places.release()

        try:
            response = await lane.handle_async_request(request)
        except BaseException:
            give_back()
            raise
        response.stream = _Held(cast("httpx.AsyncByteStream", response.stream), give_back)
        return response

    async def _place(self, request: httpx.Request) -> None:
        try:
            async with asyncio.timeout(request.extensions.get("timeout", {}).get("pool")):
                await self._places.acquire()
        except TimeoutError as error:
            raise httpx.PoolTimeout("all connections are in use", request=request) from error

    def _new(self) -> httpx.AsyncHTTPTransport:
        lane = httpx.AsyncHTTPTransport(verify=self._trusted, limits=_LIMITS)
        self._lanes.append(lane)
        return lane

    async def aclose(self) -> None:
        for lane in self._lanes:
            await lane.aclose()


class _Held(httpx.AsyncByteStream):
    """A body being read; its lane is given back when it is closed, once."""

    def __init__(self, stream: httpx.AsyncByteStream, give_back: Callable[[], None]) -> None:
        self._stream = stream
        self._give_back: Callable[[], None] | None = give_back

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._stream:
            yield part

    async def aclose(self) -> None:
        give_back, self._give_back = self._give_back, None
        try:
            await self._stream.aclose()
        finally:
            if give_back:
                give_back()
