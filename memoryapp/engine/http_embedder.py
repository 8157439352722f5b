"""An embedder for any OpenAI-compatible ``/embeddings`` endpoint.

Every answer is checked before it is used: count, order, dimensions, length. What an endpoint refuses because it is too
much is sent in smaller portions; a text that is too long for the model gets the mean vector of its pieces. Where the
words of a refusal do not say what was too much, single texts find it out."""

import asyncio
import base64
import binascii
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Literal

import httpx
import numpy as np

from memoryapp.engine.beside import table_beside
from memoryapp.engine.budget import Budget
from memoryapp.engine.chat import attempt
from memoryapp.engine.chat.refusals import document_in, error_in, redacted, status_by_words, without_login, words_in
from memoryapp.engine.embeddings import EmbeddingError, Profile, Vectors, unit
from memoryapp.engine.json_values import storable
from memoryapp.engine.notes import ENGLISH, Note
from memoryapp.engine.threads import in_thread_if_long

# What the refusal of an embedding endpoint teaches: fewer texts, shorter texts, a request without ``dimensions``, or
# a text alone in place of a list.
#
# The limits are those of the endpoint and its model; nobody should have to know them. A limit that the words name is
# taken, otherwise what was sent is halved.

Lesson = Literal["fewer", "shorter", "no dimensions", "alone"]

# The batch limit of gemini-embedding-001; other endpoints accept more, but gain little by it.
MOST_TEXTS = 100
# A model that reads less than a sentence is none.
LEAST_CHARS_OF_A_TEXT = 60
_REMEMBERED_SECONDS = 6 * 3600.0
# These say something about the account or the moment, whatever their words; those below also about the address, unless
# their words name a parameter.
_OF_ACCOUNT = frozenset({401, 402, 408, 429})
_OF_ADDRESS = frozenset({403, 404})
_TOO_LARGE = 413
# A refusal; 200 is one with an error inside.
_UNNAMED = frozenset({200, 400, 422})
# What they say, each a list of phrases of which one is enough.
_PHRASES = {name: re.compile("|".join(each), re.IGNORECASE) for name, each in table_beside(__file__).items()}
_NAMED_LIMIT = re.compile(
    r"(?:larger than|less than|at most|no more than|up to|batch size|inputs is|maximum length|limit(?: is| of)?|<=?|>)"
    r"[ :=]{1,3}(\d{1,4})(?!\d| ?tok)",
    re.IGNORECASE,
)


@dataclass(slots=True)
class Accepted:
    """What an endpoint was found to accept: texts in a request, characters in a text (0: not limited), whether the
    length of vectors may be asked for, and whether texts may come as a list. It is forgotten after six hours by
    ``clock``, because models change."""

    clock: Callable[[], float] = time.monotonic
    _texts: int = MOST_TEXTS
    _chars: int = 0
    _dimensions: bool = True
    _lists: bool = True
    _until: float = field(default=0.0)

    @property
    def texts(self) -> int:
        self._forget()
        return self._texts

    @property
    def chars(self) -> int:
        self._forget()
        return self._chars

    @property
    def dimensions(self) -> bool:
        self._forget()
        return self._dimensions

    @property
    def lists(self) -> bool:
        self._forget()
        return self._lists

    def learn(self, *, texts: int = 0, chars: int = 0, dimensions: bool = True, lists: bool = True) -> None:
        """Remembers a lower limit. Without lists, one text is sent at a time."""
        self._forget()
        self._lists = self._lists and lists
        self._texts = min(self._texts, texts or self._texts) if self._lists else 1
        self._chars = min(self._chars or chars, chars or self._chars)
        self._dimensions = self._dimensions and dimensions
        self._until = self.clock() + _REMEMBERED_SECONDS

    def _forget(self) -> None:
        if self._until and self.clock() >= self._until:
            self._texts, self._chars, self._dimensions, self._lists, self._until = MOST_TEXTS, 0, True, True, 0.0


def lesson(status: int, words: str, *, texts: int, dimensions: bool, lists: bool) -> Lesson | None:
    """What a refusal of that many ``texts`` teaches; None when nothing could be left out."""
    if status in _OF_ACCOUNT:
        return None
    if dimensions and _PHRASES["names_dimensions"].search(words):
        return "no dimensions"
    if status in _OF_ADDRESS:
        return None
    if texts > 1 and _PHRASES["too_many"].search(words) and "physical batch" not in words:
        return "fewer"
    if lists and _PHRASES["wants_text"].search(words):
        return "alone"
    if _PHRASES["too_long"].search(words) or (status == _TOO_LARGE and texts == 1):
        return "shorter"
    return "fewer" if status == _TOO_LARGE else None


