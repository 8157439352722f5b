"""An embedder for any OpenAI-compatible ``/embeddings`` endpoint.

Every answer is checked before it is used: count, order, dimensions, length. What an endpoint refuses because it is too
much is sent in smaller portions; a text that is too long for the model gets the mean vector of its pieces. Where the
words of a refusal do not say what was too much, single texts find it out.
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
from memoryapp.engine.chat.refusals import document_in, error_in, status_by_words, words_in
from memoryapp.engine.chat.retries import NO_ANSWER, TRIES, is_passing, retry_after, wait_before_retry
from memoryapp.engine.embedding.lessons import (
    LEAST_CHARS,
    Accepted,
    Lesson,
    fewer,
    lesson,
    may_be_too_much,
    pieces,
)
from memoryapp.engine.embedding.replies import numbers_in, rows_in
from memoryapp.engine.embeddings import EmbeddingError, Profile, Vectors, unit
from memoryapp.engine.notes import ENGLISH, Note
from memoryapp.engine.storable import storable
from memoryapp.engine.threads import in_thread_if_long

# Several providers refuse an empty text with 400.
_BLANK = "-"
# For one batch with all its attempts.
_SECONDS = 60.0
# A hundred vectors of 4,000 dimensions take ten million.
_MOST_BYTES = 32_000_000
_TIMEOUT = httpx.Timeout(_SECONDS, connect=5.0)
_MOST_WORDS = 300
# Where a failure was found to be one of too much, the next one is repeated once.
_TRIES_OF_LESS = 2


@dataclass(frozen=True, slots=True)
class _Failure:
    """An attempt without vectors: its HTTP status, the error, the endpoint's ``words``, and the wait in seconds if it
    asks for one."""

    status: int
    error: EmbeddingError
    wait: float | None = None
    words: str = ""


class _TooMuch(Exception):
    """A request that may be accepted if it is smaller, or without ``dimensions``; which of these is not known without a
    ``lesson``."""

    def __init__(self, failure: _Failure, lesson: Lesson | None) -> None:
        super().__init__(failure.words)
        self.failure = failure
        self.lesson = lesson


class HttpEmbedder:
    """Vectors from one endpoint, batch by batch. What ``accepted`` says is shared by all embedders of its model."""

    def __init__(
        self, http: httpx.AsyncClient, base_url: str, api_key: str, profile: Profile, accepted: Accepted | None = None
    ) -> None:
        self.profile = profile
        self._http = http
        self._url = base_url.rstrip("/") + "/embeddings"
        self._key = api_key
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._accepted = accepted or Accepted()

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Vectors of shape (len(texts), dimensions), unit length, in order. Raises EmbeddingError."""
        inputs = [storable(text)[: self.profile.most_chars].strip() or _BLANK for text in texts]
        vectors = [np.zeros((0, self.profile.dimensions), np.float32)]
        first = 0
        while first < len(inputs):
            batch = inputs[first : first + self._accepted.texts]
            vectors.append(await self._smaller_until_accepted(batch))
            first += len(batch)
        return np.concatenate(vectors)

    async def _smaller_until_accepted(self, inputs: Sequence[str], tries: int = TRIES) -> Vectors:
        """The vectors of ``inputs``; what is refused as too much is learnt, and sent in smaller portions."""
        chars = self._accepted.chars
        if chars and any(len(text) - len(self._prefix(text)) > chars for text in inputs):
            return await self._means(inputs, chars)
        try:
            return await self._batch(inputs, tries)
        except _TooMuch as refused:
            taught = refused.lesson or await self._found_out(inputs, refused.failure)
            if refused.lesson == "shorter" and not chars:
                taught = await self._fewer_or_shorter(inputs)
            self._learn(taught, refused.failure, inputs)
        if taught not in ("fewer", "alone"):
            return await self._smaller_until_accepted(inputs, _TRIES_OF_LESS)
        size = self._accepted.texts
        portions = [inputs[start : start + size] for start in range(0, len(inputs), size)]
        return np.concatenate([await self._smaller_until_accepted(portion, _TRIES_OF_LESS) for portion in portions])

    async def _found_out(self, inputs: Sequence[str], failure: _Failure) -> Lesson:
        """What was too much, by single texts. Raises the failure's EmbeddingError when it was something else."""
        if await self._accepts(self._body([_BLANK])):
            return await self._fewer_or_shorter(inputs)
        body = self._body([_BLANK])
        if body.pop("dimensions", None) and await self._accepts(body):
            return "no dimensions"
        if self._accepted.lists and not failure.words and await self._accepts({**body, "input": _BLANK}):
            return "alone"
        raise failure.error

    async def _fewer_or_shorter(self, inputs: Sequence[str]) -> Lesson:
        """By the longest text alone: words about a length may mean all texts together (Databricks)."""
        is_alone = len(inputs) == 1
        return "shorter" if is_alone or not await self._accepts(self._body([max(inputs, key=len)])) else "fewer"

    async def _accepts(self, body: Mapping[str, Any]) -> bool:
        return isinstance(await self._try(body, Budget(_SECONDS)), httpx.Response)

    def _learn(self, taught: Lesson, failure: _Failure, inputs: Sequence[str]) -> None:
        """Raises EmbeddingError when nothing is left that could be made smaller."""
        if taught == "no dimensions":
            self._accepted.learn(dimensions=False)
        elif taught == "alone":
            self._accepted.learn(lists=False)
        elif taught == "fewer":
            self._accepted.learn(texts=fewer(failure.words, len(inputs)))
        else:
            longest = max(len(text) - len(self._prefix(text)) for text in inputs)
            if longest <= LEAST_CHARS:
                raise failure.error
            self._accepted.learn(chars=max(longest // 2, LEAST_CHARS))

    async def _means(self, inputs: Sequence[str], chars: int) -> Vectors:
        """Vectors of texts of which some are longer than ``chars``: each is the mean of its pieces, by their length."""
        cut = [pieces(text, chars, self._prefix(text)) for text in inputs]
        vectors = await self.embed([piece for parts in cut for piece in parts])
        ends = np.cumsum([len(parts) for parts in cut])
        means = [
            np.average(vectors[end - len(parts) : end], axis=0, weights=[len(part) for part in parts])
            for parts, end in zip(cut, ends, strict=True)
        ]
        try:
            return unit(np.array(means, dtype=np.float32))
        except ValueError as error:
            raise self._failure("unusable", quoted=str(error)) from error

    def _prefix(self, text: str) -> str:
        prefixes = (self.profile.query_prefix, self.profile.passage_prefix)
        return next((prefix for prefix in prefixes if prefix and text.startswith(prefix)), "")

    async def _batch(self, inputs: Sequence[str], tries: int) -> Vectors:
        return self._vectors(await self._post(self._body(inputs), len(inputs), tries), len(inputs))

    def _body(self, inputs: Sequence[str]) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.profile.model,
            "input": inputs if self._accepted.lists else inputs[0],
        }
        return {**body, "dimensions": self.profile.dimensions} if self._accepted.dimensions else body

    async def _post(self, body: Mapping[str, Any], texts: int, tries: int) -> Any:
        """The answer, after at most that many ``tries``. Raises EmbeddingError, or _TooMuch where a smaller request may
        be accepted."""
        budget, failures = Budget(_SECONDS), 0
        while True:
            outcome = await self._try(body, budget)
            if isinstance(outcome, httpx.Response):
                return await in_thread_if_long(self._json, outcome, size=len(outcome.content))
            is_list, sizes = isinstance(body["input"], list), "dimensions" in body
            taught = lesson(outcome.status, outcome.words, texts=texts, dimensions=sizes, lists=is_list)
            if taught:
                raise _TooMuch(outcome, taught)
            failures += 1
            # An answer with status 200 that has no vectors may be a failure that passes; it does not say.
            may_pass = failures == 1 if outcome.status == httpx.codes.OK else is_passing(outcome.status)
            wait = wait_before_retry(failures, outcome.wait, budget.left) if may_pass and failures < tries else None
            if wait is None:
                if may_be_too_much(outcome.status):
                    raise _TooMuch(outcome, None)
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
            return self._error_within(response) or response
        words = words_in(response.content)
        named = error_in(document_in(response.content))
        wait = retry_after(response.headers)
        wait = named.wait if wait is None and named else wait
        status = status_by_words(response.status_code, named.code if named else "", words, wait)
        code = str(status) if f"embedder_{status}" in ENGLISH else "failing"
        return _Failure(status, self._failure(code, status=status, quoted=_quoted(words)), wait, words)

    def _error_within(self, response: httpx.Response) -> _Failure | None:
        """The error that an answer with status 200 carries, or a page, if it is short enough to be one."""
        if len(response.content) >= _MOST_WORDS * 10:
            return None
        if not response.content.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"[")):
            return _Failure(httpx.codes.OK, self._failure("not_json"), words=words_in(response.content))
        error = error_in(document_in(response.content))
        if error is None:
            return None
        failure = self._failure("without_vectors", quoted=_quoted(error.message))
        # Its own status would be a guess.
        return _Failure(httpx.codes.OK, failure, words=error.message)

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
        rows = rows_in(answer)
        if rows is None or len(rows) != count:
            items = answer.get("data") if isinstance(answer, dict) else None
            if rows is None and not items:
                raise self._failure("without_vectors", quoted="")
            raise self._failure("miscounted", vectors=len(rows or items or ()), texts=count)
        return self._matrix(rows)

    def _matrix(self, rows: Sequence[Any]) -> Vectors:
        wanted, numbers = self.profile.dimensions, [numbers_in(row) for row in rows]
        for row in numbers:
            if row is None:
                raise self._failure("no_numbers", wanted=wanted)
            if len(row) != wanted:
                raise self._failure("dimensions", got=len(row), wanted=wanted)
        try:
            return unit(np.array(numbers, dtype=np.float32))
        except (TypeError, ValueError, OverflowError) as error:
            raise self._failure("unusable", quoted=str(error)) from error


def _quoted(words: str) -> str:
    return words[:_MOST_WORDS].rstrip(".")
