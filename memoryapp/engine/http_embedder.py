"""An embedder for any OpenAI-compatible ``/embeddings`` endpoint.

Every answer is checked before it is used: count, order, dimensions, length.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import httpx
import numpy as np

from memoryapp.engine.budget import Budget
from memoryapp.engine.chat.cancellable_requests import TooLong, read_body, send
from memoryapp.engine.chat.redaction import redacted, without_login
from memoryapp.engine.chat.retries import NO_ANSWER, is_passing, retry_after, wait_before_retry
from memoryapp.engine.embeddings import EmbeddingError, Profile, Vectors, unit
from memoryapp.engine.notes import ENGLISH, Note
from memoryapp.engine.storable import storable
from memoryapp.engine.threads import apart

# The batch limit of gemini-embedding-001; other endpoints accept more, but gain little by it.
_BATCH = 100
# Several providers refuse an empty text with 400.
_BLANK = "-"
# For one batch with all its attempts.
_SECONDS = 60.0
# A hundred vectors of 4,000 dimensions take ten million.
_MOST_BYTES = 32_000_000
_TIMEOUT = httpx.Timeout(_SECONDS, connect=5.0)


@dataclass(frozen=True, slots=True)
class _Failure:
    """An attempt without vectors: its HTTP status, the error in words, and the wait in seconds if the endpoint asks for
    one."""

    status: int
    error: EmbeddingError
    wait: float | None = None


class HttpEmbedder:
    """Vectors from one endpoint, batch by batch."""

    def __init__(self, http: httpx.AsyncClient, base_url: str, api_key: str, profile: Profile) -> None:
        self.profile = profile
        self._http = http
        self._url = base_url.rstrip("/") + "/embeddings"
        self._key = api_key
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Vectors of shape (len(texts), dimensions), unit length, in order. Raises EmbeddingError."""
        inputs = [storable(text)[: self.profile.most_chars].strip() or _BLANK for text in texts]
        batches = [await self._batch(inputs[i : i + _BATCH]) for i in range(0, len(inputs), _BATCH)]
        return np.concatenate([np.zeros((0, self.profile.dimensions), np.float32), *batches])

    async def _batch(self, inputs: Sequence[str]) -> Vectors:
        body = {"model": self.profile.model, "input": inputs, "dimensions": self.profile.dimensions}
        return self._vectors(await self._post(body), len(inputs))

    async def _post(self, body: Mapping[str, Any]) -> Any:
        budget, failures = Budget(_SECONDS), 0
        while True:
            outcome = await self._try(body, budget)
            if isinstance(outcome, httpx.Response):
                return await apart(self._json, outcome, size=len(outcome.content))
            failures += 1
            wait = wait_before_retry(failures, outcome.wait, budget.left) if is_passing(outcome.status) else None
            if wait is None:
                raise outcome.error
            await asyncio.sleep(wait)
            budget.charge(wait)

    async def _try(self, body: Mapping[str, Any], budget: Budget) -> httpx.Response | _Failure:
        """One request. Raises EmbeddingError when the time is over, or the address is invalid."""
        try:
            async with budget.spending():
                response = await self._send(body)
        except (httpx.ConnectTimeout, httpx.PoolTimeout):
            return _Failure(NO_ANSWER, self._failure("unreachable", quoted="no connection"))
        except (TimeoutError, httpx.TimeoutException) as error:
            raise self._failure("late", seconds=_SECONDS) from error
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            raise self._failure("unaskable", quoted=str(error)) from error
        except TooLong as error:
            raise self._failure("too_long", bytes=_MOST_BYTES) from error
        except httpx.HTTPError as error:
            return _Failure(NO_ANSWER, self._failure("unreachable", quoted=str(error) or type(error).__name__))
        if response.status_code == httpx.codes.OK:
            return response
        status = response.status_code
        code = str(status) if f"embedder_{status}" in ENGLISH else "failing"
        failure = self._failure(code, status=status, quoted=_reason(response))
        return _Failure(status, failure, retry_after(response.headers.get("Retry-After", "")))

    async def _send(self, body: Mapping[str, Any]) -> httpx.Response:
        request = self._http.build_request("POST", self._url, json=body, headers=self._headers, timeout=_TIMEOUT)
        async with aclosing(await send(self._http, request)) as response:
            return await read_body(response, _MOST_BYTES)

    def _json(self, response: httpx.Response) -> Any:
        try:
            return response.json()
        except (ValueError, RecursionError) as error:
            raise self._failure("not_json") from error

    def _failure(self, code: str, **values: Any) -> EmbeddingError:
        """The error; without the API key, which the endpoint may have repeated."""
        note = Note(f"embedder_{code}", {"url": without_login(self._url), **values})
        return EmbeddingError(redacted(note, self._key))

    def _vectors(self, answer: Any, count: int) -> Vectors:
        rows = _rows(answer)
        if rows is None:
            raise self._failure("without_vectors", quoted=_error_words(answer))
        if sorted(rows) != list(range(count)):
            raise self._failure("miscounted", vectors=len(rows), texts=count)
        return self._matrix([rows[index] for index in range(count)])

    def _matrix(self, rows: Sequence[Any]) -> Vectors:
        wanted = self.profile.dimensions
        for row in rows:
            if not isinstance(row, list):
                raise self._failure("no_numbers", wanted=wanted)
            if len(row) != wanted:
                raise self._failure("dimensions", got=len(row), wanted=wanted)
        try:
            return unit(np.array(rows, dtype=np.float32))
        except (TypeError, ValueError, OverflowError) as error:
            raise self._failure("unusable", quoted=str(error)) from error


def _rows(answer: Any) -> dict[int, Any] | None:
    """The embeddings by index; None when ``answer`` has none."""
    items = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        return None
    return {_index(item, place): item.get("embedding") for place, item in enumerate(items)}


def _index(item: Mapping[str, Any], place: int) -> int:
    index = item.get("index", place)
    return index if isinstance(index, int) else -1


def _reason(response: httpx.Response) -> str:
    try:
        return _error_words(response.json())
    except (ValueError, RecursionError):
        return ""


def _error_words(answer: Any) -> str:
    """The message of an error object, otherwise empty."""
    error = answer.get("error") if isinstance(answer, dict) else None
    message = error.get("message") if isinstance(error, dict) else error
    return message[:300].rstrip(".") if isinstance(message, str) else ""
