"""Embedding endpoints: replies that are checked, and limits that are found out and remembered."""

import json
from collections.abc import Callable
from typing import Any

import httpx
import numpy as np
import pytest

from memoryapp.engine import http_embedder
from memoryapp.engine.embeddings import EmbeddingError, Profile
from memoryapp.engine.http_embedder import Accepted, HttpEmbedder, fewer, pieces
from tests.examples import table

PROFILE = Profile("http://models.test/v1", "small", 3, 0.3)


def embedder(answer: Callable[[httpx.Request], httpx.Response]) -> HttpEmbedder:
    http = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    return HttpEmbedder(http, "http://models.test/v1/", "key", PROFILE)


def honest(request: httpx.Request) -> httpx.Response:
    texts = json.loads(request.content)["input"]
    items = [{"index": i, "embedding": [float(len(text)), 1.0, 0.0]} for i, text in enumerate(texts)]
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


@pytest.mark.parametrize(("body", "sentence"), table("unusable_vectors"))
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


# What embedding endpoints refuse, and how their rows are read: each endpoint's limits are found out and remembered.


NARROW_PROFILE = Profile("models.test", "small", 3, 0.3)
Answer = Callable[[dict[str, Any]], httpx.Response | None]


class Endpoint:
    """Refuses what ``refuses`` answers something for, and keeps the bodies."""

    def __init__(self, refuses: Answer) -> None:
        self.bodies: list[dict[str, Any]] = []
        self._refuses = refuses

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.bodies.append(json.loads(request.content))
        return self._refuses(self.bodies[-1]) or vectors(self.bodies[-1]["input"])

    def embedder(self, accepted: Accepted | None = None, profile: Profile = NARROW_PROFILE) -> HttpEmbedder:
        http = httpx.AsyncClient(transport=httpx.MockTransport(self))
        return HttpEmbedder(http, "http://models.test/v1", "key", profile, accepted)


def vectors(texts: list[str]) -> httpx.Response:
    items = [{"index": place, "embedding": [float(len(text)), 1.0, 0.0]} for place, text in enumerate(texts)]
    return httpx.Response(200, json={"data": items})


def refusal(status: int, words: str) -> httpx.Response:
    return httpx.Response(status, json={"error": {"message": words, "type": "invalid_request_error"}})


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr(http_embedder.asyncio, "sleep", sleep)
    return waited


TOO_MANY = table("too_large_batches")


@pytest.mark.parametrize(("most", "status", "words"), TOO_MANY.values(), ids=TOO_MANY)
async def test_a_batch_that_is_too_large_is_sent_in_smaller_ones_and_the_size_is_remembered(
    most: int, status: int, words: str
) -> None:
    """memodb-io/memobase#142 (DashScope), huggingface/text-embeddings-inference#378, apecloud/ApeRAG#716 (SiliconFlow),
    vercel/ai#16575 (Gemini), raphaelmansuy/edgequake-llm#74 (Mistral); Azure's and OpenAI's documentation."""
    endpoint = Endpoint(lambda body: refusal(status, words) if len(body["input"]) > most else None)
    accepted = Accepted()
    made = await endpoint.embedder(accepted).embed(["x" * (n + 1) for n in range(100)])
    assert made.shape == (100, 3)
    assert [int(n) for n in np.argsort(made[:, 0])] == list(range(100))
    before = len(endpoint.bodies)
    await endpoint.embedder(accepted).embed(["text"] * 100)
    assert all(len(body["input"]) <= most for body in endpoint.bodies[before:])


def test_a_limit_that_is_named_is_taken_and_otherwise_the_half() -> None:
    assert fewer(TOO_MANY["DashScope"][2], 100) == 10
    assert fewer(TOO_MANY["TEI"][2], 100) == 32
    assert fewer(TOO_MANY["Azure"][2], 100) == 16
    assert fewer("too many", 100) == 50
    assert fewer("at most 500", 3) == 1


