"""Runs over HTTP: invalid questions, forks, why not, what was delivered, and the memory of an earlier moment."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import AsyncClient
from django.utils import timezone

from memoryapp.doors.api.shapes.runs import DeliveredAnswer, WhyNotAnswer
from memoryapp.models import Run
from memoryapp.runs.runner import Runner
from tests.doors.api.test_api_recall import client, memory, post
from tests.support.api_client import Program, error_of

__all__ = ["client", "memory"]

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("thread_closed")]


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


# ``POST /v1/runs/<id>/fork``: what the new run takes and changes, and what is refused.


async def fork(client: AsyncClient, run: str, **body: Any) -> Any:
    return await client.post(f"/v1/runs/{run}/fork", body, content_type="application/json")


async def test_a_fork_answers_with_its_parent_its_turn_and_its_changes(client: AsyncClient, runner: Runner) -> None:
    parent = (await post(client, "/v1/recall")).json()
    without = parent["topics"][0]["id"]
    answer = await fork(client, parent["run"], changes={"without": [without], "parameters": {"max_topics": 2}})
    assert answer.status_code == 200, answer.content
    made = answer.json()
    assert (made["parent"], made["turn"], made["state"]) == (parent["run"], 1, "finished")
    assert made["changes"] == {"without": [without], "parameters": {"max_topics": 2}}
    assert without not in [topic["id"] for topic in made["topics"]]
    again = (await client.get(f"/v1/runs/{made['run']}")).json()
    assert (again["parent"], again["changes"]) == (parent["run"], made["changes"])
    assert (await client.get(f"/v1/runs/{parent['run']}")).json()["parent"] is None


@pytest.mark.parametrize(
    ("body", "status", "sentence"),
    [
        ({"turn": 9}, 422, "cannot be forked at turn 9"),
        ({"changes": {"weather": "fine"}}, 422, "weather"),
        ({"changes": {"without": ["Topic:999999"]}}, 422, "not among the candidates"),
        ({"changes": {"parameters": {"speed": 1}}}, 400, "no parameter"),
        ({"changes": {"parameters": {"max_topics": "3"}}}, 400, "must be a number"),
        ({"turn": -1}, 422, "turn"),
    ],
)
async def test_a_fork_that_cannot_be_is_refused_and_makes_no_run(
    client: AsyncClient, runner: Runner, body: dict[str, Any], status: int, sentence: str
) -> None:
    parent = (await post(client, "/v1/recall")).json()
    answer = await fork(client, parent["run"], **body)
    assert answer.status_code == status
    assert sentence in answer.json()["error"]["message"]
    assert await Run.objects.acount() == 1
    assert (await fork(client, parent["run"])).status_code == 200


# ``GET /v1/runs/<id>/why_not``: its shape, and what is refused.


async def why(client: AsyncClient, run: str, **asked: str) -> Any:
    return await client.get(f"/v1/runs/{run}/why_not", asked)


async def test_an_explanation_has_a_stage_a_sentence_and_forks_that_can_be_made(
    client: AsyncClient, runner: Runner
) -> None:
    asked = {"strategy": "vector", "parameters": {"max_topics": 1}}
    run = (await post(client, "/v1/recall", **asked)).json()
    answers = [(await why(client, run["run"], text=text)).json() for text in ("Masha", "meniscus", "zither")]
    for answer in answers:
        WhyNotAnswer.model_validate(answer)
    assert [answer["stage"] for answer in answers] == ["beyond_limit", "beyond_limit", "unknown"]
    (tried,) = answers[0]["counterfactuals"]
    body = tried["fork"]
    fork = await client.post(f"/v1/runs/{run['run']}/fork", body, content_type="application/json")
    assert answers[0]["topic"] in [topic["id"] for topic in fork.json()["topics"]]
    chosen = (await why(client, run["run"], topic=run["topics"][0]["id"])).json()
    assert chosen["stage"] == "chosen"


# ``POST /v1/runs/<id>/answer``: what the assistant said, compared with what a run handed over.


async def answered(client: AsyncClient, run: str, **body: Any) -> Any:
    return await client.post(f"/v1/runs/{run}/answer", body, content_type="application/json")


async def test_what_an_answer_uses_is_told_from_what_it_does_not(client: AsyncClient, runner: Runner) -> None:
    run = (await post(client, "/v1/recall", strategy="vector", parameters={"max_topics": 2})).json()
    first, second = (topic["id"] for topic in run["topics"])
    text = "vLLM on our H100 dies with out of memory, so lower gpu_memory_utilization."
    answer = await answered(client, run["run"], text=text)
    assert answer.status_code == 200, answer.content
    found = DeliveredAnswer.model_validate(answer.json())
    assert (found.used, found.unused, found.recall) == ([first], [second], "found")
    assert found.uses[0].how == "quoted"
    why = (await client.get(f"/v1/runs/{run['run']}/why_not", {"topic": second})).json()
    assert why["stage"] == "not_used"


# ``as_of`` of ``POST /v1/recall``: the memory of an earlier moment.


async def test_an_earlier_memory_is_searched_and_the_next_call_searches_today(
    client: AsyncClient, runner: Runner
) -> None:
    before = (timezone.now() - timedelta(days=1)).isoformat()
    then = (await post(client, "/v1/recall", strategy="vector", as_of=before)).json()
    assert then["topics"] == [], "the memory was empty then"
    assert (await Run.objects.aget(pk=then["run"])).changes == {"as_of": before}
    assert (await post(client, "/v1/recall", strategy="vector", as_of=timezone.now().isoformat())).json()["topics"]
    assert (await post(client, "/v1/recall", strategy="vector")).json()["topics"]


@pytest.mark.parametrize(
    "asked", [{"as_of": "soon"}, {"as_of": "2026-03-02", "strategy": "plain"}, {"as_of": "9" * 41}]
)
async def test_what_cannot_be_searched_is_refused_with_a_sentence(
    client: AsyncClient, runner: Runner, asked: dict[str, str]
) -> None:
    answer = await post(client, "/v1/recall", **asked)
    assert answer.status_code in (400, 422)
    assert answer.json()["error"]["message"]
    assert not await Run.objects.aexists()
