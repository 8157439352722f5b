"""Questions over HTTP: answered as a document or as a stream of events, and continued after the client disconnects."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from asgiref.sync import sync_to_async
from channels.layers import InMemoryChannelLayer, channel_layers
from django.test import AsyncClient

from memoryapp.doors.api import recall
from memoryapp.doors.api.shapes.runs import EventLine, RecallAnswer, RunAnswer
from memoryapp.engine.chat.protocol import ChatRequest
from memoryapp.engine.outline import to_wire
from memoryapp.memory import content as media
from memoryapp.models import ApiToken, ChatUser, Media, Run, RunEvent
from memoryapp.platform.accounts import tokens
from memoryapp.platform.llm.clients import offline_chat, offline_embedder
from memoryapp.runs import followers, lifecycle
from memoryapp.runs.clients import open_clients
from memoryapp.runs.notices import announce
from memoryapp.runs.runner import Runner
from memoryapp.search.vectors import embed_pending
from tests.conftest import talk
from tests.support.api_client import token_for
from tests.support.clock import PATIENCE
from tests.support.executing import TOPICS, executed

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("thread_closed")]

QUERY = "vLLM H100 out of memory"
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}


class Gate:
    """A chat model that answers only after the gate is opened; ``asked`` is set when a request arrives."""

    model = "gate"

    def __init__(self) -> None:
        self.asked, self.open = asyncio.Event(), asyncio.Event()

    async def converse(self, request: ChatRequest) -> AsyncIterator[Any]:
        self.asked.set()
        await self.open.wait()
        async for part in offline_chat().converse(request):
            yield part


class Listening:
    """The embedded chat model; ``heard`` contains the requests it received."""

    model = "listening"

    def __init__(self) -> None:
        self.heard: list[Any] = []

    async def converse(self, request: ChatRequest) -> AsyncIterator[Any]:
        self.heard.extend(request.messages)
        async for part in offline_chat().converse(request):
            yield part


@pytest.fixture
async def memory() -> ChatUser:
    def make() -> ChatUser:
        anna = ChatUser.objects.create(name="anna")
        talk(anna, *TOPICS)
        return anna

    anna = await sync_to_async(make)()
    await embed_pending(offline_embedder())
    return anna


@pytest.fixture
async def gate(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Gate]:
    """Stops every run at its first turn until it is opened."""
    made = Gate()
    clients = await runner.clients()
    monkeypatch.setattr(type(clients), "chat", property(lambda self: made), raising=False)
    yield made
    made.open.set()


@pytest.fixture
async def client(memory: ChatUser) -> AsyncClient:
    token = await sync_to_async(token_for)(memory)
    return AsyncClient(AUTHORIZATION=f"Bearer {token}")


async def post(client: AsyncClient, path: str, **body: Any) -> Any:
    return await client.post(path, {"user": "anna", "query": QUERY, **body}, content_type="application/json")


async def events_of(answer: Any) -> list[tuple[str, int, Any]]:
    """Returns the streamed events, parsed as a client of server-sent events does."""
    text = "".join([part.decode() async for part in answer.streaming_content])
    found = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if fields:
            found.append((fields["event"], int(fields["id"]), json.loads(fields["data"])))
    return found


async def stored_of(run: Run | UUID | str) -> list[tuple[str, int, Any]]:
    """Returns the stored events in the form in which the stream sends them."""
    rows = RunEvent.objects.filter(run=run).order_by("seq").values_list("kind", "seq", "payload")
    return [(kind, seq, json.loads(to_wire(kind, json.dumps(payload)))) async for kind, seq, payload in rows]


async def test_a_question_is_bounded_by_author_and_days(runner: Runner, client: AsyncClient) -> None:
    document = (await post(client, "/v1/recall", parameters={"author": "nobody", "since": "2020-01-01"})).json()
    assert (document["topics"], document["fallback"]) == ([], "no_candidates")
    found = next(payload for kind, _seq, payload in await stored_of(document["run"]) if kind == "candidates_found")
    where = found["understood"]["where"]
    assert {name: value for name, value in where.items() if value} == {"since": "2020-01-01", "authors": ["nobody"]}


async def test_a_token_says_what_its_program_gets_where_the_scorer_is_unsure(
    runner: Runner, client: AsyncClient, memory: ChatUser
) -> None:
    asked = {"query": "Who stood beside me at the altar?"}
    document = (await post(client, "/v1/recall", **asked)).json()
    assert (document["unsure"], document["topics"], document["fallback"]) == (True, [], None)
    assert "<possibly_related>" in document["context"]
    sparing = await sync_to_async(tokens.make)("a", [ApiToken.Scope.RECALL], [memory], when_unsure="nothing")
    other = AsyncClient(AUTHORIZATION=f"Bearer {sparing[1]}")
    spared = (await post(other, "/v1/recall", **asked)).json()
    assert (spared["unsure"], "<possibly_related>" in spared["context"]) == (False, False)
    assert (await post(other, "/v1/recall", **asked, parameters={"when_unsure": "passages"})).json()["unsure"]


async def test_a_question_is_answered_with_what_was_chosen(runner: Runner, client: AsyncClient) -> None:
    answer = await post(client, "/v1/recall", parameters={"max_topics": 2})
    document = answer.json()
    assert answer.status_code == 200, document
    RecallAnswer.model_validate(document)
    first = document["topics"][0]
    assert (first["summary"], first["message_count"]) == (TOPICS[0][0], 2)
    assert first["first_at"] < first["last_at"]
    assert "Lower gpu_memory_utilization" in document["context"]
    assert (document["topics"][0]["rank"], document["fallback"]) == (1, None)
    assert document["url"] == f"http://testserver/runs/{document['run']}/"
    run = await Run.objects.select_related("token").aget(pk=document["run"])
    assert (run.token.name, run.parameters["max_topics"]) == ("a program", 2)
    again = (await client.get(f"/v1/runs/{document['run']}")).json()
    RunAnswer.model_validate(again)
    assert {name: again[name] for name in document} == document
    assert (again["user"], again["query"], again["state"]) == ("anna", QUERY, "finished")


async def test_chosen_topics_bring_their_messages_if_they_are_wished_for(runner: Runner, client: AsyncClient) -> None:
    document = (await post(client, "/v1/recall", include=["messages"])).json()
    RecallAnswer.model_validate(document)
    assert [message["text"] for message in document["topics"][0]["messages"]] == list(TOPICS[0][1])
    assert (await post(client, "/v1/recall", include=["everything"])).status_code == 422


async def test_the_passages_of_a_topic_are_those_of_the_context(
    runner: Runner, client: AsyncClient, memory: ChatUser
) -> None:
    sauces = [f"Sauce {number}: {'simmer it slowly ' * 20}" for number in range(40)]
    await sync_to_async(talk)(memory, ("Sauces", [*sauces[:20], "The umami comes from dried shiitake.", *sauces[20:]]))
    await embed_pending(offline_embedder())
    asked = {"query": "Where does the umami come from?", "include": ["passages"], "strategy": "vector"}
    document = (await post(client, "/v1/recall", **asked)).json()
    RecallAnswer.model_validate(document)
    [sauce] = [topic for topic in document["topics"] if topic["summary"] == "Sauces"]
    texts = [message["text"] for message in sauce["passages"]]
    assert "The umami comes from dried shiitake." in texts
    assert len(texts) < sauce["message_count"] / 2
    every = [message["text"] for topic in document["topics"] for message in topic["passages"]]
    assert [text for text in every if text not in document["context"]] == []
    assert "messages" not in sauce


async def test_programs_receive_every_candidate_as_a_value_of_its_own(runner: Runner, client: AsyncClient) -> None:
    answer = await post(client, "/v1/recall/stream", parameters={"candidates": 1})
    [found] = [payload for kind, _, payload in await events_of(answer) if kind == "candidates_found"]
    run = answer["Content-Location"].rpartition("/")[2]
    stored = (await RunEvent.objects.aget(run=run, kind="candidates_found")).payload
    assert found["candidates"] == stored["candidates"]
    assert len(found["candidates"]) > 1
    assert [each["rank"] for each in found["candidates"]] == list(range(1, len(found["candidates"]) + 1))
    assert [each["shown"] for each in found["candidates"]] == [True] + [False] * (len(found["candidates"]) - 1)
    assert [bool(each["line"]) for each in found["candidates"]] == [each["shown"] for each in found["candidates"]]


async def test_what_must_not_be_handed_over_is_in_no_answer(
    runner: Runner, client: AsyncClient, memory: ChatUser, settings: Any
) -> None:
    said = "Ask bob@example.com about vLLM H100 out of memory"
    await sync_to_async(talk)(memory, ("vLLM: bob@example.com knows", [said, "bob@example.com answers"]))
    settings.GUARD_OUT = {"emails": "mask"}
    document = (await post(client, "/v1/recall", include=["messages"])).json()
    assert len(document["topics"]) == len({each["id"] for each in document["topics"]}) > 0
    streamed = await events_of(await post(client, "/v1/recall/stream"))
    answer = (await post(client, "/v1/qa")).json()
    run = (await client.get(f"/v1/runs/{document['run']}")).json()
    for given in (document, streamed, answer, run):
        assert "bob@" not in json.dumps(given)
        assert "[email]" in json.dumps(given)
    assert "bob@" in json.dumps(await stored_of(document["run"]))


async def test_the_stream_is_the_stored_events_and_ends_with_the_last(runner: Runner, client: AsyncClient) -> None:
    answer = await post(client, "/v1/recall/stream")
    assert answer["Content-Type"].startswith("text/event-stream")
    streamed = await events_of(answer)
    run = answer["Content-Location"].rpartition("/")[2]
    assert streamed == await stored_of(run)
    assert [seq for _, seq, _ in streamed] == list(range(1, len(streamed) + 1))
    assert (streamed[0][0], streamed[-1][0]) == ("run_started", "run_finished")
    lines = await client.get(f"/v1/runs/{run}/events")
    parsed = [json.loads(part) async for part in lines.streaming_content]
    assert [(line["kind"], line["seq"], line["payload"]) for line in parsed] == streamed
    for line in parsed:
        EventLine.model_validate(line)


async def test_what_readers_may_take_for_the_end_of_a_line_is_escaped(runner: Runner, client: AsyncClient) -> None:
    query = "one\u2028two\u2029three\x85four"
    answer = await post(client, "/v1/recall/stream", query=query)
    content = b"".join([part async for part in answer.streaming_content]).decode()
    assert not {"\u2028", "\u2029", "\x85"} & set(content)
    (run,) = [run async for run in Run.objects.all()]
    answer = await client.get(f"/v1/runs/{run.pk}/events", headers={"accept": "application/jsonl"})
    lines = b"".join([part async for part in answer.streaming_content]).decode().splitlines()
    assert json.loads(lines[0])["payload"]["query"] == run.query == query


async def test_a_stream_that_was_cut_goes_on_after_the_last_event_that_came(
    runner: Runner, client: AsyncClient
) -> None:
    run = (await post(client, "/v1/recall")).json()["run"]
    everything = await stored_of(run)
    resumed = await client.get(f"/v1/runs/{run}/stream", headers={"last-event-id": "3"})
    assert resumed.status_code == 200, resumed.content
    assert await events_of(resumed) == everything[3:]
    asked = await client.get(f"/v1/runs/{run}/stream?after={len(everything)}")
    assert await events_of(asked) == []
    for refused in (
        await client.get(f"/v1/runs/{run}/stream?after=nonsense"),
        await client.get(f"/v1/runs/{run}/stream", headers={"last-event-id": "-1"}),
    ):
        assert refused.status_code == 422


async def test_events_come_while_the_run_goes_on(runner: Runner, gate: Gate, client: AsyncClient) -> None:
    answer = await post(client, "/v1/recall/stream")
    parts = aiter(answer.streaming_content)
    first = (await anext(parts)).decode()
    assert first.startswith("event: run_started\nid: 1\ndata: {")
    await asyncio.wait_for(gate.asked.wait(), PATIENCE)
    run = await Run.objects.aget()
    assert not run.is_finished
    document = (await client.get(f"/v1/runs/{run.pk}")).json()
    RunAnswer.model_validate(document)
    assert (document["state"], "topics" in document) == ("running", False)
    gate.open.set()
    rest = [part.decode() async for part in parts]
    assert rest[-1].startswith("event: run_finished\n")


async def test_a_client_that_goes_away_does_not_end_the_run(runner: Runner, gate: Gate, client: AsyncClient) -> None:
    asking = asyncio.create_task(post(client, "/v1/recall"))
    await asyncio.wait_for(gate.asked.wait(), PATIENCE)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    run = await Run.objects.aget()
    gate.open.set()
    async with aclosing(followers.follow(runner, run.pk)) as followed:
        kinds = [line.kind async for line in followed if line]
    assert kinds[-1] == "run_finished"
    await run.arefresh_from_db()
    assert (run.state, run.fallback) == ("finished", "")


async def test_a_run_of_another_process_is_followed_to_its_end(runner: Runner, memory: ChatUser) -> None:
    run = await sync_to_async(lifecycle.start)(memory, QUERY)

    async def another_process() -> None:
        await executed(run)

    working = asyncio.create_task(another_process())
    async with aclosing(followers.follow(runner, run.pk)) as followed:
        lines = [(line.kind, line.seq, json.loads(line.payload)) async for line in followed if line]
    await working
    assert lines == await stored_of(run)


async def kinds_of(followed: AsyncIterator[followers.EventText | None]) -> list[str]:
    return [line.kind async for line in followed if line]


async def test_the_notices_of_another_process_reach_who_follows_its_run(
    runner: Runner, memory: ChatUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followers, "LOOK_AGAIN", 3600.0)
    run = await sync_to_async(lifecycle.start)(memory, QUERY)
    for number in range(2):
        twice = [followers.follow(runner, run.pk) for _ in range(2)]
        async with aclosing(twice[0]) as first, aclosing(twice[1]) as second:
            seen = asyncio.gather(kinds_of(first), kinds_of(second))
            if number == 0:
                async with open_clients() as clients:
                    await lifecycle.execute(run.pk, clients, announce)
            kinds = await asyncio.wait_for(seen, PATIENCE)
        assert kinds[0] == kinds[1]
        assert kinds[0][-1] == "run_finished"
    assert not runner.elsewhere._followers
    assert not runner.elsewhere._joined


class Away(InMemoryChannelLayer):
    """A channel layer that cannot be reached."""

    async def new_channel(self, prefix: str = "specific.") -> str:
        raise OSError("out of reach")


async def test_without_a_channel_layer_a_run_of_another_process_is_followed_all_the_same(
    runner: Runner, memory: ChatUser, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    monkeypatch.setattr(followers, "LOOK_AGAIN", 0.01)
    settings.CHANNEL_LAYERS = {"default": {"BACKEND": f"{__name__}.Away"}}
    channel_layers.backends.clear()
    run = await sync_to_async(lifecycle.start)(memory, QUERY)
    async with aclosing(followers.follow(runner, run.pk)) as followed, open_clients() as clients:
        seen = asyncio.create_task(kinds_of(followed))
        await lifecycle.execute(run.pk, clients)
        assert (await asyncio.wait_for(seen, PATIENCE))[-1] == "run_finished"
    assert not runner.elsewhere._joined


async def test_an_answer_is_waited_for_when_another_process_works_on_it(
    runner: Runner, client: AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def taken(run_id: UUID) -> None:
        async with open_clients() as clients:
            working.append(asyncio.create_task(lifecycle.execute(run_id, clients)))
            await working[0]

    working: list[asyncio.Task[None]] = []
    elsewhere: list[asyncio.Task[None]] = []

    async def away(run_id: UUID) -> None:
        elsewhere.append(asyncio.create_task(taken(run_id)))

    monkeypatch.setattr(runner, "complete", away)
    assert (await post(client, "/v1/recall")).json()["topics"]
    await elsewhere[0]


async def test_a_quiet_stream_shows_that_it_is_alive_and_one_of_an_erased_run_ends(
    runner: Runner, memory: ChatUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followers, "LOOK_AGAIN", 0.01)
    monkeypatch.setattr(followers, "KEEP_ALIVE", 0.02)
    run = await sync_to_async(lifecycle.start)(memory, QUERY)
    async with aclosing(recall._sent_events(run.pk, 0)) as sent:
        assert (await anext(sent)).startswith(": ")
        await Run.objects.all().adelete()
        assert all([part.startswith(": ") async for part in sent])


async def test_a_stream_ends_once_its_token_is_revoked(
    runner: Runner, memory: ChatUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followers, "LOOK_AGAIN", 0.01)
    monkeypatch.setattr(followers, "KEEP_ALIVE", 0.02)
    run = await sync_to_async(lifecycle.start)(memory, QUERY)
    token, _ = await sync_to_async(tokens.make)("a program", [ApiToken.Scope.RECALL], [memory])
    async with aclosing(recall._sent_events(run.pk, 0, token.pk)) as sent:
        assert (await anext(sent)).startswith(": ")
        await sync_to_async(tokens.revoke)(ApiToken.objects.all())
        assert all([part.startswith(": ") async for part in sent])


async def test_the_running_conversation_and_media_come_with_the_run(
    runner: Runner, client: AsyncClient, memory: ChatUser, settings: Any, tmp_path: Path
) -> None:
    settings.MEDIA_ROOT = tmp_path
    asked = {"id": "c2", "role": "assistant", "text": "What does?", "mood": 1}
    messages = [{"role": "user", "text": "It crashes."}, asked]
    answer = await post(client, "/v1/recall", messages=messages, media=[PICTURE])
    assert answer.status_code == 200, answer.json()
    run = await Run.objects.aget()
    assert [(item["id"], item["role"], item["text"]) for item in run.messages] == [
        ("", "user", "It crashes."),
        ("c2", "assistant", "What does?"),
    ]
    kept = await Media.objects.aget()
    assert run.media[0]["sha256"] == kept.sha256
    assert "iVBORw0KGgo" not in json.dumps(await stored_of(run))
    item = media.MediaItem(**run.media[0])
    assert (await sync_to_async(media.read)(memory.pk, item)).content == b"\x89PNG\r\n\x1a\n"


async def test_the_messages_of_openai_are_taken_with_their_content(runner: Runner, client: AsyncClient) -> None:
    parts = [{"type": "text", "text": "It crashes."}, {"type": "text", "text": "Always."}]
    messages = [{"role": "user", "content": parts}, {"role": "assistant", "content": "What does?", "text": None}]
    assert (await post(client, "/v1/recall", messages=messages)).status_code == 200
    run = await Run.objects.aget()
    assert [item["text"] for item in run.messages] == ["It crashes.\nAlways.", "What does?"]


async def test_the_models_receive_the_last_ten_messages_of_the_conversation(
    runner: Runner, client: AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = Listening()
    monkeypatch.setattr(type(await runner.clients()), "chat", property(lambda self: chat), raising=False)
    messages = [{"role": "user", "content": f"It was said {number}."} for number in range(12)]
    assert (await post(client, "/v1/recall", messages=messages)).status_code == 200
    asked = json.dumps(chat.heard)
    assert [number for number in range(12) if f"It was said {number}." in asked] == list(range(2, 12))
