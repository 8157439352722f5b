"""The client of ``/rerank`` endpoints: both shapes of answers, and every failure."""

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


def at(name: str, *scores: Any) -> list[dict[str, Any]]:
    return [{"index": place, name: score} for place, score in enumerate(scores)][::-1]


ANSWERS: dict[str, Any] = {
    "Cohere, Jina": {"results": at("relevance_score", 0.1, 0.3)},
    "Voyage": {"object": "list", "data": at("relevance_score", 0.1, 0.3), "usage": {"total_tokens": 9}},
    "vLLM /score": {"object": "list", "data": at("score", 0.1, 0.3)},
    "Text Embeddings Inference": at("score", 0.1, 0.3),
    "DashScope": {"output": {"results": at("relevance_score", 0.1, 0.3)}, "request_id": "r"},
    "NVIDIA": {"rankings": at("logit", 0.1, 0.3)},
    "DeepInfra": {"scores": [0.1, 0.3], "input_tokens": 9},
    "a list for each query": {"scores": [[0.1, 0.3]]},
    "scores alone": [0.1, 0.3],
    "scores as texts": {"results": at("relevance_score", "0.1", "0.3")},
    "without places, in order": {"results": [{"relevance_score": 0.1}, {"relevance_score": 0.3}]},
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
async def test_scores_are_read_from_every_envelope(answer: Any) -> None:
    """docs.voyageai.com/reference/reranker-api, docs.vllm.ai, Alibaba's text rerank API, docs.api.nvidia.com,
    deepinfra.com/…/api."""
    asked, _bodies = encoder(lambda request: httpx.Response(200, json=answer))
    assert (await asked.scores("q", ["a", "bbb"], 5)).tolist() == [0.1, 0.3]


@pytest.mark.parametrize(
    ("rows", "scores"),
    [
        (at("score", 0.5), [0.5, 0.5, 0.5]),
        ([{"index": 2, "score": 0.9}, {"index": 0, "score": 0.4}], [0.4, 0.4, 0.9]),
        ([{"index": 2, "score": 0.9}, {"index": 0}, {"index": 9, "score": 3}, "?"], [0.9, 0.9, 0.9]),
    ],
)
async def test_a_partial_answer_counts_for_what_it_gives(rows: list[Any], scores: list[float]) -> None:
    asked, _bodies = encoder(lambda request: httpx.Response(200, json={"results": rows}))
    assert (await asked.scores("q", ["a", "b", "c"], 5)).tolist() == scores


def refusing(**by: tuple[int, str, Callable[[Any], bool]]) -> Callable[[httpx.Request], httpx.Response]:
    """An endpoint of Cohere's or of TEI's shape that refuses what these conditions find in a body."""

    def answer(request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        for status, words, refuses in by.values():
            if refuses(body):
                return httpx.Response(status, json={"error": words})
        texts = [text if isinstance(text, str) else text["text"] for text in body.get("documents") or body["texts"]]
        return httpx.Response(200, json={"results": at("score", *(float(len(text)) for text in texts))})

    return answer


def count(body: Any) -> int:
    return len(body.get("documents") or body.get("texts"))


REFUSALS: dict[str, dict[str, Any]] = {
    "Voyage, top_n": {"a": (400, "Argument 'top_n' is not supported by our API", lambda body: "top_n" in body)},
    "strict, top_n": {"a": (422, "top_n: extra fields not permitted", lambda body: "top_n" in body)},
    "TEI, a limit": {
        "a": (422, "missing field `texts`", lambda body: "texts" not in body),
        "b": (413, "batch size 5 > maximum allowed batch size 2", lambda body: count(body) > 2),
    },
    "a limit in words": {"a": (400, "Number of documents must not exceed 1", lambda body: count(body) > 1)},
    "llama.cpp, a limit": {"a": (500, "input is too large to process", lambda body: count(body) > 3)},
    "documents as objects": {
        "a": (422, "value is not a valid dict", lambda body: isinstance(body["documents"][0], str))
    },
}


@pytest.mark.parametrize("refused", REFUSALS.values(), ids=REFUSALS)
async def test_what_an_endpoint_refuses_is_given_up_and_remembered(refused: dict[str, Any]) -> None:
    """huggingface/text-embeddings-inference, MAX_CLIENT_BATCH_SIZE; volcengine/OpenViking#4040 needs ``top_n``."""
    asked, bodies = encoder(refusing(**refused))
    texts = ["a", "bbb", "cc", "dddd", "e"]
    assert (await asked.scores("q", texts, 5)).tolist() == [1, 3, 2, 4, 1]
    first = len(bodies)
    assert (await asked.scores("q", texts, 5)).tolist() == [1, 3, 2, 4, 1]
    refuses = [condition for _status, _words, condition in refused.values()]
    assert not any(each(body) for body in bodies[first:] for each in refuses)
    assert sum(any(each(body) for each in refuses) for body in bodies[:first]) <= 3


async def test_the_last_refusal_is_quoted_and_what_was_not_accepted_is_not_remembered() -> None:
    faults = [True]
    never = {"a": (422, "missing field `texts`", lambda body: bool(faults) and "texts" not in body)}
    asked, bodies = encoder(refusing(**never, b=(400, "model warming up", lambda body: bool(faults))))
    with pytest.raises(CrossEncoderError, match="answered 400: .*model warming up"):
        await asked.scores("q", ["a"], 5)
    faults.clear()
    assert (await asked.scores("q", ["a"], 5)).tolist() == [1]
    assert "documents" in bodies[-1]


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
        httpx.Response(200, json={"results": [{"index": 0}, {"index": 1}]}),
        httpx.Response(200, json={"answer": 42}),
        httpx.Response(200, content=b'[{"index": 0, "score": NaN}, {"index": 1, "score": NaN}]'),
        httpx.Response(200, json="results"),
        httpx.Response(200, json=[{"index": 0, "score": 10**400}, {"index": 7, "score": 1}]),
        httpx.Response(200, json={"results": []}),
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