@pytest.mark.parametrize(("status", "body"), table("refused_dimensions").values(), ids=table("refused_dimensions"))
async def test_refused_dimensions_are_left_out_and_the_vectors_are_still_checked(status: int, body: Any) -> None:
    """QwenLM/Qwen3-Embedding#188 (vLLM), BerriAI/litellm#11940, plastic-labs/honcho#772 (ada-002, mistral-embed)."""
    endpoint = Endpoint(lambda sent: httpx.Response(status, json=body) if "dimensions" in sent else None)
    accepted = Accepted()
    assert (await endpoint.embedder(accepted).embed(["one"])).shape == (1, 3)
    await endpoint.embedder(accepted).embed(["one"])
    assert ["dimensions" in sent for sent in endpoint.bodies] == [True, False, False]
    with pytest.raises(EmbeddingError, match="3 dimensions; EMBEDDING_DIMENSIONS is 2"):
        await endpoint.embedder(accepted, Profile("models.test", "small", 2, 0.3)).embed(["one"])


TOO_LONG = {
    "Ollama": (400, "the input length exceeds the context length"),
    "llama.cpp": (
        500,
        "input (992 tokens) is too large to process. increase the physical batch size (current batch size: 512)",
    ),
    "OpenAI": (400, "This model's maximum context length is 8192 tokens, however you requested 10000 tokens."),
    "TEI": (413, "`inputs` must have less than 512 tokens. Given: 600"),
}


@pytest.mark.parametrize(("status", "words"), TOO_LONG.values(), ids=TOO_LONG)
async def test_a_text_that_is_too_long_gets_the_mean_of_its_pieces(status: int, words: str, waits: list[float]) -> None:
    """ollama/ollama#14186, ggml-org/llama.cpp#12295 and lemonade-sdk/lemonade#3591, OpenAI's documentation, TEI."""
    endpoint = Endpoint(lambda sent: refusal(status, words) if any(len(t) > 500 for t in sent["input"]) else None)
    accepted = Accepted()
    made = await endpoint.embedder(accepted).embed(["short", "word " * 800, "other"])
    assert made.shape == (3, 3)
    assert np.allclose(np.linalg.norm(made, axis=1), 1)
    assert waits == []
    sent = " ".join(text for body in endpoint.bodies[-2:] for text in body["input"] if "word" in text)
    assert sent.split().count("word") >= 800
    before = len(endpoint.bodies)
    await endpoint.embedder(accepted).embed(["word " * 800])
    assert all(len(text) <= 500 for body in endpoint.bodies[before:] for text in body["input"])


@pytest.mark.parametrize(
    ("status", "words", "is_too_much", "learnt"),
    [
        (400, "input数组最大不得超过64条", lambda sent: len(sent["input"]) > 64, (50, 0, True)),
        (400, "", lambda sent: len(sent["input"]) > 10, (6, 0, True)),
        (400, "Invalid request", lambda sent: "dimensions" in sent, (100, 0, False)),
        (422, "No.", lambda sent: max(map(len, sent["input"])) > 2500, (100, 1999, True)),
        (500, "do embedding request: EOF", lambda sent: max(map(len, sent["input"])) > 2500, (100, 1999, True)),
    ],
    ids=["Zhipu", "without words", "dimensions", "a long text", "Ollama crashes"],
)
async def test_where_the_words_do_not_say_what_was_too_much_single_texts_find_it_out(
    status: int, words: str, is_too_much: Any, learnt: tuple[int, int, bool], waits: list[float]
) -> None:
    """Zhipu's error 1214; Ollama's runner that ends in the middle (ollama/ollama#6094)."""
    accepted = Accepted()
    endpoint = Endpoint(lambda sent: refusal(status, words) if is_too_much(sent) else None)
    texts = [*("one" for _ in range(99)), "word " * 800]
    assert (await endpoint.embedder(accepted).embed(texts)).shape == (100, 3)
    assert (accepted.texts, accepted.chars, accepted.dimensions) == learnt
    asked = len(endpoint.bodies)
    await endpoint.embedder(accepted).embed(texts)
    assert not any(map(is_too_much, endpoint.bodies[asked:]))


