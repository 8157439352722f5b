"""A cross-encoder over HTTP: it reads a query together with each text and scores how well the text answers it.

``/rerank`` has two formats. Cohere, Jina, vLLM and llama.cpp take ``documents`` and answer ``results`` with
``relevance_score``. Text Embeddings Inference takes ``texts`` and answers a list with ``score``. The first is tried
first, the other when the endpoint refuses it; the one that worked is remembered. A failed call is not repeated: the
caller continues without scores.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import Any, Literal, Protocol

import httpx
import numpy as np

from memoryapp.engine.chat.cancellable_requests import TooLong, read_body, send
from memoryapp.engine.chat.redaction import redacted, without_login
from memoryapp.engine.storable import storable
from memoryapp.engine.text.lexical import Floats
from memoryapp.engine.threads import in_thread_if_long

_TIMEOUT = httpx.Timeout(600, connect=5, pool=5)
_MOST_CHARS = 8_000
_WORDS_CHARS = 200
# Some endpoints send the texts back with the scores.
_MOST_BYTES = 8_000_000
# Statuses of an endpoint that does not know the format of a request.
_REFUSALS = frozenset({400, 422})
# Larger log-odds make no difference to a probability.
_LEAST_CHANCE = 1e-4

Shape = Literal["documents", "texts"]
_SHAPES: tuple[Shape, Shape] = ("documents", "texts")


class CrossEncoderError(Exception):
    """The endpoint gave no scores; the text is for people."""


class CrossEncoder(Protocol):
    """Scores how well texts answer a query."""

    model: str

    async def scores(self, query: str, texts: Sequence[str], seconds: float) -> Floats:
        """A score for each text, in order; higher is better.

        Raises CrossEncoderError, also after ``seconds``.
        """
        ...


class HttpCrossEncoder:
    """The ``CrossEncoder`` behind a ``/rerank`` endpoint."""

    def __init__(self, http: httpx.AsyncClient, base_url: str, api_key: str, model: str) -> None:
        self.model = model
        self._http = http
        self._url = base_url.rstrip("/") + "/rerank"
        self._key = api_key
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._shape: Shape | None = None

    async def scores(self, query: str, texts: Sequence[str], seconds: float) -> Floats:
        if not texts:
            return np.zeros(0)
        try:
            async with asyncio.timeout(seconds):
                return await self._ask(storable(query), [storable(text)[:_MOST_CHARS] for text in texts])
        except TimeoutError:
            raise self._failure(f"did not answer within {seconds:.3g} seconds.") from None
        except TooLong:
            raise self._failure(f"answered more than {_MOST_BYTES:,} bytes.") from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise self._failure(f"cannot be reached: {error or type(error).__name__}.") from error

    async def _ask(self, query: str, texts: Sequence[str]) -> Floats:
        response = await self._post(self._shape or _SHAPES[0], query, texts)
        if response.status_code in _REFUSALS and self._shape is None:
            other = await self._post(_SHAPES[1], query, texts)
            if other.status_code == httpx.codes.OK:
                self._shape, response = _SHAPES[1], other
        if response.status_code != httpx.codes.OK:
            raise self._failure(f"answered {response.status_code}: {response.text[:_WORDS_CHARS]}")
        try:
            scores = _scores(await in_thread_if_long(response.json, size=len(response.content)), len(texts))
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
            raise self._failure("answered without a score for each text.") from error
        self._shape = self._shape or _SHAPES[0]
        return scores

    async def _post(self, shape: Shape, query: str, texts: Sequence[str]) -> httpx.Response:
        model = {"model": self.model} if self.model else {}
        more: Mapping[str, Any] = {"top_n": len(texts)} if shape == "documents" else {"truncate": True}
        body = {**model, "query": query, shape: texts, **more}
        request = self._http.build_request("POST", self._url, json=body, headers=self._headers, timeout=_TIMEOUT)
        async with aclosing(await send(self._http, request)) as response:
            return await read_body(response, _MOST_BYTES)

    def _failure(self, words: str) -> CrossEncoderError:
        """The sentence; without the API key, which the endpoint may have repeated."""
        return CrossEncoderError(redacted(f"The cross-encoder {without_login(self._url)} {words}", self._key))


def _scores(answer: Any, count: int) -> Floats:
    """The scores in the order of the texts. Raises ValueError, TypeError or KeyError when the answer lacks any."""
    rows = answer["results"] if isinstance(answer, dict) else answer
    known = {row["index"]: float(row.get("relevance_score", row.get("score"))) for row in rows}
    scores = np.array([known[place] for place in range(count)], dtype=np.float64)
    if not np.isfinite(scores).all():
        raise ValueError("a score is no number")
    return scores


def log_odds(scores: Floats) -> Floats:
    """Scores that can be compared by their differences: log-odds for probabilities, other scores unchanged."""
    if ((scores < 0) | (scores > 1)).any():
        return scores
    inside = np.clip(scores, _LEAST_CHANCE, 1 - _LEAST_CHANCE)
    odds: Floats = np.log(inside / (1 - inside))
    return odds
