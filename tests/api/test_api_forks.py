"""``POST /v1/runs/<id>/fork``: what the new run takes and changes, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import AsyncClient

from memoryapp.models import Run
from memoryapp.runs.runner import Runner
from tests.api.test_api_recall import client, memory, post, runner

__all__ = ["client", "memory", "runner"]

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("thread_closed")]


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
