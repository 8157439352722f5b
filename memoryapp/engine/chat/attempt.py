"""One attempt at a chat completion: a POST, and its answer, whole or streamed.

The outcome is a ``Reply`` or a ``Problem``; a stream also yields the reply so far. A stream is read to its end, so that
the connection can be used again. An error after the complete answer is ignored; an error before that makes the answer a
``Problem``. An answer ends at ``[DONE]``, at the end of the connection, or with silence: after an empty delta with a
reason, after what needs no continuation, or, with a note, when the time is nearly over."""

import asyncio
import math
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any, cast
from weakref import WeakKeyDictionary

import anyio
import httpx

from memoryapp.engine.budget import Budget, Usage
from memoryapp.engine.chat.completions import GLUED_END, EventStream, Transcript, parse_reply, unwrapped, usage_of
from memoryapp.engine.chat.protocol import PartialReply, Reply
from memoryapp.engine.chat.refusals import (
    EndpointError,
    document_in,
    error_in,
    is_failed_generation,
    status_by_words,
    words_in,
)
from memoryapp.engine.json_values import to_text
from memoryapp.engine.threads import in_thread_if_long

# HTTP requests that may be cancelled at any moment without harm to the client's connection pool.
#
# httpcore protects its clean-up with anyio's shields, which ``asyncio.timeout`` and ``Task.cancel`` ignore. A request
# that is cancelled twice, or while its answer ends, or between opening the connection and sending the request, leaves
# a connection in the pool that nobody uses and nobody closes. So each request runs in a task of its own. That task is
# cancelled only through an anyio scope, and never while a connection is being opened, which has its own timeout.

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


# When a request to a provider is repeated: one policy for chat models and embeddings.
#
# A request is repeated after a failure that may pass: 5xx except 501, a broken connection, and those of 4xx that are
# no refusals. A refusal (400, 401, 402, 403, 404 …) would be the same the next time. The wait is the one that the
# endpoint asks for, otherwise half a second, doubled each time. No attempt begins after the time of the request has
# ended.

TRIES = 5
_FIRST_WAIT = 0.5
# Timeouts, a conflict (OpenAI's own clients repeat it), a generation that failed (text-generation-inference), too
# early, too many, Groq's tier without capacity, and a gateway that was left.
_PASSING = frozenset({408, 409, 424, 425, 429, 498, 499})
_NOT_IMPLEMENTED = 501
NO_ANSWER = 0


def is_passing(status: int) -> bool:
    """Whether another attempt may succeed. ``status`` is the HTTP status, or ``NO_ANSWER``."""
    return status in _PASSING or (status >= 500 and status != _NOT_IMPLEMENTED) or status == NO_ANSWER


