"""One try at a chat completion: a POST, and its answer whole or streamed.

Whatever comes back is a ``Reply`` or a ``Problem``, and of a stream what was said so far on the way. A stream
is read to its end, so that the connection serves the next turn; what breaks after the answer is complete
does no harm, what breaks before makes it no answer.
"""

from __future__ import annotations

import math
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any, cast

import httpx

from memoryapp.engine.budget import Budget
from memoryapp.engine.completions import as_json, error_in, parse_reply, usage_of
from memoryapp.engine.jsonvalues import written
from memoryapp.engine.llm import Progress, Reply, Usage
from memoryapp.engine.streaming import EventStream, Transcript
from memoryapp.engine.threads import apart
from memoryapp.engine.transfer import send

_CONNECT_SECONDS = 5.0
# After a streamed answer is complete only its usage and the end of the stream are due: some servers count for a
# second or two, some stay open for ever.
_USAGE_SECONDS = 3.0
_END_SECONDS = 0.1
_BETWEEN_PROGRESS = 0.1
_MOST_BYTES = 8 * 1024 * 1024
# In a stream some three hundred bytes stand around each word.
_STREAM_OVERHEAD = 4
_TRY_AGAIN = frozenset({408, 409, 425, 429})
_TOO_LONG = "the answer is too long"
_LOOKS_STREAMED = (b"data:", b"event:", b":")


@dataclass(frozen=True, slots=True)
class Problem:
    """A try without a reply. ``status`` is HTTP's or the one inside a 200; ``said`` the endpoint's words."""

    status: int
    said: str
    spent: Usage = Usage()
    wait: float | None = None

    @property
    def is_passing(self) -> bool:
        """Whether it may go better next time."""
        return self.status in _TRY_AGAIN or self.status >= 500 or self.status == 0


@dataclass(frozen=True, slots=True)
class Answer:
    """How a try ended, and whether it came as a stream."""

    outcome: Reply | Problem
    streamed: bool = False


async def exchange(
    client: httpx.AsyncClient, url: str, headers: httpx.Headers, body: Mapping[str, Any], budget: Budget
) -> AsyncGenerator[Progress | Answer, None]:
    """What is said so far, at last how it ended. Raises TimeoutError or httpx.RequestError, InvalidURL.

    ``headers`` are all that are sent, the client's own included.
    """
    async with budget.spending():
        response = await _send(client, url, headers, body, budget.left)
    async with aclosing(response):
        if response.status_code == 200 and "event-stream" in response.headers.get("Content-Type", ""):
            async with aclosing(_listen(response, budget)) as steps:
                async for step in steps:
                    yield step
            return
        async with budget.spending():
            content = await _content(response)
    yield await apart(_read, response, content, size=len(content or b""))


async def _send(
    client: httpx.AsyncClient, url: str, headers: httpx.Headers, body: Mapping[str, Any], seconds: float
) -> httpx.Response:
    left = max(seconds, 0.001)
    within = httpx.Timeout(left, connect=min(left, _CONNECT_SECONDS))
    content, extensions = written(body).encode(), {"timeout": within.as_dict()}
    return await send(
        client, httpx.Request("POST", _address(url), headers=headers, content=content, extensions=extensions)
    )


@lru_cache(maxsize=16)
def _address(url: str) -> httpx.URL:
    """Read once, for that takes as long as a tenth of a request. Raises httpx.InvalidURL."""
    return httpx.URL(url)


async def _content(response: httpx.Response) -> bytes | None:
    """The whole body, None when it is longer than any answer."""
    content = bytearray()
    async for chunk in response.aiter_bytes():
        content += chunk
        if len(content) > _MOST_BYTES:
            return None
    return bytes(content)


def _read(response: httpx.Response, content: bytes | None) -> Answer:
    """A body that came whole."""
    if content is None:
        return Answer(Problem(502, _TOO_LONG))
    if response.status_code == 200 and content.lstrip().startswith(_LOOKS_STREAMED):
        heard, events = Transcript(), EventStream()
        broken = _take_in(heard, [*events.feed(content), *events.rest()])
        return Answer(_heard(heard, broken), streamed=True)
    said = as_json(content)
    wait = _retry_after(response.headers.get("Retry-After", ""))
    error = error_in(said)
    if response.status_code != 200:
        told = error.wait if error and wait is None else wait
        words = error.message if error else response.reason_phrase
        return Answer(Problem(response.status_code, words, usage_of(said), told))
    if said is None:
        return Answer(Problem(502, "the answer is not JSON"))
    if error:
        return Answer(Problem(error.status, error.message, usage_of(said), error.wait if wait is None else wait))
    return Answer(parse_reply(said))


async def _listen(response: httpx.Response, budget: Budget) -> AsyncGenerator[Progress | Answer, None]:
    heard, events, shown, size = Transcript(), EventStream(), Progress("", ""), 0
    next_at, broken, tail = 0.0, "", Budget(_USAGE_SECONDS)
    async with aclosing(cast("AsyncGenerator[bytes, None]", response.aiter_bytes())) as chunks:
        while not (broken or heard.is_broken_off):
            chunk = await (_rest(chunks, heard, tail, budget) if heard.is_complete else _next(chunks, budget))
            payloads = events.rest() if chunk is None else events.feed(chunk)
            broken = await apart(_take_in, heard, payloads, size=sum(map(len, payloads)))
            if chunk is None:
                break
            size += len(chunk)
            if size > _STREAM_OVERHEAD * _MOST_BYTES or events.is_too_long:
                broken = _TOO_LONG
            if time.monotonic() >= next_at:
                next_at, before, shown = time.monotonic() + _BETWEEN_PROGRESS, shown, heard.progress()
                if shown != before:
                    yield shown
    yield Answer(_heard(heard, broken), streamed=True)


async def _next(chunks: AsyncIterator[bytes], budget: Budget) -> bytes | None:
    """The next bytes, None at the end."""
    async with budget.spending():
        return await anext(chunks, None)


async def _rest(chunks: AsyncIterator[bytes], heard: Transcript, tail: Budget, budget: Budget) -> bytes | None:
    """The next bytes after a complete answer; None when no more come in the seconds of ``tail`` or ``budget``."""
    left = min(tail.left, budget.left)
    waiting = Budget(min(left, _END_SECONDS) if heard.is_done or heard.is_counted else left)
    try:
        return await _next(chunks, waiting)
    except (TimeoutError, httpx.RequestError):
        return None
    finally:
        tail.charge(waiting.spent)
        budget.charge(waiting.spent)


def _take_in(heard: Transcript, payloads: Iterable[str]) -> str:
    """Add the payloads; what is wrong with one, empty when nothing is or the answer is complete without it."""
    for payload in payloads:
        try:
            heard.add(payload)
        except ValueError as error:
            if not heard.is_complete:
                return str(error)
    return ""


def _heard(heard: Transcript, broken: str) -> Reply | Problem:
    said = heard.completion()
    if heard.error:
        return Problem(heard.error.status, heard.error.message, usage_of(said), heard.error.wait)
    if broken or not heard.is_complete:
        return Problem(502, broken or "the stream ended before the answer did", usage_of(said))
    return parse_reply(said)


def _retry_after(value: str) -> float | None:
    """Seconds, from a number or an HTTP date."""
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds()
        except (ValueError, TypeError):
            return None
    return max(seconds, 0.0) if math.isfinite(seconds) else None
