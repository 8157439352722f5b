"""The client of ``/rerank`` endpoints: both shapes of answers, and every failure."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import httpx
import numpy as np
import pytest

from memoryapp.engine.chat.cross_encoder import CrossEncoderError, HttpCrossEncoder, log_odds

KEY = "secret-key-of-a-provider"


def cohere(request: httpx.Request) -> httpx.Response:
    body = json.loads(request.content)
    rows = [{"index": n, "relevance_score": len(text) / 10} for n, text in enumerate(body["documents"])]
    return httpx.Response(200, json={"results": rows[::-1]})


def inference(request: httpx.Request) -> httpx.Response:
    body = json.loads(request.content)
    if "texts" not in body:
        return httpx.Response(422, json={"error": "missing field `texts`", "error_type": "Validation"})
    return httpx.Response(200, json=[{"index": n, "score": float(len(t))} for n, t in enumerate(body["texts"])])


def encoder(answer: Callable[[httpx.Request], httpx.Response]) -> tuple[HttpCrossEncoder, list[Any]]:
    """Returns a client of an endpoint with these answers, and the bodies that the endpoint received."""
    bodies: list[Any] = []

    def handle(request: httpx.Request) -> httpx.Response:
        bodies.append(json.loads(request.content))
        return answer(request)

    http = httpx.AsyncClient(transport=httpx.MockTransport(handle))
    return HttpCrossEncoder(http, "https://rerank.example/v1/", KEY, "reranker-v2"), bodies


async def test_scores_come_in_the_order_of_the_texts() -> None:
    asked, bodies = encoder(cohere)
    assert (await asked.scores("q", ["a", "bbb"], 5)).tolist() == [0.1, 0.3]
    assert bodies == [{"model": "reranker-v2", "query": "q", "documents": ["a", "bbb"], "top_n": 2}]


async def test_an_endpoint_of_the_other_shape_is_understood_once_for_all() -> None:
    asked, bodies = encoder(inference)
    for _call in range(2):
        assert (await asked.scores("q", ["a", "bbb"], 5)).tolist() == [1.0, 3.0]
    assert ["texts" in body for body in bodies] == [False, True, True]


async def test_without_texts_nobody_is_asked() -> None:
    asked, bodies = encoder(cohere)
    assert len(await asked.scores("q", [], 5)) == 0
    assert bodies == []


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(500, text="overloaded"),
        httpx.Response(401, json={"message": f"bad key {KEY}"}),
        httpx.Response(400, json={"message": "no such model"}),
        httpx.Response(200, text="not json"),
        httpx.Response(200, json={"results": [{"index": 0, "relevance_score": 0.5}]}),
        httpx.Response(200, json={"results": [{"index": 0}, {"index": 1}]}),
        httpx.Response(200, json={"answer": 42}),
        httpx.Response(200, content=b'[{"index": 0, "score": NaN}, {"index": 1, "score": 1}]'),
        httpx.Response(200, json="results"),
        httpx.Response(200, json=[{"index": 0, "score": 10**400}, {"index": 1, "score": 1}]),
        httpx.Response(200, content=b"[" * 100_000),
        httpx.Response(200, content=b" " * 8_000_001),
    ],
    ids=lambda answer: f"{answer.status_code} {answer.content[:20]!r}",
)
async def test_after_a_failure_in_one_sentence_the_next_call_works(answer: httpx.Response) -> None:
    faults = [answer]
    asked, _bodies = encoder(lambda request: faults[0] if faults else cohere(request))
    with pytest.raises(
        CrossEncoderError, match="The cross-encoder https://rerank.example/v1/rerank answered"
    ) as failure:
        await asked.scores("q", ["a", "bbb"], 5)
    assert KEY not in str(failure.value)
    faults.clear()
    assert (await asked.scores("q", ["a", "bbb"], 5)).tolist() == [0.1, 0.3]


async def test_one_that_hangs_or_breaks_off_is_left_and_asked_again() -> None:
    faults: list[Any] = [asyncio.Event().wait, None]

    async def handle(request: httpx.Request) -> httpx.Response:
        if not faults:
            return cohere(request)
        if waits := faults.pop(0):
            await waits()
        raise httpx.ReadError("broken off")

    asked = HttpCrossEncoder(httpx.AsyncClient(transport=httpx.MockTransport(handle)), "https://r.example", "", "")
    with pytest.raises(CrossEncoderError, match=r"did not answer within 0.05 seconds"):
        await asked.scores("q", ["a"], 0.05)
    with pytest.raises(CrossEncoderError, match="cannot be reached: broken off"):
        await asked.scores("q", ["a"], 5)
    assert (await asked.scores("q", ["a"], 5)).tolist() == [0.1]


async def test_a_password_in_the_address_is_not_shown() -> None:
    http = httpx.AsyncClient(transport=httpx.MockTransport(lambda request: httpx.Response(401, text="no")))
    asked = HttpCrossEncoder(http, "https://ada:pa55@rerank.example/v1", "", "")
    with pytest.raises(CrossEncoderError, match="The cross-encoder https://rerank.example/v1/rerank answered 401"):
        await asked.scores("q", ["a"], 5)


def test_probabilities_are_compared_by_their_log_odds_and_other_scores_as_they_are() -> None:
    odds = log_odds(np.array([0.0, 0.5, 1.0]))
    assert odds.tolist() == pytest.approx([-np.log(9999), 0, np.log(9999)])
    assert log_odds(np.array([-3.0, 8.5])).tolist() == [-3.0, 8.5]