def wait_before_retry(failures: int, asked: float | None, left: float) -> float | None:
    """Seconds to wait after that many ``failures``; None when there is no further attempt. ``asked`` is the wait that
    the endpoint asks for, if any; ``left`` is the remaining time of the request."""
    wait = asked if asked is not None else _FIRST_WAIT * 2 ** (failures - 1)
    return None if failures >= TRIES or wait >= left else wait


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds that the headers of an answer ask for: in milliseconds (OpenAI, Azure), in seconds, or as a date;
    None where they say none of these."""
    milliseconds = _seconds(headers.get("Retry-After-Ms", ""))
    return _seconds(headers.get("Retry-After", "")) if milliseconds is None else milliseconds / 1000


def _seconds(header: str) -> float | None:
    try:
        seconds = float(header)
    except ValueError:
        try:
            seconds = (parsedate_to_datetime(header) - datetime.now(UTC)).total_seconds()
        except (ValueError, TypeError, OverflowError):
            return None
    return max(seconds, 0.0) if math.isfinite(seconds) else None


_CONNECT_SECONDS = 5.0
# After the complete answer a stream sends only the usage and its end. Some servers take a second or two to count, some
# never close the stream.
_USAGE_SECONDS = 3.0
_COUNTED_SECONDS = 0.5
_END_SECONDS = 0.1
# Where each chunk gives a reason, the next piece may take as long as in any other stream.
_WAITING_SHARE = 0.9
_BETWEEN_PROGRESS = 0.1
# The title of a page shows that the address is that of another program.
_QUOTED_CHARS = 120
# A hundred thousand tokens, even if each letter is escaped. Reading four times as much, in small values, takes an
# interpreter two seconds, in which it does nothing else.
_MOST_BYTES = 2 * 1024 * 1024
# A stream sends about three hundred bytes for each word.
_STREAM_OVERHEAD = 16
_TOO_LONG = f"the answer is too long, more than {_MOST_BYTES // 1024 // 1024} MB"
_LOOKS_STREAMED = (b"data:", b"event:", b"id:", b"retry:", b":")
_BLANK = b"\xef\xbb\xbf \t\r\n"
# Reasons of DeepSeek, Zhipu and vLLM for an answer that something else than the model ended.
_CUT_BY = frozenset({"insufficient_system_resource", "network_error", "abort", "aborted", "cancelled", "timeout"})


@dataclass(frozen=True, slots=True)
class Problem:
    """An attempt without a reply. ``status`` is the HTTP status, or the one inside a 200; ``words`` and ``code`` are
    those of the endpoint. ``unended`` is a reply that may be half an answer, or a whole one where an endpoint always
    ends like this; its note says why."""

    status: int
    words: str
    usage: Usage = Usage()
    wait: float | None = None
    code: str = ""
    unended: Reply | None = None

    @property
    def is_failed_generation(self) -> bool:
        """Whether the model wrote what the endpoint could not read; the endpoint may blame the request for it."""
        return is_failed_generation(self.code, self.words)

    @property
    def is_passing(self) -> bool:
        """Whether another attempt may succeed."""
        return is_passing(self.status) or self.is_failed_generation


@dataclass(frozen=True, slots=True)
class AttemptEnd:
    """How an attempt ended, and whether the answer came as a stream."""

    outcome: Reply | Problem
    streamed: bool = False


async def attempt(
    client: httpx.AsyncClient, url: str, headers: httpx.Headers, body: Mapping[str, Any], budget: Budget
) -> AsyncGenerator[PartialReply | AttemptEnd, None]:
    """Yields the reply so far, and last an ``AttemptEnd``. Raises TimeoutError, httpx.RequestError or InvalidURL.
    ``headers`` are all headers that are sent, including those of the client."""
    async with budget.spending():
        response = await _send(client, url, headers, body, budget.left)
    async with aclosing(response):
        if response.status_code == 200 and "event-stream" in response.headers.get("Content-Type", ""):
            async with aclosing(_listen(response, budget)) as steps:
                async for step in steps:
                    yield step
            return
        try:
            async with budget.spending():
                response = await read_body(response, _MOST_BYTES)
        except TooLong:
            yield AttemptEnd(Problem(502, _TOO_LONG))
            return
    yield await in_thread_if_long(_read, response, size=len(response.content))


async def _send(
    client: httpx.AsyncClient, url: str, headers: httpx.Headers, body: Mapping[str, Any], seconds: float
) -> httpx.Response:
    left = max(seconds, 0.001)
    within = httpx.Timeout(left, connect=min(left, _CONNECT_SECONDS))
    content, extensions = to_text(body).encode(), {"timeout": within.as_dict()}
    return await send(
        client, httpx.Request("POST", _address(url), headers=headers, content=content, extensions=extensions)
    )


@lru_cache(maxsize=16)
def _address(url: str) -> httpx.URL:
    """Cached, because parsing takes a tenth of the time of a request. Raises httpx.InvalidURL."""
    return httpx.URL(url)


def _read(response: httpx.Response) -> AttemptEnd:
    """The outcome of an answer whose body was read completely."""
    content = response.content
    if response.status_code == 200 and content.lstrip(_BLANK).startswith(_LOOKS_STREAMED):
        transcript, events = Transcript(), EventStream()
        broken = _take_in(transcript, [*events.feed(content), *events.rest()])
        return AttemptEnd(_outcome(transcript, broken, fell_silent=False), streamed=True)
    without_end = GLUED_END.sub("", content.decode("utf-8", "replace")).encode("utf-8", "replace")
    completion = unwrapped(document_in(content) or document_in(without_end))
    if response.status_code == 200 and completion is None and b"\n{" in content:
        transcript = Transcript()
        broken = _take_in(transcript, content.decode("utf-8", "replace").splitlines())
        return AttemptEnd(_outcome(transcript, broken, fell_silent=False), streamed=True)
    wait = retry_after(response.headers)
    error = error_in(completion)
    if response.status_code != 200:
        failed = Problem(response.status_code, words_in(content) or response.reason_phrase, usage_of(completion), wait)
        if error:
            wait = error.wait if wait is None else wait
            status = status_by_words(failed.status, error.code, error.message, wait)
            failed = replace(failed, status=status, wait=wait, code=error.code)
        return AttemptEnd(failed)
    if completion is None:
        page = words_in(content)[:_QUOTED_CHARS]
        return AttemptEnd(Problem(502, f"the answer is not JSON: {page}" if page else "the answer is not JSON"))
    if error:
        return AttemptEnd(_problem(error, completion, wait))
    return AttemptEnd(_judged(parse_reply(completion)))


def _judged(reply: Reply) -> Reply | Problem:
    """The reply, with a note where it ran into a limit; a problem where it was cut off, or where the model wrote a call
    that Google could not read."""
    has_said, reason = bool(reply.text.strip() or reply.tool_calls), reply.finish_reason.lower()
    if is_failed_generation("", reply.finish_reason) and not has_said:
        return Problem(502, f"the model failed: {reply.finish_reason}", reply.usage)
    if reply.is_at_limit:
        return reply.noted("reply_at_limit") if has_said else reply
    if reason in _CUT_BY:
        half = reply.noted("reply_breaks_off") if reply.text and not reply.tool_calls else None
        return Problem(502, f"the answer breaks off ({reason})", reply.usage, unended=half)
    return reply


def _problem(error: EndpointError, completion: Mapping[str, Any], wait: float | None = None) -> Problem:
    """An error inside HTTP 200."""
    return Problem(error.status, error.message, usage_of(completion), error.wait if wait is None else wait, error.code)


async def _listen(response: httpx.Response, budget: Budget) -> AsyncGenerator[PartialReply | AttemptEnd, None]:
    transcript, events, shown, size = Transcript(), EventStream(), PartialReply("", ""), 0
    next_at, broken = 0.0, ""
    async with aclosing(cast("AsyncGenerator[bytes, None]", response.aiter_bytes())) as chunks:
        source = _Chunks(chunks, budget)
        while not (broken or transcript.is_broken_off):
            chunk = await source.next(transcript)
            payloads = events.rest() if chunk is None else events.feed(chunk)
            broken = await in_thread_if_long(_take_in, transcript, payloads, size=sum(map(len, payloads)))
            if chunk is None:
                break
            size += len(chunk)
            if size > _STREAM_OVERHEAD * _MOST_BYTES or events.is_too_long:
                broken = _TOO_LONG
            if time.monotonic() >= next_at:
                next_at, before, shown = time.monotonic() + _BETWEEN_PROGRESS, shown, transcript.progress()
                if shown != before:
                    yield shown
    yield AttemptEnd(_outcome(transcript, broken, fell_silent=source.fell_silent), streamed=True)


class _Chunks:
    """The bytes of a stream until its end. ``fell_silent`` is true when it was given up though more might have come."""

    def __init__(self, chunks: AsyncIterator[bytes], budget: Budget) -> None:
        self.fell_silent = False
        self._chunks = chunks
        self._budget = budget
        self._tail = Budget(_USAGE_SECONDS)
        self._deltas = 0

    async def next(self, transcript: Transcript) -> bytes | None:
        """The next bytes; None at the end, or when none come although the answer may be over."""
        if not (transcript.has_reason or transcript.is_done):
            try:
                async with self._budget.spending():
                    return await anext(self._chunks, None)
            except httpx.RequestError:
                if transcript.is_whole:
                    return None
                raise
        if transcript.deltas != self._deltas:
            self._deltas, self._tail = transcript.deltas, Budget(_USAGE_SECONDS)
        waiting = Budget(self._patience(transcript))
        try:
            async with waiting.spending():
                return await anext(self._chunks, None)
        except TimeoutError:
            self.fell_silent = not transcript.may_end
        except httpx.RequestError:
            if not transcript.may_end:
                raise
        finally:
            self._tail.charge(waiting.spent)
            self._budget.charge(waiting.spent)
        return None

    def _patience(self, transcript: Transcript) -> float:
        """The seconds of silence that end the answer."""
        if not transcript.may_end:
            return self._budget.left * _WAITING_SHARE
        most = _END_SECONDS if transcript.is_done else _COUNTED_SECONDS if transcript.is_counted else _USAGE_SECONDS
        return min(most, self._tail.left, self._budget.left)


def _take_in(transcript: Transcript, payloads: Iterable[str]) -> str:
    """Adds the payloads. Returns what is wrong with one; nothing when all are right, or the answer is complete."""
    for payload in payloads:
        try:
            transcript.add(payload)
        except ValueError as error:
            if not transcript.may_end:
                return str(error)
    return ""


def _outcome(transcript: Transcript, broken: str, *, fell_silent: bool) -> Reply | Problem:
    completion = transcript.completion()
    if transcript.error:
        return _problem(transcript.error, completion)
    if broken:
        return Problem(502, broken, usage_of(completion))
    reply = parse_reply(completion)
    if fell_silent:
        return reply.noted("stream_silent")
    if transcript.has_reason:
        return _judged(reply)
    if transcript.is_whole or (transcript.is_answer and not reply.breaks_off):
        return reply.noted("stream_unended")
    half = reply.noted("stream_unended") if reply.text and not reply.tool_calls else None
    return Problem(502, "the stream ended before the answer did", reply.usage, unended=half)