def fewer(words: str, texts: int) -> int:
    """How many texts are sent instead: what the words name, or half."""
    named = [int(number) for number in _NAMED_LIMIT.findall(words)]
    return next((number for number in named if 0 < number < texts), max(texts // 2, 1))


def pieces(text: str, chars: int, prefix: str) -> list[str]:
    """The text in pieces of at most that many characters, cut between words where there are some; each has the
    ``prefix`` with which the text begins, which does not count."""
    rest, cut = text.removeprefix(prefix), list[str]()
    while len(rest) > chars:
        space = rest.rfind(" ", chars // 2, chars)
        end = space if space > 0 else chars
        cut.append(prefix + rest[:end].strip())
        rest = rest[end:].strip()
    return [*cut, prefix + rest]


# Reads the replies of ``/embeddings`` endpoints as one row of numbers for each text.
#
# Rows come in OpenAI's ``data``, or in the lists of Ollama, Cohere, Google, MiniMax and older llama.cpp servers, some
# within an envelope (Cloudflare, DashScope); numbers come as a list, as base64, or as JSON in a text. Gemini leaves
# out the index 0, others every index, or number all rows 0; then the order counts.


def rows_in(answer: Any) -> list[Any] | None:
    """The rows in the order of the reply's indexes; None when the reply has no embeddings."""
    items = _items(answer) if isinstance(answer, dict) else answer
    if not isinstance(items, list) or not items:
        return None
    if len(items) == 1 and isinstance(items[0], dict):
        row = _row(items[0])
        # The vectors of several texts in one row.
        if isinstance(row, list) and len(row) > 1 and all(isinstance(each, list) for each in row):
            return list(row)
    if all(isinstance(item, list) for item in items):
        return items
    if not all(isinstance(item, dict) for item in items):
        return None
    places = _places([item.get("index", item.get("text_index")) for item in items])
    return None if places is None else [_row(items[place]) for place in places]


def _items(answer: dict[str, Any], depth: int = 2) -> Any:
    """The list of rows in a document, or in its envelope; None where there is none."""
    items = next((answer[key] for key in ("data", "embeddings", "vectors") if isinstance(answer.get(key), list)), None)
    by_type = answer.get("embeddings")
    if items is None and isinstance(by_type, dict):
        items = by_type.get("float", by_type.get("float_"))
    if items is None and isinstance(answer.get("embedding"), list):
        return [answer]
    inner = next((answer[key] for key in ("data", "result", "output") if isinstance(answer.get(key), dict)), None)
    return _items(inner, depth - 1) if items is None and inner and depth else items


def _row(item: dict[str, Any]) -> Any:
    return next((item[key] for key in ("embedding", "values", "vector", "dense_embedding") if key in item), None)


def numbers_in(row: Any) -> Sequence[Any] | None:
    """The numbers of a row: a list, a list in a list, or the base64 of little-endian floats; None for anything else."""
    if isinstance(row, dict):
        row = row.get("float")
    if isinstance(row, list) and len(row) == 1 and isinstance(row[0], list):
        row = row[0]
    if isinstance(row, list):
        return row
    if isinstance(row, str) and row.lstrip().startswith("["):
        try:
            numbers = json.loads(row)
        except (ValueError, RecursionError):
            return None
        return numbers if isinstance(numbers, list) else None
    try:
        content = base64.b64decode(row, validate=True) if isinstance(row, str) else b""
    except (binascii.Error, ValueError):
        return None
    return np.frombuffer(content, dtype="<f4").tolist() if content and len(content) % 4 == 0 else None


def _places(indexes: Sequence[Any]) -> list[int] | None:
    """Where in the reply the row of each text is; None when the indexes contradict each other."""
    count = len(indexes)
    given = [_index(index, place) for place, index in enumerate(indexes)]
    if all(index == 0 for index in given):
        return list(range(count))
    if sorted(given) == list(range(1, count + 1)):
        given = [index - 1 for index in given]
    if sorted(given) != list(range(count)):
        return None
    return sorted(range(count), key=given.__getitem__)


def _index(index: Any, place: int) -> int:
    if index is None:
        return place
    if isinstance(index, str) and index.isdecimal() and len(index) < 10:
        return int(index)
    if isinstance(index, float) and index.is_integer():
        return int(index)
    return index if isinstance(index, int) and not isinstance(index, bool) else -1


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
    """An attempt without vectors: its HTTP status, the error, the endpoint's ``words``, and the wait it asks for."""

    status: int
    error: EmbeddingError
    wait: float | None = None
    words: str = ""


class _TooMuch(Exception):
    """A request that may be accepted smaller, or without ``dimensions``; without a ``lesson`` it is open which."""

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

    async def _smaller_until_accepted(self, inputs: Sequence[str], tries: int = attempt.TRIES) -> Vectors:
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
            if longest <= LEAST_CHARS_OF_A_TEXT:
                raise failure.error
            self._accepted.learn(chars=max(longest // 2, LEAST_CHARS_OF_A_TEXT))

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
        body: dict[str, Any] = {"model": self.profile.model, "input": inputs if self._accepted.lists else inputs[0]}
        return {**body, "dimensions": self.profile.dimensions} if self._accepted.dimensions else body

    async def _post(self, body: Mapping[str, Any], texts: int, tries: int) -> Any:
        """The answer, after at most that many ``tries``. Raises EmbeddingError, or _TooMuch."""
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
            may_pass = failures == 1 if outcome.status == httpx.codes.OK else attempt.is_passing(outcome.status)
            wait = (
                attempt.wait_before_retry(failures, outcome.wait, budget.left)
                if may_pass and failures < tries
                else None
            )
            if wait is None:
                # Its words teach nothing, and yet it may be one of too much: Ollama's runner even crashes.
                if outcome.status in _UNNAMED or outcome.status >= 500:
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
            return _Failure(attempt.NO_ANSWER, self._failure("unreachable", quoted="no connection"))
        except (TimeoutError, httpx.TimeoutException) as error:
            raise self._failure("late", seconds=_SECONDS) from error
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            raise self._failure("unaskable", quoted=str(error)) from error
        except attempt.TooLong as error:
            raise self._failure("too_long", bytes=_MOST_BYTES) from error
        except httpx.HTTPError as error:
            return _Failure(attempt.NO_ANSWER, self._failure("unreachable", quoted=str(error) or type(error).__name__))
        if response.status_code == httpx.codes.OK:
            return self._error_within(response) or response
        words = words_in(response.content)
        named = error_in(document_in(response.content))
        wait = attempt.retry_after(response.headers)
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
        async with aclosing(await attempt.send(self._http, request)) as response:
            return await attempt.read_body(response, _MOST_BYTES)

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
