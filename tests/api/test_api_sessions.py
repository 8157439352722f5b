"""The current talk over HTTP: known at once, read like a topic, archived when its client says that it is over."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.test import AsyncClient

from memoryapp.doors.api import messages as sessions
from memoryapp.intake import archiving
from memoryapp.intake.archiving import IngestionError
from memoryapp.models import ChatUser, Message, Topic
from memoryapp.platform import work
from memoryapp.platform.database import in_thread
from memoryapp.platform.work import ARCHIVE
from memoryapp.upkeep import tasks
from tests.support.api_client import token_for
from tests.support.clock import PATIENCE

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("thread_closed")]

FACT = "The spare key of the boat lies under the third stone."


@pytest.fixture
async def client() -> AsyncClient:
    anna = await sync_to_async(ChatUser.objects.create)(name="anna")
    token = await sync_to_async(token_for)(anna)
    return AsyncClient(AUTHORIZATION=f"Bearer {token}")


async def post(client: AsyncClient, path: str, **body: Any) -> Any:
    return await client.post(path, {"user": "anna", **body}, content_type="application/json")


async def say(client: AsyncClient, *texts: str, session: str = "s1") -> None:
    messages = [{"role": "user", "content": text, "session": session} for text in texts]
    assert (await post(client, "/v1/messages", messages=messages)).status_code == 200


async def closed(client: AsyncClient, **body: Any) -> Any:
    """Answers the request while a worker sweeps."""

    async def sweep() -> None:
        while True:
            await in_thread(tasks.archive_asked)
            await asyncio.sleep(0.05)

    sweeping = asyncio.create_task(sweep())
    closing = asyncio.create_task(post(client, "/v1/sessions/close", **body))
    await asyncio.wait((sweeping, closing), timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
    if not closing.done():
        await sweeping
    sweeping.cancel()
    await asyncio.gather(sweeping, return_exceptions=True)
    return await closing


async def first_of(session: str) -> Message:
    return await sync_to_async(Message.objects.filter(session=session).earliest)("pk")


async def test_a_session_is_read_like_a_topic_and_closed_alone(client: AsyncClient) -> None:
    await say(client, FACT)
    await say(client, "Another matter", session="s2")
    first = await first_of("s1")
    shown = (await client.get(f"/v1/topics/Session:{first.pk}")).json()
    assert (shown["retired"], [each["text"] for each in shown["topics"][0]["messages"]]) == (False, [FACT])
    answer = await closed(client, session="s1")
    (topic,) = answer.json()["topics"]
    assert topic["message_count"] == 1
    shown = (await client.get(f"/v1/topics/Session:{first.pk}")).json()
    assert (shown["id"], shown["retired"]) == (f"Session:{first.pk}", True)
    assert [each["id"] for each in shown["topics"]] == [topic["id"]]
    assert (await first_of("s2")).topic_id is None
    everything = (await closed(client)).json()["topics"]
    assert len(everything) == 1
    assert (await closed(client)).json() == {"topics": []}
    assert not await sync_to_async(Message.objects.active().exists)()


async def test_what_cannot_be_archived_is_said_and_the_next_close_works(
    client: AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await say(client, FACT)
    await sync_to_async(work.pause)(ARCHIVE, "ada")
    assert (await closed(client)).status_code == 409
    await sync_to_async(work.resume)(ARCHIVE)

    def refuse(*_given: Any) -> list[Topic]:
        raise IngestionError("The splitter is out of order.")

    with monkeypatch.context() as patched:
        patched.setattr(archiving, "_archive_session", refuse)
        answer = await closed(client, session="s1")
        # It is tried again, so it is not yet: a 503 would make a proxy take this server for one that is away.
        assert (answer.status_code, answer["Retry-After"]) == (202, "30")
        assert "out of order" in json.loads(answer.content)["message"]
        assert (await client.get(answer["Location"])).status_code == 202
        patched.setattr(sessions, "PATIENCE", 0.5)
        late = await post(client, "/v1/sessions/close", session="s1")
        assert (late.status_code, late["Retry-After"]) == (202, "10")
        assert late.json()["url"].endswith(late["Location"])
    topics = (await closed(client, session="s1")).json()["topics"]
    assert len(topics) == 1
    for asked in (answer, late):
        assert (await client.get(asked["Location"])).json() == {"topics": topics}


async def test_an_unknown_session_of_another_memory_is_no_session(client: AsyncClient) -> None:
    boris = await sync_to_async(ChatUser.objects.create)(name="boris")
    others = AsyncClient(AUTHORIZATION=f"Bearer {await sync_to_async(token_for)(boris)}")
    await say(client, FACT)
    first = await first_of("s1")
    for name in (f"Session:{first.pk}", "Session:0", "Session:999999999999999999999"):
        assert (await others.get(f"/v1/topics/{name}")).status_code == 404
    assert (await others.get(f"/v1/topics/Session:{first.pk}")).status_code == 404
    assert (await post(others, "/v1/sessions/close")).status_code == 404
