"""Invalid questions over HTTP: whatever was sent is refused with a sentence that names the field."""

from __future__ import annotations

from typing import Any

import pytest

from memoryapp.models import ChatUser, Run
from tests.support.api_client import Program, error_of, token_for

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def program(anna: ChatUser) -> Program:
    return Program(token_for(anna))


PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aaaa"}}


def body_with(**fields: Any) -> dict[str, Any]:
    return {"user": "anna", "query": "x", "messages": [{"role": "user", "content": "good"}, fields]}


@pytest.mark.parametrize(
    ("body", "status", "sentence"),
    [
        (b"{", 400, "The body is not JSON that can be read"),
        (b"\xff\xfe{}", 400, "The body is not JSON that can be read"),
        (b"[" * 200_000, 400, "The body is not JSON that can be read"),
        (b"[]", 422, "body: "),
        (b"", 422, "body: "),
        ({"user": "anna"}, 422, "query: Field required"),
        ({"user": "anna", "query": "  "}, 422, "query: "),
        ({"user": "anna", "query": "x" * 5_000}, 422, "query: "),
        ({"user": 5, "query": "x"}, 422, "user: "),
        ({"user": "anna", "query": "x", "paramters": {}}, 422, "paramters: "),
        ({"user": "anna", "query": "x", "strategy": "guess"}, 400, "There is no strategy “guess”"),
        ({"user": "anna", "query": "x", "parameters": {"k": 5}}, 400, "There is no parameter “k”"),
        (
            {"user": "anna", "query": "x", "strategy": "vector", "parameters": {"threshold": 0.5}},
            400,
            "The strategy “vector” has no parameter “threshold”",
        ),
        ({"user": "anna", "query": "x", "parameters": {"seconds": float("nan")}}, 400, "seconds must be between"),
        ({"user": "anna", "query": "x", "parameters": {"seconds": "2"}}, 400, "seconds must be a number"),
        ({"user": "anna", "query": "x", "parameters": {"since": 2025}}, 400, "since must be a day such as 2025-05-01"),
        ({"user": "anna", "query": "x", "messages": [{"text": 5.5}]}, 422, "messages.0.text must be text, not 5.5"),
        (body_with(text="a", role="god"), 422, "messages.1: the role"),
        (body_with(role="user"), 422, "messages.1: a message has text, or content as OpenAI has it; this one has n"),
        (body_with(text="a", content="a"), 422, "messages.1: a message has text, or content as OpenAI has it; this"),
        (body_with(content=5), 422, "messages.1.content must be text or a list of content parts, not 5"),
        (body_with(content=[]), 422, "messages.1.content must be text or a list of content parts, not []"),
        (body_with(content=["a"]), 422, "messages.1.content.0 must be a content part, not 'a'"),
        (body_with(content=[{"type": "text"}]), 422, "messages.1.content.0.text must be text, not None"),
        (body_with(content=[PICTURE]), 422, "messages.1.content.0: its type is 'image_url'; only text is taken"),
        (body_with(content="a", ts=[]), 422, "messages.1: [] is not a time"),
        (body_with(content="a", id=""), 422, "messages.1: it has no id"),
        ({"user": "anna", "query": "x", "messages": [{"text": "a"}] * 201}, 413, "At most 200 messages"),
        ({"user": "anna", "query": "x", "media": [{"type": "image_url"}]}, 422, "media.0: "),
        (
            {
                "user": "anna",
                "query": "x",
                "media": [{"type": "input_audio", "input_audio": {"data": "aaaa", "format": "\x00"}}],
            },
            422,
            "media.0: its type is not a MIME type",
        ),
    ],
)
def test_a_question_that_cannot_be_asked_is_refused_with_its_field(
    body: Any, status: int, sentence: str, program: Program
) -> None:
    answer = program.post("/v1/recall", body, **{"accept-language": "ru"})
    assert error_of(answer)[0] == status
    assert error_of(answer)[2].startswith(sentence)
    assert not Run.objects.exists()


MANY = 1_000


@pytest.mark.parametrize(
    ("more", "status", "sentence"),
    [
        ({"messages": [0] * MANY}, 413, "At most 200 messages of the conversation: send its last ones."),
        ({"media": [0] * MANY}, 413, "At most 10 media a question."),
        ({f"x{number}": 0 for number in range(MANY)}, 422, "x0: Extra inputs are not permitted"),
    ],
)
def test_of_very_many_faults_one_is_looked_for(more: Any, status: int, sentence: str, program: Program) -> None:
    """A body may have five million faults; describing each of them would block the process for everybody."""
    answer = program.post("/v1/recall", {"user": "anna", "query": "x", **more})
    assert (error_of(answer)[0], error_of(answer)[2]) == (status, sentence)


@pytest.mark.parametrize(
    "more",
    [
        {"a" * 100_000: 0},
        {"strategy": "a" * 100_000},
        {"parameters": {"a" * 100_000: 0}},
        {"parameters": {"tool_mode": "a" * 100_000}},
        {"parameters": {"since": "a" * 100_000}},
    ],
)
def test_a_refusal_repeats_little_of_what_was_sent(more: Any, program: Program) -> None:
    answer = program.post("/v1/recall", {"user": "anna", "query": "x", **more})
    assert error_of(answer)[0] in (400, 422)
    assert len(answer.content) < 2_000


def test_too_large_a_body_and_too_large_a_picture_are_distinguished(program: Program, settings: Any) -> None:
    settings.MEDIA_MAX_BYTES = 10
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "aaaa" * 10}}
    status, _, sentence = error_of(program.post("/v1/recall", {"user": "anna", "query": "x", "media": [picture]}))
    assert (status, sentence) == (413, "media.0: 30 bytes; at most 10.")
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 100
    assert error_of(program.post("/v1/recall", {"user": "anna", "query": "x" * 200}))[:2] == (413, "too_large")
