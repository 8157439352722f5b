"""Misses over HTTP and as a tool: reported, put right, listed; other memories stay closed."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.test import AsyncClient

from memoryapp.doors.api import recall
from memoryapp.doors.api.shapes.misses import MissAnswer, MissDaysAnswer, MissesAnswer
from memoryapp.models import ChatUser, Miss, Topic
from memoryapp.runs.runner import Runner
from tests.misses.forgetful import DENTIST, QUESTION, forgetful
from tests.support.api_client import token_for

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("thread_closed")]


@pytest.fixture
async def owner() -> ChatUser:
    # It waits for the embedder in a loop of its own.
    return await sync_to_async(forgetful)()


@pytest.fixture
async def runner(owner: ChatUser, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Runner]:
    made = Runner()
    made.bind()
    await made.clients()
    monkeypatch.setattr(recall, "runner", made)
    yield made
    await made.close()


@pytest.fixture
async def client(owner: ChatUser, runner: Runner) -> AsyncClient:
    token = await sync_to_async(token_for)(owner)
    return AsyncClient(AUTHORIZATION=f"Bearer {token}")


async def post(client: AsyncClient, path: str, **body: Any) -> Any:
    return await client.post(path, body, content_type="application/json")


async def test_a_miss_is_reported_put_right_and_kept_over_http(client: AsyncClient) -> None:
    made = (await post(client, "/v1/misses", user="anna", question=QUESTION, expected=DENTIST)).json()
    MissAnswer.model_validate(made)
    assert (made["stage"], made["state"]) == ("not_chosen", "open")
    assert made["sentence"]
    topic = await Topic.objects.aget(summary__startswith="Winter")
    assert made["by_words"] == [f"Topic:{topic.pk}"]
    (pin,) = [each for each in made["remedies"] if each["remedy"] == "pin"]
    path = f"/v1/misses/{made['id']}"
    done = (await post(client, path, do="repair", remedy="pin", values=pin["values"])).json()
    assert (done["state"], done["remedy"], done["found_again"]) == ("kept", "pin", True)
    listed = (await client.get("/v1/misses", {"user": "anna", "state": "kept"})).json()
    MissesAnswer.model_validate(listed)
    assert [each["id"] for each in listed["misses"]] == [made["id"]]
    days = (await client.get("/v1/misses/days", {"user": "anna"})).json()
    MissDaysAnswer.model_validate(days)
    assert (days["total"], days["open"], days["by_remedy"]) == (1, 0, [{"name": "pin", "misses": 1}])
    assert (await post(client, path, do="undo")).json()["state"] == "open"
    refused = await post(client, path, do="repair", remedy="pin", values={"id": "Topic:99"})
    assert (refused.status_code, bool(refused.json()["error"]["message"])) == (422, True)
    assert (await client.get(path)).json()["state"] == "open"


async def test_a_token_sees_and_decides_only_misses_of_its_memories(client: AsyncClient) -> None:
    boris = await ChatUser.objects.acreate(name="boris")
    made = (await post(client, "/v1/misses", user="anna", question=QUESTION)).json()
    strange = AsyncClient(AUTHORIZATION=f"Bearer {await sync_to_async(token_for)(boris)}")
    assert (await strange.get(f"/v1/misses/{made['id']}")).status_code == 404
    assert (await post(strange, f"/v1/misses/{made['id']}", do="dismiss")).status_code == 404
    assert (await post(strange, "/v1/misses", user="boris", question="x?", run=made["run"])).status_code == 404
    assert (await post(strange, "/v1/misses", user="anna", question="x?")).status_code == 404
    assert (await strange.get("/v1/misses", {"user": "anna"})).status_code == 404
    assert (await Miss.objects.aget()).state == Miss.State.OPEN


@pytest.mark.parametrize("body", [{"question": ""}, {"question": "x?", "at": "soon"}])
async def test_what_is_no_miss_is_refused_with_a_sentence(client: AsyncClient, body: dict[str, str]) -> None:
    answer = await post(client, "/v1/misses", user="anna", **body)
    assert (answer.status_code, bool(answer.json()["error"]["message"])) == (422, True)
    assert (await client.get("/v1/misses", {"user": "anna"})).json()["misses"] == []


async def test_an_agent_reports_a_miss_with_a_tool(client: AsyncClient) -> None:
    asked = {"name": "report_miss", "arguments": {"question": QUESTION, "expected": DENTIST}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": asked}
    headers = {"Accept": "application/json, text/event-stream"}
    answer = await client.post("/mcp/anna", body, content_type="application/json", headers=headers)
    assert "result" in answer.json(), answer.json()
    found = answer.json()["result"]
    assert found["structuredContent"]["stage"] == "not_chosen"
    assert "Pin" in found["content"][0]["text"] or "pinned" in found["content"][0]["text"]