ALONE = {
    "pydantic": (422, {"detail": [{"loc": ["body", "input"], "msg": "Input should be a valid string"}]}),
    "Go": (400, {"error": {"message": "json: cannot unmarshal array into Go struct field .input of type string"}}),
    "serde": (422, "Failed to deserialize the JSON body: input: invalid type: sequence, expected a string"),
    "in words": (400, {"error": {"message": "multiple inputs are not supported"}}),
    "without words": (500, ""),
}


@pytest.mark.parametrize(("status", "body"), ALONE.values(), ids=ALONE)
@pytest.mark.parametrize("sizes", [True, False], ids=["with dimensions", "without dimensions"])
async def test_a_server_that_takes_one_text_and_no_list_gets_one_text_at_a_time(
    status: int, body: Any, sizes: bool, waits: list[float]
) -> None:
    """Grt1228/chatgpt-java#101 and servers whose ``input`` is a string."""

    def answer(sent: dict[str, Any]) -> httpx.Response:
        refused = isinstance(sent["input"], list) or ("dimensions" in sent and not sizes)
        if refused:
            return httpx.Response(status, json=body) if body else httpx.Response(status)
        return httpx.Response(200, json={"embedding": [float(len(sent["input"])), 1.0, 0.0]})

    endpoint, accepted = Endpoint(answer), Accepted()
    made = await endpoint.embedder(accepted).embed(["x", "xxxx", "xx"])
    assert [int(place) for place in np.argsort(made[:, 0])] == [0, 2, 1]
    asked = len(endpoint.bodies)
    await endpoint.embedder(accepted).embed(["a", "b"])
    assert [sent["input"] for sent in endpoint.bodies[asked:]] == ["a", "b"]


async def test_a_failure_of_too_much_does_not_cost_all_its_waits_again_for_each_half(waits: list[float]) -> None:
    endpoint = Endpoint(lambda sent: httpx.Response(500) if len(sent["input"]) > 10 else None)
    assert (await endpoint.embedder().embed(["text"] * 100)).shape == (100, 3)
    assert sum(waits) <= 7.5 + 7 * 0.5


@pytest.mark.parametrize(
    ("first", "wait"),
    [
        (httpx.Response(200, content=b"<html><h1>502 Bad Gateway</h1></html>"), 0.5),
        (httpx.Response(200, content=b""), 0.5),
        (httpx.Response(200, json={"error": {"message": "upstream error", "code": 502}}), 0.5),
        (httpx.Response(429, json={"error": {"message": "Slow down."}}, headers={"retry-after-ms": "700"}), 0.7),
        (httpx.Response(429, json={"error": {"message": "Rate limit reached. Please try again in 1.2s."}}), 1.2),
        (
            httpx.Response(
                429,
                json=[{"error": {"code": 429, "message": "You exceeded your current quota. Please retry in 2.5s."}}],
            ),
            2.5,
        ),
    ],
    ids=["a page", "nothing", "an error", "milliseconds", "in words", "Gemini's free tier"],
)
async def test_a_failure_that_passes_is_waited_for_and_teaches_nothing(
    first: httpx.Response, wait: float, waits: list[float]
) -> None:
    """OpenAI's clients read ``retry-after-ms``; Gemini: diegosouzapw/OmniRoute#9504."""
    answers, accepted = iter([first]), Accepted()
    endpoint = Endpoint(lambda _sent: next(answers, None))
    assert (await endpoint.embedder(accepted).embed(["one", "two"])).shape == (2, 3)
    assert waits == [wait]
    assert (accepted.texts, accepted.chars, accepted.dimensions, accepted.lists) == (100, 0, True, True)


async def test_what_is_refused_for_another_reason_is_asked_three_times_at_most_and_teaches_nothing() -> None:
    accepted = Accepted()
    endpoint = Endpoint(lambda _sent: refusal(400, "model 'x' is not an embedding model"))
    with pytest.raises(EmbeddingError, match="is not an embedding model"):
        await endpoint.embedder(accepted).embed(["one", "two"])
    assert len(endpoint.bodies) == 3
    assert (accepted.texts, accepted.chars, accepted.dimensions) == (100, 0, True)


