"""A cross-encoder over HTTP: it reads a query together with each text and scores how well the text answers it.

``/rerank`` has two requests. Cohere, Jina, Voyage, vLLM and llama.cpp take ``documents``, Text Embeddings Inference
takes ``texts``; the second is tried where the first is refused. What an endpoint refuses in words is left out (Voyage
knows no ``top_n``) or made smaller (Text Embeddings Inference takes so many texts at once). What worked is remembered.
The answers are a list of scores by ``index``, alone or under one of several names (``results``, ``data``, DashScope's
``output.results``, NVIDIA's ``rankings``), or the scores alone, in order (DeepInfra). An answer for some of the texts
counts for those: who answers with the best only gives the rest no better score than the last of them. A failed call is
not repeated: the caller continues without scores."""

import asyncio
import json
import math
import re
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import httpx
import numpy as np

from memoryapp.engine.chat.attempt import TooLong, read_body, send
from memoryapp.engine.chat.refusals import redacted, without_login
from memoryapp.engine.json_values import storable
from memoryapp.engine.text.lexical import Floats
from memoryapp.engine.threads import in_thread_if_long

_TIMEOUT = httpx.Timeout(600, connect=5, pool=5)
_MOST_CHARS = 8_000
_WORDS_CHARS = 200
# Some endpoints send the texts back with the scores.
_MOST_BYTES = 8_000_000
# Statuses of an endpoint that refuses a request for its form, its words or its size.
_REFUSALS = frozenset({400, 413, 422, 424, 500, 501})
# Words about the size of a request. TEI: "batch size 8 > maximum allowed batch size 4".
_TOO_MANY = re.compile(
    r"batch.{0,40}(?:size|large|limit|max)|too (?:many|large|long|big)"
    r"|(?:maximum|max|limit|exceed|at most|no more than)\w{0,4}.{0,60}"
    r"(?:document|text|input|item|batch|token|passage|size)"
    r"|(?:document|text|input|item|passage|token)s?.{0,60}(?:maximum|exceed|limit|at most|no more than)",
    re.IGNORECASE,
)
_NAMES_COUNT = re.compile(r"top[_ ]?[nk]", re.IGNORECASE)
_WANTS_OBJECTS = re.compile(r"valid (?:dict|object|mapping)|expected (?:a )?(?:dict|object|struct|map)", re.IGNORECASE)
_TOO_LARGE = 413
# Larger log-odds make no difference to a probability.
_LEAST_CHANCE = 1e-4
# Under which names the list of scores stands, and a score in its row.
_LISTS = (
    *("results", "data", "output", "rankings", "scores", "result", "reranked_documents", "rerank_results"),
    "response",
)
_SCORES = ("relevance_score", "relevanceScore", "score", "logit", "relevance", "similarity")
_PLACES = ("index", "document_index", "corpus_id", "id")

Shape = Literal["documents", "objects", "texts"]


@dataclass(frozen=True, slots=True)
class _Way:
    """How an endpoint is asked: under which name it takes the texts, and at most how many; 0 for all."""

    shape: Shape = "documents"
    with_count: bool = True
    at_once: int = 0


class CrossEncoderError(Exception):
    """The endpoint gave no scores; the text is for people."""


class CrossEncoder(Protocol):
    """Scores how well texts answer a query."""

    model: str

    async def scores(self, query: str, texts: Sequence[str], seconds: float) -> Floats:
        """A score for each text, in order; higher is better. A text without one has the lowest of the others. Raises
        CrossEncoderError, also after ``seconds``."""
        ...


