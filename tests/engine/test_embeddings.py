"""The embedding endpoint's reply is used only after it was checked."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import numpy as np
import pytest

from memoryapp.engine import http_embedder
from memoryapp.engine.embeddings import EmbeddingError, Profile
from memoryapp.engine.http_embedder import HttpEmbedder

PROFILE = Profile("http://models.test/v1", "small", 3, 0.3)


def embedder(answer: Callable[[httpx.Request], httpx.Response]) -> HttpEmbedder:
    http = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    return HttpEmbedder(http, "http://models.test/v1/", "key", PROFILE)


def vector_of(text: str) -> list[float]:
    return [float(len(text)), 1.0, 0.0]


def honest(request: httpx.Request) -> httpx.Response:
    texts = json.loads(request.content)["input"]
    items = [{"index": i, "embedding": vector_of(text)} for i, text in enumerate(texts)]
    return httpx.Response(200, json={"data": items[::-1]})


def replying(body: Any, status: int = 200) -> Callable[[httpx.Request], httpx.Response]:
    return lambda request: httpx.Response(status, json=body)


async def test_vectors_come_in_the_order_of_the_texts_and_have_unit_length() -> None:
    vectors = await embedder(honest).embed(["a", "abcd"])
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1)
    assert vectors[1][0] > vectors[0][0]
    assert vectors.dtype == np.float32


async def test_many_texts_go_in_batches_to_the_right_address_with_the_key() -> None:
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return honest(request)

    vectors = await embedder(answer).embed([f"text {n}" for n in range(230)])
    assert vectors.shape == (230, 3)
    assert [len(json.loads(request.content)["input"]) for request in seen] == [100, 100, 30]
    assert {str(request.url) for request in seen} == {"http://models.test/v1/embeddings"}
    assert seen[0].headers["authorization"] == "Bearer key"
    assert json.loads(seen[0].content)["dimensions"] == 3


async def test_no_texts_make_no_call() -> None:
    assert (await embedder(replying({}, 500)).embed([])).shape == (0, 3)


async def test_texts_that_endpoints_refuse_are_made_acceptable() -> None:
    seen: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.extend(json.loads(request.content)["input"])
        return honest(request)

    await embedder(answer).embed(["", " \n", "a\x00b", "\ud800", "x" * 100_000])
    assert all(text.strip() and "\x00" not in text and len(text) < 10_000 for text in seen)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"data": [{"index": 0, "embedding": [1, 0, 0]}]}, "1 vectors for 2 texts"),
        ({"data": [{"index": 1, "embedding": [1, 0, 0]}, {"index": 1, "embedding": [1, 0, 0]}]}, "vectors for 2 texts"),
        ({"data": [{"index": [], "embedding": [1, 0, 0]}, {"index": 1, "embedding": [1, 0, 0]}]}, "for 2 texts"),
        ({"data": [{"index": i, "embedding": [1, 0]} for i in (0, 1)]}, "2 dimensions; EMBEDDING_DIMENSIONS is 3"),
        ({"data": [{"index": i, "embedding": "abc="} for i in (0, 1)]}, "no list of numbers"),
        ({"data": [{"index": i, "embedding": [0, 0, 0]} for i in (0, 1)]}, "no direction"),
        ({"data": [{"index": i, "embedding": ["x", 0, 0]} for i in (0, 1)]}, "cannot be used"),
        ({"data": [{"index": i, "embedding": [10**400, 0, 0]} for i in (0, 1)]}, "cannot be used"),
        ({"data": None}, "without embeddings"),
        ({"error": {"message": "no such model"}}, "no such model"),
        ([], "without embeddings"),
    ],
)
async def test_a_reply_that_does_not_fit_is_refused_with_a_sentence(body: Any, sentence: str) -> None:
    with pytest.raises(EmbeddingError, match=sentence):
        await embedder(replying(body)).embed(["one", "two"])


@pytest.mark.parametrize(
    ("content", "sentence"),
    [(b" " * 32_000_001, "answered more than 32,000,000 bytes"), (b"[" * 100_000, "did not answer with JSON")],
    ids=["without end", "deep"],
)
async def test_a_reply_that_nobody_could_read_is_refused_with_a_sentence(content: bytes, sentence: str) -> None:
    with pytest.raises(EmbeddingError, match=sentence):
        await embedder(lambda request: httpx.Response(200, content=content)).embed(["one"])


async def test_a_refusal_tells_status_and_reason_and_is_not_tried_again() -> None:
    calls: list[int] = []

    def answer(request: httpx.Request) -> httpx.Response:
        calls.append(1)
        return httpx.Response(401, json={"error": {"message": "bad key."}})

    with pytest.raises(EmbeddingError, match="answered 401: bad key"):
        await embedder(answer).embed(["one"])
    assert calls == [1]


async def test_a_busy_endpoint_is_asked_again_after_the_time_it_names(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(http_embedder.asyncio, "sleep", sleep)
    answers = iter([httpx.Response(429, headers={"retry-after": "7"}), httpx.Response(503)])
    made = embedder(lambda request: next(answers, None) or honest(request))
    assert len(await made.embed(["one"])) == 1
    assert waits == [7.0, 1.0]


@pytest.mark.parametrize("status", [0, 408, 429, 500, 503, 524])
async def test_a_passing_failure_is_retried_as_often_as_for_a_chat_model_and_then_reported(
    status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    def answer(request: httpx.Request) -> httpx.Response:
        if status:
            return httpx.Response(status, json={"error": {"message": "busy"}})
        raise httpx.ReadError("the line broke")

    monkeypatch.setattr(http_embedder.asyncio, "sleep", sleep)
    with pytest.raises(EmbeddingError, match=f"answered {status}: busy" if status else "the line broke"):
        await embedder(answer).embed(["one"])
    assert waits == [0.5, 1.0, 2.0, 4.0]
    assert len(await embedder(honest).embed(["one"])) == 1


async def test_a_date_is_a_time_to_wait_for_and_one_beyond_the_time_left_ends_at_once() -> None:
    tries: list[int] = []

    def answer(request: httpx.Request) -> httpx.Response:
        tries.append(1)
        return httpx.Response(429, headers={"retry-after": "Fri, 01 Jan 2100 00:00:00 GMT"})

    with pytest.raises(EmbeddingError, match="answered 429"):
        await embedder(answer).embed(["one"])
    assert tries == [1]


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (httpx.ConnectError("refused"), "cannot be reached"),
        (httpx.ConnectTimeout("late"), "cannot be reached"),
        (httpx.ReadTimeout("late"), "did not answer within"),
        (httpx.UnsupportedProtocol("no http"), "cannot be asked"),
    ],
)
async def test_a_broken_line_is_a_sentence(
    error: httpx.HTTPError, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def sleep(seconds: float) -> None:
        """Sleeping takes no time."""

    monkeypatch.setattr(http_embedder.asyncio, "sleep", sleep)

    def answer(request: httpx.Request) -> httpx.Response:
        raise error

    with pytest.raises(EmbeddingError, match=sentence):
        await embedder(answer).embed(["one"])


@pytest.mark.parametrize(
    ("status", "advice"),
    [
        (401, "answered 401: no; check EMBEDDING_API_KEY."),
        (402, "answered 402: no; top up the account there."),
        (403, "answered 403: no; check what the key may do."),
        (404, "answered 404: no; check EMBEDDING_BASE_URL and EMBEDDING_MODEL."),
        (400, "answered 400: no."),
    ],
)
async def test_a_refusal_says_what_to_do(status: int, advice: str) -> None:
    with pytest.raises(EmbeddingError) as refusal:
        await embedder(replying({"error": {"message": "no"}}, status)).embed(["one"])
    assert str(refusal.value).endswith(advice)


async def test_a_password_in_the_address_is_not_shown() -> None:
    http = httpx.AsyncClient(transport=httpx.MockTransport(replying({}, 401)))
    asked = HttpEmbedder(http, "http://ada:pa55@models.test/v1", "", PROFILE)
    with pytest.raises(EmbeddingError, match="endpoint http://models.test/v1/embeddings answered 401"):
        await asked.embed(["one"])


async def test_a_page_of_html_is_a_sentence() -> None:
    with pytest.raises(EmbeddingError, match="did not answer with JSON"):
        await embedder(lambda request: httpx.Response(200, text="<html>")).embed(["one"])


async def test_the_api_key_in_an_endpoints_error_is_not_shown() -> None:
    echo = httpx.Response(401, json={"error": {"message": "Incorrect API key: a-key-of-12"}})
    http = httpx.AsyncClient(transport=httpx.MockTransport(lambda request: echo))
    with pytest.raises(EmbeddingError, match=r"Incorrect API key: \[API key\]"):
        await HttpEmbedder(http, "http://models.test/v1/", "a-key-of-12", PROFILE).embed(["one"])