async def test_a_text_that_is_refused_however_short_it_is_ends_with_the_endpoints_words() -> None:
    endpoint = Endpoint(lambda _sent: refusal(400, "the input length exceeds the context length"))
    with pytest.raises(EmbeddingError, match="exceeds the context length"):
        await endpoint.embedder().embed(["word " * 800])
    assert len(endpoint.bodies) < 12
    assert (await Endpoint(lambda _sent: None).embedder().embed(["one"])).shape == (1, 3)


async def test_a_busy_or_forbidding_endpoint_is_not_taken_for_one_with_limits(waits: list[float]) -> None:
    for status in (401, 403, 429):
        endpoint = Endpoint(lambda _sent, status=status: refusal(status, "too many requests in this batch"))  # type: ignore[misc]
        with pytest.raises(EmbeddingError):
            await endpoint.embedder().embed(["one", "two"])
        assert all(len(body["input"]) == 2 for body in endpoint.bodies)


async def test_what_was_learnt_is_forgotten_after_some_hours() -> None:
    now = [0.0]
    accepted = Accepted(clock=lambda: now[0])
    endpoint = Endpoint(lambda sent: refusal(400, TOO_MANY["DashScope"][2]) if len(sent["input"]) > 10 else None)
    await endpoint.embedder(accepted).embed(["text"] * 20)
    assert accepted.texts == 10
    now[0] += 6 * 3600
    assert accepted.texts == 100


def test_pieces_are_cut_between_words_and_each_has_the_prefix() -> None:
    assert pieces("passage: one two three", 8, "passage: ") == ["passage: one two", "passage: three"]
    assert pieces("x" * 20, 8, "") == ["x" * 8, "x" * 8, "x" * 4]


@pytest.mark.parametrize("answer", table("written_rows").values(), ids=table("written_rows"))
async def test_rows_are_read_in_their_order_however_they_are_numbered_and_written(answer: Any) -> None:
    """samfoy/pi-session-search#13 and spring-projects/spring-ai#7019 (Gemini), doobidoo/mcp-memory-service#612,
    arabold/docs-mcp-server#469 (base64), opea-project/GenAIComps#926 (no usage), llama.cpp's older list."""
    made = await Endpoint(lambda _sent: httpx.Response(200, json=answer)).embedder().embed(["one", "two"])
    assert np.allclose(made, [[0.6, 0.8, 0.0], [0.0, 0.0, 1.0]])


@pytest.mark.parametrize(
    "body",
    [
        {"message": "no such model"},
        [{"error": {"message": "no such model"}}],
        {"detail": "no such model"},
        {"error": "no such model"},
        {"code": 20012, "message": "no such model", "data": None},
    ],
)
@pytest.mark.parametrize("status", [200, 400, 404])
async def test_the_endpoints_own_words_are_always_shown(status: int, body: Any) -> None:
    with pytest.raises(EmbeddingError, match="no such model"):
        await Endpoint(lambda _sent: httpx.Response(status, json=body)).embedder().embed(["one"])


async def test_prefixes_stand_before_each_text_and_are_part_of_the_profile() -> None:
    """The model cards of e5, nomic-embed-text and bge demand them."""
    profile = Profile("models.test", "e5", 3, 0.3, query_prefix="query: ", passage_prefix="passage: ")
    assert profile.as_queries(["key"]) == ["query: key"]
    assert profile.as_passages(["key"]) == ["passage: key"]
    assert profile.identity != Profile("models.test", "e5", 3, 0.3).identity
    endpoint = Endpoint(
        lambda sent: refusal(400, "input is too long") if any(len(t) > 200 for t in sent["input"]) else None
    )
    await endpoint.embedder(profile=profile).embed(profile.as_passages(["word " * 100]))
    assert len(endpoint.bodies[-1]["input"]) > 1
    assert all(text.startswith("passage: ") for text in endpoint.bodies[-1]["input"])