class HttpCrossEncoder:
    """The ``CrossEncoder`` behind a ``/rerank`` endpoint."""

    def __init__(self, http: httpx.AsyncClient, base_url: str, api_key: str, model: str) -> None:
        self.model = model
        self._http = http
        self._url = base_url.rstrip("/") + "/rerank"
        self._key = api_key
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._way = _Way()

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
        """Asks in the way that is known to work, else in others that the refusals suggest; the last one is quoted, for
        it speaks of the request that came nearest."""
        way, tried = self._way, set[_Way]()
        while True:
            tried.add(way)
            answers = list[httpx.Response]()
            for part in _parts(texts, way.at_once):
                answers.append(await self._post(way, query, part))
                if answers[-1].status_code != httpx.codes.OK:
                    break
            else:
                break
            refused = answers[-1]
            other = _other_way(way, refused, len(texts)) if refused.status_code in _REFUSALS else None
            if other is None or other in tried:
                raise self._failure(f"answered {refused.status_code}: {refused.text[:_WORDS_CHARS]}")
            way = other
        scores = [
            await in_thread_if_long(_scores, answer.content, len(part), size=len(answer.content))
            for answer, part in zip(answers, _parts(texts, way.at_once), strict=True)
        ]
        found: Floats = np.concatenate(scores)
        if not np.isfinite(found).any():
            raise self._failure("answered without a score for any text.")
        self._way = way
        return np.nan_to_num(found, nan=float(np.nanmin(found)))

    async def _post(self, way: _Way, query: str, texts: Sequence[str]) -> httpx.Response:
        model = {"model": self.model} if self.model else {}
        more: Mapping[str, Any] = {"truncate": True}
        given: Sequence[Any] = texts
        if way.shape != "texts":
            more = {"top_n": len(texts)} if way.with_count else {}
            given = [{"text": text} for text in texts] if way.shape == "objects" else texts
        body = {**model, "query": query, "texts" if way.shape == "texts" else "documents": given, **more}
        request = self._http.build_request("POST", self._url, json=body, headers=self._headers, timeout=_TIMEOUT)
        async with aclosing(await send(self._http, request)) as response:
            return await read_body(response, _MOST_BYTES)

    def _failure(self, words: str) -> CrossEncoderError:
        """The sentence; without the API key, which the endpoint may have repeated."""
        return CrossEncoderError(redacted(f"The cross-encoder {without_login(self._url)} {words}", self._key))


def _parts(texts: Sequence[str], most: int) -> list[Sequence[str]]:
    """The texts in parts of at most ``most``; 0 means all at once."""
    return [texts[start : start + most] for start in range(0, len(texts), most)] if most else [texts]


def _other_way(way: _Way, refused: httpx.Response, count: int) -> _Way | None:
    """The way that a refusal suggests; None where it suggests none."""
    words = refused.text
    is_size = refused.status_code == _TOO_LARGE or (_TOO_MANY.search(words) and not _NAMES_COUNT.search(words))
    if is_size and (way.at_once or count) > 1:
        return replace(way, at_once=max((min(way.at_once or count, count)) // 2, 1))
    if way.shape != "texts" and way.with_count and _NAMES_COUNT.search(words):
        return replace(way, with_count=False)
    if way.shape == "documents" and _WANTS_OBJECTS.search(words):
        return replace(way, shape="objects")
    # A server that fails says nothing of the form of a request.
    if way.shape == "documents" and refused.status_code < httpx.codes.INTERNAL_SERVER_ERROR:
        return replace(way, shape="texts")
    return None


def _scores(content: bytes, count: int) -> Floats:
    """The scores in the order of the texts, NaN where the answer has none."""
    scores = np.full(count, np.nan)
    try:
        rows = _rows(json.loads(content))
    except (ValueError, RecursionError):
        return scores
    in_order = len(rows) == count
    for place, row in enumerate(rows):
        fields = row if isinstance(row, dict) else {"score": row}
        index = next((fields[key] for key in _PLACES if key in fields), place if in_order else None)
        score = _number(next((fields[key] for key in _SCORES if key in fields), None))
        at = _number(index)
        if math.isfinite(at) and at == int(at) and 0 <= at < count:
            scores[int(at)] = score
    return scores


def _rows(answer: Any, levels: int = 3) -> list[Any]:
    """The list of scores in an answer, wherever it stands."""
    if isinstance(answer, list):
        # Some servers answer a list for each of several queries.
        return _rows(answer[0], levels - 1) if len(answer) == 1 and isinstance(answer[0], list) and levels else answer
    if not (isinstance(answer, dict) and levels):
        return []
    inner = (_rows(answer[key], levels - 1) for key in _LISTS if isinstance(answer.get(key), list | dict))
    return next(filter(None, inner), [])


def _number(value: Any) -> float:
    """A finite number, also one written as a text; NaN for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return math.nan
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return math.nan
    return number if math.isfinite(number) else math.nan


def log_odds(scores: Floats) -> Floats:
    """Scores that can be compared by their differences: log-odds for probabilities, other scores unchanged."""
    if ((scores < 0) | (scores > 1)).any():
        return scores
    inside = np.clip(scores, _LEAST_CHANCE, 1 - _LEAST_CHANCE)
    odds: Floats = np.log(inside / (1 - inside))
    return odds
