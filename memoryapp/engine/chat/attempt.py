"""One attempt at a chat completion: a POST, and its answer, whole or streamed.

The outcome is a ``Reply`` or a ``Problem``; a stream also yields the reply so far. A stream is read to its end, so that
the connection can be used again. An error after the complete answer is ignored; an error before that makes the answer a
``Problem``.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import httpx

from memoryapp.engine.budget import Budget, Usage
from memoryapp.engine.chat.cancellable_requests import TooLong, read_body, send
from memoryapp.engine.chat.completions import as_json, error_in, parse_reply, usage_of
from memoryapp.engine.chat.protocol import PartialReply, Reply
from memoryapp.engine.chat.retries import is_passing, retry_after
from memoryapp.engine.chat.streaming import EventStream, Transcript
from memoryapp.engine.json_values import to_text
from memoryapp.engine.threads import apart

_CONNECT_SECONDS = 5.0
# After the complete answer a stream sends only the usage and its end. Some servers take a second or two to count, some
# never close the stream.
_USAGE_SECONDS = 3.0
_END_SECONDS = 0.1
_BETWEEN_PROGRESS = 0.1
# A hundred thousand tokens, even if each letter is escaped. Reading four times as much, in small values, takes an
# interpreter two seconds, in which it does nothing else.
_MOST_BYTES = 2 * 1024 * 1024
# A stream sends about three hundred bytes for each word.
_STREAM_OVERHEAD = 16
_TOO_LONG = f"the answer is too long, more than {_MOST_BYTES // 1024 // 1024} MB"
_LOOKS_STREAMED = (b"data:", b"event:", b":")


@dataclass(frozen=True, slots=True)
class Problem:
    """An attempt without a reply. ``status`` is the HTTP status, or the one inside a 200; ``words`` are those of the
    endpoint."""

    status: int
    words: str
    usage: Usage = Usage()
    wait: float | None = None

    @property
    def is_passing(self) -> bool:
        """Whether another attempt may succeed."""
        return is_passing(self.status)


@dataclass(frozen=True, slots=True)
class AttemptEnd:
    """How an attempt ended, and whether the answer came as a stream."""

    outcome: Reply | Problem
    streamed: bool = False


async def attempt(
    client: httpx.AsyncClient, url: str, headers: httpx.Headers, body: Mapping[str, Any], budget: Budget
) -> AsyncGenerator[PartialReply | AttemptEnd, None]:
    """Yields the reply so far, and last an ``AttemptEnd``. Raises TimeoutError, httpx.RequestError or InvalidURL.

    ``headers`` are all headers that are sent, including those of the client.
    """
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
    yield await apart(_read, response, size=len(response.content))


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
    if response.status_code == 200 and content.lstrip().startswith(_LOOKS_STREAMED):
        transcript, events = Transcript(), EventStream()
        broken = _take_in(transcript, [*events.feed(content), *events.rest()])
        return AttemptEnd(_outcome(transcript, broken), streamed=True)
    completion = as_json(content)
    wait = retry_after(response.headers.get("Retry-After", ""))
    error = error_in(completion)
    if response.status_code != 200:
        asked = error.wait if error and wait is None else wait
        words = error.message if error else response.reason_phrase
        return AttemptEnd(Problem(response.status_code, words, usage_of(completion), asked))
    if completion is None:
        return AttemptEnd(Problem(502, "the answer is not JSON"))
    if error:
        return AttemptEnd(
            Problem(error.status, error.message, usage_of(completion), error.wait if wait is None else wait)
        )
    return AttemptEnd(parse_reply(completion))


async def _listen(response: httpx.Response, budget: Budget) -> AsyncGenerator[PartialReply | AttemptEnd, None]:
    transcript, events, shown, size = Transcript(), EventStream(), PartialReply("", ""), 0
    next_at, broken, tail = 0.0, "", Budget(_USAGE_SECONDS)
    async with aclosing(cast("AsyncGenerator[bytes, None]", response.aiter_bytes())) as chunks:
        while not (broken or transcript.is_broken_off):
            chunk = await (_rest(chunks, transcript, tail, budget) if transcript.is_complete else _next(chunks, budget))
            payloads = events.rest() if chunk is None else events.feed(chunk)
            broken = await apart(_take_in, transcript, payloads, size=sum(map(len, payloads)))
            if chunk is None:
                break
            size += len(chunk)
            if size > _STREAM_OVERHEAD * _MOST_BYTES or events.is_too_long:
                broken = _TOO_LONG
            if time.monotonic() >= next_at:
                next_at, before, shown = time.monotonic() + _BETWEEN_PROGRESS, shown, transcript.progress()
                if shown != before:
                    yield shown
    yield AttemptEnd(_outcome(transcript, broken), streamed=True)


async def _next(chunks: AsyncIterator[bytes], budget: Budget) -> bytes | None:
    """The next bytes, None at the end."""
    async with budget.spending():
        return await anext(chunks, None)


async def _rest(chunks: AsyncIterator[bytes], transcript: Transcript, tail: Budget, budget: Budget) -> bytes | None:
    """The next bytes after a complete answer; None when none come within the seconds of ``tail`` or ``budget``."""
    left = min(tail.left, budget.left)
    waiting = Budget(min(left, _END_SECONDS) if transcript.is_done or transcript.is_counted else left)
    try:
        return await _next(chunks, waiting)
    except (TimeoutError, httpx.RequestError):
        return None
    finally:
        tail.charge(waiting.spent)
        budget.charge(waiting.spent)


def _take_in(transcript: Transcript, payloads: Iterable[str]) -> str:
    """Adds the payloads to the transcript. Returns what is wrong with one; nothing when all are right, or the answer is
    complete anyway."""
    for payload in payloads:
        try:
            transcript.add(payload)
        except ValueError as error:
            if not transcript.is_complete:
                return str(error)
    return ""


def _outcome(transcript: Transcript, broken: str) -> Reply | Problem:
    completion = transcript.completion()
    if transcript.error:
        return Problem(transcript.error.status, transcript.error.message, usage_of(completion), transcript.error.wait)
    if broken or not transcript.is_complete:
        return Problem(502, broken or "the stream ended before the answer did", usage_of(completion))
    return parse_reply(completion)
