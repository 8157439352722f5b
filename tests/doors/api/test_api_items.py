"""Items that programs keep, and the current talk: known at once, found, isolated, archived, erased."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.core.management import call_command
from django.test import AsyncClient

from memoryapp import erasure
from memoryapp.doors.api import facts as endpoints
from memoryapp.doors.api import messages as sessions
from memoryapp.engine.embeddings import EmbeddingError
from memoryapp.erasure import Target
from memoryapp.importers.record import UnreadableFile
from memoryapp.intake import archiving, invariants, transfer
from memoryapp.intake import items as storing
from memoryapp.intake.archiving import IngestionError
from memoryapp.models import ChatUser, ItemVector, Message, StoredItem, Topic
from memoryapp.platform import work
from memoryapp.platform.database import in_thread
from memoryapp.platform.llm.clients import offline_embedder
from memoryapp.platform.work import ARCHIVE
from memoryapp.runs.runner import Runner
from memoryapp.search.vectors import embed_pending
from memoryapp.upkeep import tasks
from tests.conftest import talk
from tests.erasure.conftest import erase_user
from tests.examples import table
from tests.support.api_client import token_for
from tests.support.clock import PATIENCE

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("thread_closed")]

CAKE = {"text": "Likes honey cake", "weight": 3, "tags": ["food"], "seen": {"in": "Oslo", "at": None}}
QUOTED = "The spare key of the boat lies under the third stone"


@pytest.fixture
async def runner(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Runner]:
    made = Runner()
    made.bind()
    monkeypatch.setattr(endpoints, "runner", made)
    yield made
    await made.close()


@pytest.fixture
async def anna(runner: Runner) -> ChatUser:
    return await ChatUser.objects.acreate(name="anna")


@pytest.fixture
async def client(anna: ChatUser) -> AsyncClient:
    return AsyncClient(AUTHORIZATION=f"Bearer {await sync_to_async(token_for)(anna)}")


async def put(client: AsyncClient, *named: tuple[str, str, Any], user: str = "anna", **more: Any) -> Any:
    items = [{"namespace": place.split("/"), "key": key, "value": value, **more} for place, key, value in named]
    return await client.put("/v1/items", {"user": user, "items": items}, content_type="application/json")


async def post(client: AsyncClient, what: str, **body: Any) -> Any:
    answer = await client.post(f"/v1/items/{what}", {"user": "anna", **body}, content_type="application/json")
    assert answer.status_code == 200, answer.content
    return answer.json()


async def keys(client: AsyncClient, **body: Any) -> list[str]:
    return [item["key"] for item in (await post(client, "search", **body))["items"]]


async def test_a_value_comes_back_whole_and_a_later_one_replaces_it(client: AsyncClient) -> None:
    value = {**CAKE, "ü": [[], {}, 0.1, -(2**70), True, None, "\U0001f370"], "": "x"}
    assert (await put(client, ("notes/food", "k", CAKE), ("notes/food", "k", value))).json() == {
        "written": 2,
        "deleted": 0,
    }
    name = {"namespace": ["notes", "food"], "key": "k"}
    [first] = (await post(client, "read", items=[name, {**name, "key": "other"}, name]))["items"]
    assert (first["value"], first["namespace"], first["key"], first["score"]) == (value, ["notes", "food"], "k", None)
    await put(client, ("notes/food", "k", {"text": "Has had enough of cake"}))
    [second] = (await post(client, "read", items=[name]))["items"]
    assert second["value"] == {"text": "Has had enough of cake"}
    assert (second["created_at"], second["updated_at"] > first["updated_at"]) == (first["created_at"], True)
    of_all = AsyncClient(AUTHORIZATION=f"Bearer {await sync_to_async(token_for)()}")
    assert (await put(of_all, ("notes/food", "k", None))).json() == {"written": 0, "deleted": 1}
    assert (await put(of_all, ("notes/food", "k", None), user="nobody")).status_code == 200
    assert not await ChatUser.objects.filter(name="nobody").aexists()
    assert (await post(client, "read", items=[name]))["items"] == []
    assert not await ItemVector.objects.aexists()


async def test_meaning_finds_what_was_just_written_and_no_longer_what_was_replaced(client: AsyncClient) -> None:
    await put(client, ("notes", "cake", CAKE), ("notes", "car", {"text": "Drives a blue electric car"}))
    await put(client, ("notes", "hidden", {"text": "Honey cake"}), text="")
    found = (await post(client, "search", query="Which dessert does she enjoy?"))["items"]
    assert [item["key"] for item in found] == ["cake", "car", "hidden"]
    assert found[0]["score"] > found[1]["score"]
    assert found[2]["score"] is None
    await put(client, ("notes", "cake", {"text": "Sails a wooden boat"}), ("notes", "car", {"text": "Sweet pastry"}))
    assert (await keys(client, query="Which dessert does she enjoy?"))[0] == "car"


async def test_a_model_that_fails_loses_no_item(
    client: AsyncClient, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedder = (await runner.clients()).embedder

    async def fail(texts: Any) -> Any:
        raise EmbeddingError("away")

    with monkeypatch.context() as storm:
        storm.setattr(type(embedder), "embed", lambda self, texts: fail(texts))
        assert (await put(client, ("notes", "cake", CAKE))).status_code == 200
        refused = await client.post(
            "/v1/items/search", {"user": "anna", "query": "cake"}, content_type="application/json"
        )
        assert (refused.status_code, refused["Retry-After"]) == (502, "6")
        assert await keys(client) == ["cake"]
    assert (await post(client, "search", query="cake"))["items"][0]["score"] is None
    await embed_pending(offline_embedder())
    assert (await post(client, "search", query="cake"))["items"][0]["score"] > 0


@pytest.mark.parametrize(("filter", "found"), table("filters_of_items"))
async def test_filters(client: AsyncClient, filter: Mapping[str, Any], found: str) -> None:
    await put(client, ("a", "cake", CAKE), ("a/b", "car", {"weight": 20}), ("c", "plain", {"text": "plain"}))
    assert sorted(await keys(client, filter=filter)) == found.split()


async def test_namespaces_isolate_and_are_listed(client: AsyncClient) -> None:
    for place in ("a/b/c", "a/b/d/e", "a/b/d/i", "a/b/f", "a/c/f", "ab"):
        await put(client, (place, place, {}))
    assert sorted(await keys(client, prefix=["a", "b"])) == ["a/b/c", "a/b/d/e", "a/b/d/i", "a/b/f"]
    assert await keys(client, prefix=["a", "b", "d", "e", "x"]) == []
    assert await keys(client, limit=2, offset=1) == ["a/c/f", "a/b/f"]

    async def listed(*conditions: tuple[str, str], **more: Any) -> list[str]:
        asked = [{"at": at, "path": path.split("/")} for at, path in conditions]
        return ["/".join(each) for each in (await post(client, "namespaces", conditions=asked, **more))["namespaces"]]

    assert await listed(("prefix", "a/b"), depth=3) == ["a/b/c", "a/b/d", "a/b/f"]
    assert await listed(("suffix", "f")) == ["a/b/f", "a/c/f"]
    assert await listed(("prefix", "*/c"), ("suffix", "*/f")) == ["a/c/f"]
    assert await listed(limit=2, offset=4) == ["a/c/f", "ab"]


@pytest.mark.parametrize(
    ("item", "sentence"),
    [
        ({"value": {"a": "x\x00y"}}, "no database stores"),
        ({"value": {"a\x00": "y"}}, "no database stores"),
        ({"value": json.loads("[" * 40 + "]" * 40)}, "dictionary"),
        ({"value": {"a": json.loads("[" * 40 + "]" * 40)}}, "at most 32 levels"),
        ({"value": {"a": "x" * 200_001}}, "at most 200,000 characters"),
        ({"namespace": []}, "namespace"),
        ({"namespace": ["a"] * 17}, "namespace"),
        ({"namespace": ["a\x00"]}, "no database stores"),
        ({"namespace": ["я" * 200] * 6}, "2,000 bytes"),
        ({"key": ""}, "key"),
        ({"more": 1}, "more"),
    ],
)
async def test_what_cannot_be_kept_is_refused_with_a_sentence(client: AsyncClient, item: Any, sentence: str) -> None:
    body = {"user": "anna", "items": [{"namespace": ["a"], "key": "k", "value": {}, **item}]}
    answer = await client.put("/v1/items", body, content_type="application/json")
    assert (answer.status_code, sentence in answer.json()["error"]["message"]) == (422, True), answer.content
    assert not await StoredItem.objects.aexists()


async def test_more_than_there_is_room_for_is_refused_whole(
    client: AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storing, "MOST_ITEMS", 2)
    answer = await put(client, *[("a", str(number), {}) for number in range(3)])
    assert (answer.status_code, "at most 2 items" in answer.json()["error"]["message"]) == (409, True)
    assert (await put(client, ("a", "0", {}), ("a", "1", {}))).status_code == 200
    assert (await put(client, ("a", "0", CAKE))).status_code == 200
    for filter in ({"a": {"$regex": "x"}}, {"a": {"$gt": None}}, {str(number): 1 for number in range(51)}):
        body = {"user": "anna", "filter": filter}
        refused = await client.post("/v1/items/search", body, content_type="application/json")
        assert (refused.status_code, refused.json()["error"]["message"][:7]) == (422, "filter:")
    assert (await put(client, *[("a", "0", {})] * 1_001)).status_code == 413


async def test_items_belong_to_their_memory(client: AsyncClient, anna: ChatUser) -> None:
    boris = await ChatUser.objects.acreate(name="boris")
    other = AsyncClient(AUTHORIZATION=f"Bearer {await sync_to_async(token_for)(boris)}")
    assert (await put(client, ("notes", "k", CAKE))).status_code == 200
    assert (await put(other, ("notes", "k", {"text": "Boris"}), user="boris")).status_code == 200
    assert (await put(other, ("notes", "k", None), user="anna")).status_code == 404
    for what, body in (("read", {"items": []}), ("search", {}), ("namespaces", {})):
        answer = await other.post(f"/v1/items/{what}", {"user": "anna", **body}, content_type="application/json")
        assert answer.status_code == 404
    assert [item["value"] for item in (await post(client, "search", query="Boris"))["items"]] == [CAKE]


def test_items_are_exported_and_restored_and_erased_with_what_they_quote(tmp_path: Path) -> None:
    anna = ChatUser.objects.create(name="anna")
    talk(anna, ("The boat", [f"{QUOTED}.", "I will remember that."]))
    notes = [
        storing.Written(("notes",), "quote", {"text": f"She said: {QUOTED}"}),
        storing.Written(("notes",), "k", CAKE),
    ]
    storing.write(anna, notes)
    async_to_sync(embed_pending)(offline_embedder())
    assert ItemVector.objects.count() == 2
    assert list(invariants.violations()) == []
    file = tmp_path / "anna.jsonl"
    call_command("export_user", "anna", str(file), stderr=StringIO(), stdout=StringIO())
    copy = ChatUser.objects.get(name=transfer.restore(file, "copy").user)
    values = StoredItem.objects.order_by("key").values_list(
        "namespace", "key", "value", "text", "created_at", "updated_at"
    )
    assert list(values.filter(owner=copy)) == list(values.filter(owner=anna))
    # What others said, too, is theirs.
    erase_user(copy, "ada")
    assert not StoredItem.objects.filter(owner=copy).exists()
    message = Message.objects.get(owner=anna, text=f"{QUOTED}.")
    receipt = erasure.finish(erasure.begin(Target(anna.pk, (message.pk,)), "ada"))
    assert [item.key for item in StoredItem.objects.filter(owner=anna)] == ["k"]
    assert receipt.counts["memoryapp_storeditem"] == 1
    assert ItemVector.objects.filter(owner=anna).count() == 1
    assert list(invariants.violations()) == []


def test_a_file_cannot_bring_an_item_that_a_program_could_not_write(tmp_path: Path) -> None:
    anna = ChatUser.objects.create(name="anna")
    storing.write(anna, [storing.Written(("notes",), "k", CAKE)])
    file = tmp_path / "anna.jsonl"
    call_command("export_user", "anna", str(file), stderr=StringIO(), stdout=StringIO())
    for good, bad in (
        ('["notes"]', "[]"),
        ('"key":"k"', f'"key":"{"k" * 501}"'),
        ('"weight":3', '"weight":' + "[" * 40 + "]" * 40),
    ):
        forged = "\n".join(
            line.replace(good, bad) if "Likes honey cake" in line else line for line in file.read_text().splitlines()
        )
        assert forged != file.read_text().rstrip("\n")
        (tmp_path / "forged.jsonl").write_text(forged)
        with pytest.raises(UnreadableFile):
            transfer.restore(tmp_path / "forged.jsonl", "copy")
    assert transfer.restore(file, "copy").counts["storeditem"] == 1


# The current talk over HTTP: known at once, read like a topic, archived when its client says that it is over.


FACT = "The spare key of the boat lies under the third stone."


@pytest.fixture
async def sessions_client() -> AsyncClient:
    anna = await sync_to_async(ChatUser.objects.create)(name="anna")
    token = await sync_to_async(token_for)(anna)
    return AsyncClient(AUTHORIZATION=f"Bearer {token}")


async def sessions_post(client: AsyncClient, path: str, **body: Any) -> Any:
    return await client.post(path, {"user": "anna", **body}, content_type="application/json")


async def say(client: AsyncClient, *texts: str, session: str = "s1") -> None:
    messages = [{"role": "user", "content": text, "session": session} for text in texts]
    assert (await sessions_post(client, "/v1/messages", messages=messages)).status_code == 200


async def closed(client: AsyncClient, **body: Any) -> Any:
    """Answers the request while a worker sweeps."""

    async def sweep() -> None:
        while True:
            await in_thread(tasks.archive_asked)
            await asyncio.sleep(0.05)

    sweeping = asyncio.create_task(sweep())
    closing = asyncio.create_task(sessions_post(client, "/v1/sessions/close", **body))
    await asyncio.wait((sweeping, closing), timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
    if not closing.done():
        await sweeping
    sweeping.cancel()
    await asyncio.gather(sweeping, return_exceptions=True)
    return await closing


async def first_of(session: str) -> Message:
    return await sync_to_async(Message.objects.filter(session=session).earliest)("pk")


async def test_a_session_is_read_like_a_topic_and_closed_alone(sessions_client: AsyncClient) -> None:
    await say(sessions_client, FACT)
    await say(sessions_client, "Another matter", session="s2")
    first = await first_of("s1")
    shown = (await sessions_client.get(f"/v1/topics/Session:{first.pk}")).json()
    assert (shown["retired"], [each["text"] for each in shown["topics"][0]["messages"]]) == (False, [FACT])
    answer = await closed(sessions_client, session="s1")
    (topic,) = answer.json()["topics"]
    assert topic["message_count"] == 1
    shown = (await sessions_client.get(f"/v1/topics/Session:{first.pk}")).json()
    assert (shown["id"], shown["retired"]) == (f"Session:{first.pk}", True)
    assert [each["id"] for each in shown["topics"]] == [topic["id"]]
    assert (await first_of("s2")).topic_id is None
    everything = (await closed(sessions_client)).json()["topics"]
    assert len(everything) == 1
    assert (await closed(sessions_client)).json() == {"topics": []}
    assert not await sync_to_async(Message.objects.active().exists)()


async def test_what_cannot_be_archived_is_said_and_the_next_close_works(
    sessions_client: AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await say(sessions_client, FACT)
    await sync_to_async(work.pause)(ARCHIVE, "ada")
    assert (await closed(sessions_client)).status_code == 409
    await sync_to_async(work.resume)(ARCHIVE)

    def refuse(*_given: Any) -> list[Topic]:
        raise IngestionError("The splitter is out of order.")

    with monkeypatch.context() as patched:
        patched.setattr(archiving, "_archive_session", refuse)
        answer = await closed(sessions_client, session="s1")
        # It is tried again, so it is not yet: a 503 would make a proxy take this server for one that is away.
        assert (answer.status_code, answer["Retry-After"]) == (202, "30")
        assert "out of order" in json.loads(answer.content)["message"]
        assert (await sessions_client.get(answer["Location"])).status_code == 202
        patched.setattr(sessions, "PATIENCE", 0.5)
        late = await sessions_post(sessions_client, "/v1/sessions/close", session="s1")
        assert (late.status_code, late["Retry-After"]) == (202, "10")
        assert late.json()["url"].endswith(late["Location"])
    topics = (await closed(sessions_client, session="s1")).json()["topics"]
    assert len(topics) == 1
    for asked in (answer, late):
        assert (await sessions_client.get(asked["Location"])).json() == {"topics": topics}
