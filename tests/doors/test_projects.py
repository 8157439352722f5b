"""Recalls, chats and messages in one project: nothing of another one in answer, context, why-not or count."""

import json
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.test import AsyncClient

from memoryapp import curation
from memoryapp.curation import ChangeRequest
from memoryapp.doors.api import recall
from memoryapp.models import ApiToken, ChatUser, Message, Run, RunEvent, Topic
from memoryapp.platform.accounts import tokens
from memoryapp.platform.llm.clients import offline_embedder
from memoryapp.runs.runner import Runner
from memoryapp.search.vectors import embed_pending
from tests.conftest import fact_of, talk
from tests.doors.test_mcp import Agent
from tests.support.api_client import EVERY_SCOPE
from tests.support.executing import TOPICS

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("thread_closed")]

QUERY = "vLLM H100 out of memory and the honey cake"
AT_HOME = ("H100", "gpu_memory", "Lives in Riga")


@pytest.fixture
async def memory() -> ChatUser:
    """What was said of the GPU is of home, what was said of the cake of work, the rest is common."""

    def make() -> ChatUser:
        anna = ChatUser.objects.create(name="anna")
        gpu, cake, *_common = talk(anna, *TOPICS)
        for topic, project in ((gpu, "home"), (cake, "work")):
            curation.make(ChangeRequest(curation.LABEL, anna, (topic.pk,), project=project), actor="ada")
        fact_of(anna, "Lives in Riga", project="home", type="identity", importance=99)
        fact_of(anna, "Bakes at work", project="work", type="identity", importance=99)
        return anna

    anna = await sync_to_async(make)()
    await embed_pending(offline_embedder())
    return anna


async def client_of(memory: ChatUser, *projects: str) -> AsyncClient:
    scopes = [ApiToken.Scope(scope) for scope in EVERY_SCOPE]
    made = await sync_to_async(tokens.make)(f"of {projects}", scopes, [memory], projects=projects or None)
    return AsyncClient(AUTHORIZATION=f"Bearer {made[1]}")


async def post(client: AsyncClient, path: str, **body: Any) -> Any:
    return await client.post(path, {"user": "anna", **body}, content_type="application/json")


async def everything_of(run: str) -> str:
    """All that a run saw, found and handed over."""
    rows = RunEvent.objects.filter(run=run).values_list("payload", flat=True)
    return json.dumps([payload async for payload in rows], ensure_ascii=False)


@pytest.mark.parametrize("strategy", ["vector", "flash", "react"])
async def test_a_recall_in_a_project_finds_its_own_and_what_is_common(
    strategy: str, runner: Runner, memory: ChatUser
) -> None:
    everything, limited = await client_of(memory), await client_of(memory, "work")
    asked = {"query": QUERY, "strategy": strategy, "include": ["messages"]}
    whole = (await post(everything, "/v1/recall", **asked)).json()
    assert "H100" in await everything_of(whole["run"])
    for client, project in ((everything, "work"), (limited, "work"), (limited, "")):
        document = (await post(client, "/v1/recall", **asked, project=project)).json()
        seen = await everything_of(document["run"]) + json.dumps(document, ensure_ascii=False)
        assert not any(word in seen.replace(QUERY, "") for word in AT_HOME)
        assert "honey cake" in document["context"]
        assert "Bakes at work" in seen
        assert (await Run.objects.aget(pk=document["run"])).project == "work"
        found = await RunEvent.objects.aget(run=document["run"], kind="candidates_found")
        assert len(found.payload["candidates"]) < await Topic.objects.live().acount()
    for path in (f"/v1/runs/{whole['run']}", f"/v1/runs/{whole['run']}/why_not?text=cake"):
        assert (await limited.get(path)).status_code == 404
    why = (await limited.get(f"/v1/runs/{document['run']}/why_not?text=gpu_memory_utilization")).json()
    assert not any(word in json.dumps(why) for word in ("H100", "dies", "Topic:"))


async def test_an_actor_stays_within_its_projects(runner: Runner, memory: ChatUser) -> None:
    limited, of_two = await client_of(memory, "work"), await client_of(memory, "work", "home")
    said = {"id": "m0", "role": "user", "text": "The sprint begins.", "project": "home"}
    for client, body in ((limited, {"project": "home"}), (of_two, {}), (of_two, {"project": "spy"})):
        for path, more in (("/v1/recall", {"query": QUERY}), ("/v1/messages", {"messages": [said]})):
            refused = await post(client, path, **body, **more)
            assert refused.status_code == 403, (path, body)
            assert "limited to projects; name one of them" in refused.json()["error"]["message"]
    for path in ("/v1/audit", "/v1/erasures/1", "/v1/misses?user=anna", "/v1/expiry?user=anna"):
        assert "the whole memory" in (await limited.get(path)).json()["error"]["message"]
    everything = await client_of(memory)
    erased = await everything.delete("/v1/users?user=anna", headers={"X-Mnemoscope-Project": "work"})
    assert erased.status_code == 422
    assert await ChatUser.objects.filter(name="anna").aexists()
    # What is common to all is not taken from the others, and nothing is put among what they have.
    numbers = {topic.project: topic.pk async for topic in Topic.objects.live()}
    for project, to in (("", "work"), ("work", "home"), ("work", "")):
        labelled = await post(limited, "/v1/topics/label", topics=[f"Topic:{numbers[project]}"], project=to)
        assert "choose one of them" in labelled.json()["error"]["message"]
    # A quota counts the whole memory, in whichever project something is stored.
    await ChatUser.objects.filter(pk=memory.pk).aupdate(most_messages=await Message.objects.acount())
    for client in (limited, everything):
        assert (await post(client, "/v1/messages", messages=[said], project="work")).status_code == 409
    await ChatUser.objects.filter(pk=memory.pk).aupdate(most_messages=None)
    # The same id is there, in another project: it is neither told of nor overwritten.
    assert (await post(limited, "/v1/messages", messages=[said])).json()["added"] == 1
    texts = {row.project: row.text async for row in Message.objects.filter(external_id="m0")}
    assert texts == {"home": TOPICS[0][1][0], "work": "The sprint begins."}
    listed = (await limited.get("/v1/users/anna/messages")).json()["messages"]
    assert {each["project"] for each in listed} == {"", "work"}
    named = {"X-Mnemoscope-Project": "work"}
    narrowed = (await of_two.get("/v1/users/anna/messages", headers=named)).json()["messages"]
    assert narrowed == listed


async def test_agents_search_and_remember_in_a_project(runner: Runner, memory: ChatUser) -> None:
    client = await client_of(memory)
    agent = Agent(client.defaults["AUTHORIZATION"].removeprefix("Bearer "), "/mcp/anna")
    found = await agent.call("search_memory", query=QUERY, strategy="vector", project="work")
    assert not any(word in json.dumps(found).replace(QUERY, "") for word in AT_HOME)
    await agent.values("remember", text="The sprint begins on Monday.", project="work")
    assert (await Message.objects.aget(text__startswith="The sprint begins")).project == "work"
    assert recall.runner is runner
