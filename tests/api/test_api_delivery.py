"""``POST /v1/runs/<id>/answer``: what the assistant said, compared with what a run handed over."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import AsyncClient

from memoryapp.doors.api.shapes.runs import DeliveredAnswer
from memoryapp.runs.runner import Runner
from tests.api.test_api_recall import client, memory, post, runner

__all__ = ["client", "memory", "runner"]

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("thread_closed")]


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


@pytest.mark.parametrize(("body", "status"), [({}, 422), ({"text": ""}, 422), ({"text": " "}, 422), ({"text": 1}, 422)])
async def test_an_answer_that_says_nothing_is_refused(
    client: AsyncClient, runner: Runner, body: dict[str, Any], status: int
) -> None:
    run = (await post(client, "/v1/recall", strategy="vector")).json()
    answer = await answered(client, run["run"], **body)
    assert (answer.status_code, bool(answer.json()["error"]["message"])) == (status, True)
    assert (await answered(client, run["run"], text="Fine.")).status_code == 200
