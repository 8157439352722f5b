"""``GET /v1/runs/<id>/why_not``: its shape, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import AsyncClient

from memoryapp.doors.api.shapes.runs import WhyNotAnswer
from memoryapp.runs.runner import Runner
from tests.api.test_api_recall import client, memory, post, runner

__all__ = ["client", "memory", "runner"]

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("thread_closed")]


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


@pytest.mark.parametrize("asked", [{}, {"topic": "1", "text": "x"}, {"text": "x" * 4_001}])
async def test_a_question_that_is_none_is_refused_with_a_sentence(
    client: AsyncClient, runner: Runner, asked: dict[str, str]
) -> None:
    run = (await post(client, "/v1/recall", strategy="vector")).json()
    answer = await why(client, run["run"], **asked)
    assert answer.status_code == 422
    assert answer.json()["error"]["message"]
    assert (await why(client, run["run"], topic="1")).status_code == 200
