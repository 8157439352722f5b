"""Refusals in any shape: which words are found, what they teach, and what they do not."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from memoryapp.engine.chat.capabilities import Abilities, Learnt
from memoryapp.engine.chat.protocol import LLMRefused, Reply
from memoryapp.engine.chat.refusals import error_in, words_in
from memoryapp.engine.events import Retried
from tests.engine.endpoint import END, FREE, PLAIN, Endpoint, error, failure, reply, says, streams
from tests.engine.scripted import collect

BODIES: dict[str, tuple[Any, str]] = {
    "OpenAI": (
        {"error": {"message": "No such thing.", "type": "invalid_request_error", "param": None}},
        "No such thing.",
    ),
    "Gemini": ([{"error": {"code": 400, "message": "No such thing.", "status": "INVALID_ARGUMENT"}}], "No such thing."),
    "vLLM": (
        {"object": "error", "message": "No such thing.", "type": "BadRequestError", "code": 400},
        "No such thing.",
    ),
    "a gateway": ({"message": "No such thing.", "request_id": "1"}, "No such thing."),
    "SiliconFlow": ({"code": 20042, "message": "No such thing.", "data": None}, "No such thing."),
    "LM Studio, Ollama": ({"error": "No such thing."}, "No such thing."),
    "FastAPI, a text": ({"detail": "No such thing."}, "No such thing."),
    "FastAPI, a list": (
        {"detail": [{"type": "extra_forbidden", "loc": ["body", "tools"], "msg": "No such thing.", "input": "secret"}]},
        "tools: No such thing.",
    ),
    "Mistral": (
        {"object": "error", "message": {"detail": [{"loc": ["body", "tools"], "msg": "No such thing."}]}},
        "tools: No such thing.",
    ),
    "Cloudflare": ({"success": False, "errors": [{"code": 7003, "message": "No such thing."}]}, "No such thing."),
    "a flag": ({"error": True, "message": "No such thing."}, "No such thing."),
    "RFC 9457": ({"title": "Bad Request", "status": 400, "detail": "No such thing."}, "No such thing."),
}


@pytest.mark.parametrize(("body", "words"), BODIES.values(), ids=BODIES)
async def test_the_endpoints_own_words_are_quoted_whatever_shape_they_come_in(body: Any, words: str) -> None:
    """Google's list: googleapis/python-genai#867; vLLM: QwenLM/Qwen3-Embedding#188; SiliconFlow: apecloud/ApeRAG#716;
    LM Studio: lmstudio-ai/lmstudio-bug-tracker#670; Mistral: BerriAI/litellm#17761."""
    refusal = await failure(Endpoint(httpx.Response(400, json=body)))
    assert words.rstrip(".") in str(refusal)
    assert "secret" not in str(refusal).replace("secret-key", "")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"upstream request timeout", "upstream request timeout"),
        (b"<html><head><style>p {}</style></head><body><h1>413</h1> Too\nLarge</body></html>", "413 Too Large"),
        (b"", ""),
        (b"[]", ""),
        (b"[[[", "[[["),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b'{"error": ' + b"[" * 50_000 + b"]" * 50_000 + b"}", ""),
    ],
    ids=["text", "a page", "nothing", "an empty list", "broken", "no text", "deep"],
)
def test_a_refusal_without_json_is_quoted_as_text(content: bytes, words: str) -> None:
    assert words_in(content)[: len(words) or None].startswith(words)


@pytest.mark.parametrize(
    "body",
    [
        {"choices": [], "message": "all well"},
        {"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}], "detail": "cached", "title": "x"},
    ],
)
async def test_an_answer_that_says_more_than_it_must_is_no_error(body: Any) -> None:
    assert isinstance(await reply(Endpoint(httpx.Response(200, json=body))), Reply)


@pytest.mark.parametrize(
    "words",
    [
        "This model's maximum context length is 8192 tokens; reasoning and response_format are counted too.",
        "messages[2].content: reasoning about grammar must be a string",
        "The response was stopped by the content filter of json_schema answers.",
        "messages with role 'tool' must be a response to a preceding message with 'tool_calls'.",
    ],
)
async def test_words_about_the_conversation_teach_nothing_about_the_request(words: str) -> None:
    learnt = Learnt()
    endpoint = Endpoint(error(400, words))
    chat = endpoint.chat(learnt=learnt)
    with pytest.raises(LLMRefused):
        await collect(chat.converse(FREE))
    assert learnt.can == Abilities()
    assert len(endpoint.bodies) == 1


async def test_an_error_in_a_list_ends_a_stream_too(waits: list[float]) -> None:
    broken = streams(b'data: [{"error": {"code": 503, "message": "overloaded"}}]\n\n', END)
    retried, *_, got = await collect(Endpoint(broken, says("hi")).chat(stream=True).converse(PLAIN))
    assert isinstance(retried, Retried)
    assert "overloaded" in retried.why
    assert isinstance(got, Reply)


def test_what_is_known_of_an_error_inside_an_answer_is_its_name() -> None:
    """MiniMax's ``base_resp``, OpenAI's ``insufficient_quota`` with 429, LM Studio's 200 for a wrong address."""
    named = {
        402: {"id": "", "choices": None, "base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}},
        400: {"error": {"message": "No.", "type": "invalid_request_error", "code": "unsupported_value"}},
        404: {"error": "Unexpected endpoint or method. (POST /chat/completions). Returning 200 anyway"},
        429: {"error": {"message": "Slow down.", "code": "rate_limit_exceeded"}},
        502: {"error": {"message": "Provider disconnected unexpectedly", "code": "server_error"}},
    }
    for status, body in named.items():
        found = error_in(body)
        assert found
        assert found.status == status


FREE_TIER = "You exceeded your current quota, please check your plan and billing details."


async def test_an_account_that_is_used_up_is_not_asked_again(waits: list[float]) -> None:
    used_up = {"error": {"message": "You exceeded your current quota.", "code": "insufficient_quota"}}
    endpoint = Endpoint(httpx.Response(429, json=used_up))
    assert isinstance(await failure(endpoint), LLMRefused)
    assert len(endpoint.bodies) == 1


@pytest.mark.parametrize(
    ("body", "seconds"),
    [
        ([{"error": {"code": 429, "message": "Quota.", "details": [{}, {"retryDelay": "3s"}]}}], 3.0),
        (
            [{"error": {"code": 429, "message": f"{FREE_TIER} Please retry in 2.5s.", "status": "RESOURCE_EXHAUSTED"}}],
            2.5,
        ),
        ({"error": {"code": 429, "message": "Rate limit reached. Please try again in 1.5s."}}, 1.5),
        ({"error": {"code": 429, "message": "Please retry after 250ms"}}, 0.25),
    ],
    ids=["Google", "Google's free tier", "OpenAI, Groq", "milliseconds"],
)
async def test_a_wait_in_the_words_or_details_of_an_error_is_kept(
    body: Any, seconds: float, waits: list[float]
) -> None:
    await reply(Endpoint(httpx.Response(429, json=body), says("hi")))
    assert waits == [seconds]
