"""HTTP requests that may be cancelled at any moment without harm to the client's connection pool.

httpcore protects its clean-up with anyio's shields, which ``asyncio.timeout`` and ``Task.cancel`` ignore. A request
that is cancelled twice, or while its answer ends, or between opening the connection and sending the request, leaves a
connection in the pool that nobody uses and nobody closes. So each request runs in a task of its own. That task is
cancelled only through an anyio scope, and never while a connection is being opened, which has its own timeout.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import cast
from weakref import WeakKeyDictionary

import anyio
import httpx

_OPENING = ("connect_tcp.started", "start_tls.started")
_OPENED = "send_request_headers.started"

# The event loop holds only weak references to its tasks.
_under_way: set[asyncio.Task[None]] = set()
_unanswered: WeakKeyDictionary[httpx.AsyncClient, int] = WeakKeyDictionary()


async def send(client: httpx.AsyncClient, request: httpx.Request) -> httpx.Response:
    """The response, once its headers have arrived; the caller closes it. Raises what ``client.send`` raises."""
    try:
        response = await CancellableRequest(client, request).response()
    except BaseException:
        _unanswered[client] = unanswered(client) + 1
        raise
    _unanswered[client] = 0
    return response


def unanswered(client: httpx.AsyncClient) -> int:
    """How many requests in a row ended without a response, including those cancelled while they waited."""
    return _unanswered.get(client, 0)


class TooLong(Exception):
    """A body is longer than any answer may be."""


async def read_body(response: httpx.Response, most: int) -> httpx.Response:
    """The response with all of its body, decoded. Raises TooLong beyond ``most`` bytes, and httpx.RequestError."""
    content = bytearray()
    async for part in response.aiter_bytes():
        content += part
        if len(content) > most:
            raise TooLong
    # As bytes: not every server keeps to ASCII, and nothing here has to be written again.
    headers = [(name, value) for name, value in response.headers.raw if name.lower() != b"content-encoding"]
    return httpx.Response(response.status_code, headers=headers, content=bytes(content), extensions=response.extensions)


class CancellableRequest(httpx.AsyncByteStream):
    """One request that is being sent, and the body of its response."""

    def __init__(self, client: httpx.AsyncClient, request: httpx.Request) -> None:
        self._scope = anyio.CancelScope()
        self._is_opening = self._is_stopped = False
        self._head: asyncio.Future[httpx.Response] = asyncio.get_running_loop().create_future()
        # One part, so that a body is read no faster than somebody takes it.
        self._parts: asyncio.Queue[bytes | None] = asyncio.Queue(1)
        self._request = request
        request.extensions["trace"] = self._trace
        self._task = asyncio.create_task(self._send(client))
        _under_way.add(self._task)
        self._task.add_done_callback(_forget)

    async def response(self) -> httpx.Response:
        """The response, whose body this request yields. Raises what ``client.send`` raises."""
        try:
            await asyncio.wait((self._head, self._task), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self.stop()
            raise
        if not self._head.done():
            self._task.result()
        head = self._head.result()
        return httpx.Response(
            head.status_code, headers=head.headers, stream=self, request=self._request, extensions=head.extensions
        )

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (part := await self._parts.get()) is not None:
            yield part
        # Awaiting the task itself would pass a cancellation on to it.
        await asyncio.wait((self._task,))
        self._task.result()

    async def aclose(self) -> None:
        self.stop()

    def stop(self) -> None:
        """Ends the request soon, whatever its state; does nothing after its end."""
        self._is_stopped = True
        if not self._is_opening:
            self._scope.cancel()

    async def _send(self, client: httpx.AsyncClient) -> None:
        with self._scope:
            try:
                await self._read(await client.send(self._request, stream=True))
            finally:
                # Otherwise this object and the request of httpx would reference each other.
                del self._request.extensions["trace"]
                await self._parts.put(None)

    async def _read(self, response: httpx.Response) -> None:
        try:
            self._head.set_result(response)
            async for part in cast("httpx.AsyncByteStream", response.stream):
                await self._parts.put(part)
        finally:
            await response.aclose()

    async def _trace(self, event: str, _info: object) -> None:
        """Follows the steps of httpcore to know when a connection is being opened."""
        if event.endswith(_OPENING):
            self._is_opening = True
        elif event.endswith(_OPENED):
            self._is_opening = False
            if self._is_stopped:
                self._scope.cancel()


def _forget(task: asyncio.Task[None]) -> None:
    _under_way.discard(task)
    if not task.cancelled():
        # Nobody waits for this task any more, so nobody needs its error.
        task.exception()
