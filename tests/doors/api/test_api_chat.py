"""``POST /v1/chat/completions``, and the agent's answers in words, also while it is switched off."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import OperationalError
from django.test import AsyncClient

from memoryapp.doors.api import chat, recall
from memoryapp.doors.api.shapes.answers import StreamBegun, StreamProgress, WordsAnswer
from memoryapp.engine.strategies import PLAIN, REACT
from memoryapp.models import ChatUser, Message, Run, RunEvent
from memoryapp.runs.runner import Runner
from tests.doors.api.test_api_recall import client as agent_client
from tests.doors.api.test_api_recall import events_of, memory, post
from tests.peers.chat_provider import CALL, MODEL, REFUSAL, WORDS, ChatProvider
from tests.support.api_client import token_for

__all__ = ["agent_client", "memory"]

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("thread_closed")]

QUESTION = "What did I do about vLLM on the H100?"
ANSWER = "".join(WORDS)
KEY = "sk-of-the-program-0123456789"


@pytest.fixture(scope="module")
def provider() -> Iterator[ChatProvider]:
    made = ChatProvider()
    yield made
    made.stop()


@pytest.fixture
async def connected(
    memory: ChatUser, provider: ChatProvider, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Runner]:
    """The runner of the web process, whose provider is connected."""
    provider.calm()
    settings.LLM_BASE_URL, settings.LLM_API_KEY = provider.url, "sk-of-the-settings-0123456789"
    settings.CHAT_SHARED_KEY = True
    settings.RERANKER_TIMEOUT = settings.RERANKER_TURN_TIMEOUT = 1.0
    made = Runner()
    made.bind()
    await made.clients()
    for module in (recall, chat):
        monkeypatch.setattr(module, "runner", made)
    yield made
    await made.close()


@pytest.fixture
async def client(connected: Runner, memory: ChatUser) -> AsyncClient:
    token = await sync_to_async(token_for)(memory)
    return AsyncClient(AUTHORIZATION=f"Bearer {token}")


async def ask(client: AsyncClient, *, headers: dict[str, str] | None = None, **body: Any) -> Any:
    asked = {"model": MODEL, "messages": [{"role": "user", "content": QUESTION}], **body}
    named = {"X-Mnemoscope-Strategy": "vector", **(headers or {})}
    return await client.post("/v1/chat/completions", asked, content_type="application/json", headers=named)


async def streamed(answer: Any) -> str:
    return "".join([part.decode() async for part in answer.streaming_content])


async def test_the_provider_gets_the_request_with_what_the_memory_knows(
    client: AsyncClient, provider: ChatProvider
) -> None:
    tools = [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}]
    spoken = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": QUESTION}]
    more = {"tools": tools, "temperature": 0.3, "seed": 2**53 + 1, "metadata": {"a": [1, None]}}
    answer = await ask(client, messages=spoken, **more)
    assert answer.status_code == 200, answer.content
    assert answer.json()["choices"][0]["message"]["content"] == ANSWER
    (sent,) = provider.requests
    system, last = sent.pop("messages")
    assert sent == {"model": MODEL, **more}
    assert last == spoken[1]
    assert system["content"].startswith("Be brief.\n\n")
    assert "dies with out of memory" in system["content"]
    run = await Run.objects.aget()
    assert answer["X-Mnemoscope-Run"] == f"http://testserver/runs/{run.pk}/"
    assert answer["X-Mnemoscope-Recall"] == "found"
    assert (await client.get(answer["Content-Location"])).json()["query"] == QUESTION
    assert not await Message.objects.filter(external_id__startswith="chat:").aexists()
    assert run.delivered is None


async def test_without_a_system_message_one_is_made_and_parts_stay_parts(
    client: AsyncClient, provider: ChatProvider
) -> None:
    picture = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    question = {"role": "user", "content": [{"type": "text", "text": QUESTION}, picture]}
    await ask(client, messages=[question])
    system, last = provider.requests[-1]["messages"]
    assert (system["role"], last) == ("system", question)
    await ask(client, messages=[{"role": "developer", "content": [{"type": "text", "text": "Be brief."}]}, question])
    developer = provider.requests[-1]["messages"][0]
    assert [part["text"] for part in developer["content"]] == ["Be brief.", system["content"]]
    assert set(await sync_to_async(list)(Run.objects.values_list("query", flat=True))) == {QUESTION}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_what_was_said_is_stored_and_compared_where_that_is_wished(client: AsyncClient, stream: bool) -> None:
    headers = {"X-Mnemoscope-Store": "true", "X-Mnemoscope-Report": "on", "X-Mnemoscope-Session": "%D1%87%D0%B0%D1%82"}
    answer = await ask(client, stream=stream, headers=headers)
    if stream:
        assert (await streamed(answer)).endswith("data: [DONE]\n\n")
    stored = Message.objects.filter(external_id__startswith="chat:").order_by("sent_at")
    rows = await sync_to_async(list)(stored.values_list("role", "text", "session"))
    assert rows == [("user", QUESTION, "чат"), ("assistant", ANSWER, "чат")]
    run = await Run.objects.aget()
    assert run.delivered["text"] == ANSWER
    assert len(run.delivered["uses"]) == 1


async def test_the_settings_say_what_is_kept_where_a_request_does_not(
    client: AsyncClient, memory: ChatUser, settings: Any
) -> None:
    settings.CHAT_STORE = True
    stored = Message.objects.filter(external_id__startswith="chat:")
    await ask(client, headers={"X-Mnemoscope-Store": "no"})
    assert await stored.acount() == 0
    reading = await sync_to_async(token_for)(memory, scopes=("recall",))
    await ask(client, headers={"Authorization": f"Bearer {reading}"})
    assert await stored.acount() == 0
    assert (
        await ask(client, headers={"X-Mnemoscope-Store": "1", "Authorization": f"Bearer {reading}"})
    ).status_code == 403
    await ask(client)
    assert await stored.acount() == 2


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_one_recall_serves_while_tools_are_called(
    client: AsyncClient, provider: ChatProvider, stream: bool
) -> None:
    provider.mood, headers = "calls", {"X-Mnemoscope-Store": "true"}
    asking_first = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hello!"}]
    asking_first = [*asking_first, {"role": "user", "content": QUESTION}]
    first = await ask(client, messages=asking_first, stream=stream, headers=headers)
    text = await streamed(first) if stream else first.content.decode()
    assert '"get_weather"' in text
    called = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    result = {"role": "tool", "tool_call_id": "call_1", "content": "Rain."}
    second = await ask(client, messages=[*asking_first, called, result], stream=stream, headers=headers)
    if stream:
        await streamed(second)
    assert second["X-Mnemoscope-Run"] == first["X-Mnemoscope-Run"]
    before, after = (request["messages"] for request in provider.requests)
    assert after == [*before, called, result]
    assert await Message.objects.filter(external_id__startswith="chat:").acount() == 2
    other = [{"role": "user", "content": "Hi"}, *asking_first[1:], called, result]
    assert (await ask(client, messages=other))["X-Mnemoscope-Run"] != first["X-Mnemoscope-Run"]


async def test_a_late_recall_ends_by_its_own_limits_and_a_broken_one_keeps_no_answer_back(
    client: AsyncClient, provider: ChatProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider.sleeps = True
    provider.awake.clear()
    late = await ask(client, headers={"X-Mnemoscope-Strategy": "flash"})
    assert (late.status_code, late["X-Mnemoscope-Recall"]) == (200, "stand_ins")
    assert "Topic:" in str(provider.requests[-1]["messages"]), "what stands in is in the prompt"
    assert (await Run.objects.aget()).fallback in {"timeout", "turn_timeout"}
    provider.calm()

    def away(run: Run) -> None:
        raise OperationalError("connection refused")

    with monkeypatch.context() as broken:
        broken.setattr(chat, "_context_of", away)
        answer = await ask(client)
    assert (answer.status_code, answer["X-Mnemoscope-Recall"]) == (200, "failed")
    assert provider.requests[-1]["messages"] == [{"role": "user", "content": QUESTION}]
    assert (await ask(client))["X-Mnemoscope-Recall"] == "found"


async def test_a_program_with_too_many_runs_is_answered_without_a_recall(client: AsyncClient, settings: Any) -> None:
    settings.API_MAX_RUNS = 0
    answer = await ask(client)
    assert (answer.status_code, answer["X-Mnemoscope-Recall"]) == (200, "failed")
    settings.API_MAX_RUNS = 10
    assert (await ask(client))["X-Mnemoscope-Recall"] == "found"


async def test_the_key_of_the_program_goes_to_the_provider_and_nowhere_else(
    client: AsyncClient, provider: ChatProvider, caplog: pytest.LogCaptureFixture
) -> None:
    account = {"OpenAI-Organization": "org_1", "Cookie": "sessionid=x"}
    await ask(client, headers={**account, "X-Mnemoscope-Store": "true"})
    await ask(client, headers={**account, "X-Provider-Key": KEY, "X-Mnemoscope-Store": "true"})
    token = client.defaults["AUTHORIZATION"].removeprefix("Bearer ")
    await ask(client, headers={"X-Mnemoscope-Token": token, "Authorization": f"Bearer {KEY}"})
    ours, theirs, swapped = provider.headers
    assert ours["authorization"] == "Bearer sk-of-the-settings-0123456789"
    assert theirs["authorization"] == swapped["authorization"] == f"Bearer {KEY}"
    assert ("openai-organization" in ours, theirs["openai-organization"]) == (False, "org_1")
    assert all("cookie" not in sent and token not in json.dumps(sent) for sent in provider.headers)
    provider.mood = "fails"
    failed = await ask(client, headers={"X-Provider-Key": KEY})
    assert failed.json()["error"]["message"] == "Key Bearer [API key] met a fault"
    assert (failed.status_code, failed.json()["error"]["type"]) == (500, "provider_error")
    rows = [await sync_to_async(list)(model.objects.values()) for model in (Run, RunEvent, Message)]
    assert KEY not in f"{rows}{caplog.text}"


async def test_what_the_provider_refuses_is_passed_on_as_it_is(client: AsyncClient, provider: ChatProvider) -> None:
    provider.mood = "refuses"
    answer = await ask(client, stream=True, headers={"X-Mnemoscope-Store": "true"})
    assert (answer.status_code, answer.json()) == (429, REFUSAL)
    assert (answer["Retry-After"], answer["X-Request-Id"]) == ("7", "req_1")
    assert answer["X-Mnemoscope-Run"]
    assert "X-RateLimit-Plan" not in answer
    assert not await Message.objects.filter(external_id__startswith="chat:").aexists()


async def test_a_page_in_place_of_an_answer_is_a_fault_of_the_provider(
    client: AsyncClient, provider: ChatProvider
) -> None:
    provider.mood = "page"
    for stream in (False, True):
        answer = await ask(client, stream=stream, headers={"X-Mnemoscope-Store": "true"})
        assert (answer.status_code, answer["Content-Type"]) == (502, "application/json")
        assert answer.json()["error"]["message"] == "The provider answered with text/html instead of JSON."
    assert not await Message.objects.filter(external_id__startswith="chat:").aexists()
    provider.calm()
    assert (await ask(client)).json()["choices"][0]["message"]["content"] == ANSWER


async def test_a_silent_and_a_missing_provider_are_reported_and_the_next_call_works(
    client: AsyncClient, provider: ChatProvider, settings: Any
) -> None:
    provider.mood, settings.CHAT_TIMEOUT = "late", 0.3
    provider.awake.clear()
    answer = await ask(client)
    assert (answer.status_code, answer.json()["error"]["code"]) == (504, "provider_late")
    provider.calm()
    settings.CHAT_TIMEOUT = 60.0
    assert (await ask(client)).status_code == 200
    there, settings.LLM_BASE_URL = settings.LLM_BASE_URL, "http://127.0.0.1:9/v1"
    answer = await ask(client)
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "provider_unreachable")
    settings.LLM_BASE_URL = there
    assert (await ask(client)).status_code == 200


async def test_a_stream_that_breaks_off_ends_in_an_error(client: AsyncClient, provider: ChatProvider) -> None:
    provider.mood = "breaks"
    text = await streamed(await ask(client, stream=True))
    *_, last = text.strip().split("\n\n")
    assert json.loads(last.removeprefix("data: "))["error"]["code"] == "provider_failed"
    provider.calm()
    assert (await streamed(await ask(client, stream=True))).endswith("data: [DONE]\n\n")


async def test_a_program_that_leaves_ends_the_providers_work_and_what_it_got_is_kept(
    client: AsyncClient, provider: ChatProvider
) -> None:
    provider.goes_on.clear()
    answer = await ask(client, stream=True, headers={"X-Mnemoscope-Store": "true"})
    begun = asyncio.Event()

    async def read() -> None:
        async for part in answer.streaming_content:
            if WORDS[0] in part.decode():
                begun.set()

    reading = asyncio.create_task(read())
    await begun.wait()
    reading.cancel()
    await asyncio.wait([reading])
    while chat._under_way:
        await asyncio.wait(chat._under_way)
    answer.close()
    stored = Message.objects.filter(external_id__startswith="chat:").order_by("sent_at")
    assert await sync_to_async(list)(stored.values_list("text", flat=True)) == [QUESTION, WORDS[0].strip()]
    provider.goes_on.set()
    unread = await ask(client, stream=True)
    unread.close()
    assert (await ask(client)).status_code == 200


async def test_a_chat_user_of_whom_nothing_is_known_is_answered_and_made_when_something_is_stored(
    connected: Runner,
) -> None:
    of_all = await sync_to_async(token_for)()
    client = AsyncClient(AUTHORIZATION=f"Bearer {of_all}")
    answer = await ask(client, user="new")
    assert (answer.status_code, answer["X-Mnemoscope-Recall"]) == (200, "nothing")
    assert not await ChatUser.objects.filter(name="new").aexists()
    answer = await ask(
        client, user="new", headers={"X-Mnemoscope-User": "%D0%AF%D0%BD%D0%B0", "X-Mnemoscope-Store": "1"}
    )
    assert await Message.objects.filter(owner__name="Яна").acount() == 2
    assert (await ask(client)).status_code == 422
    assert (await ask(client, user="\n")).status_code == 422


async def test_a_recall_can_be_left_out_and_an_unknown_strategy_is_refused(client: AsyncClient) -> None:
    answer = await ask(client, headers={"X-Mnemoscope-Recall": "off"})
    assert (answer.status_code, answer["X-Mnemoscope-Recall"], "X-Mnemoscope-Run" in answer) == (200, "off", False)
    assert (await ask(client, headers={"X-Mnemoscope-Strategy": "magic"})).status_code == 400
    assert (await ask(client, headers={"X-Mnemoscope-Store": "perhaps"})).status_code == 400
    assert not await Run.objects.aexists()


async def test_models_are_those_of_the_provider_or_of_the_settings(client: AsyncClient, settings: Any) -> None:
    listed = (await client.get("/v1/models")).json()
    assert [model["id"] for model in listed["data"]] == [MODEL]
    settings.CHAT_SHARED_KEY = False
    assert (await client.get("/v1/models")).status_code == (await ask(client)).status_code == 401
    assert (await ask(client, headers={"X-Provider-Key": KEY})).status_code == 200
    settings.LLM_BASE_URL = ""
    assert (await client.get("/v1/models")).json() == {"object": "list", "data": []}
    refused = await ask(client, headers={"X-Provider-Key": KEY})
    assert refused.status_code == 503
    assert "LLM_BASE_URL" in refused.json()["error"]["message"]


async def test_a_run_belongs_to_the_span_of_its_caller_and_a_broken_header_breaks_nothing(client: AsyncClient) -> None:
    span = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    question = {"user": "anna", "query": QUESTION}
    for header, kept in ((span, span), ("00-" + "0" * 32 + span[35:], ""), ("zz", "")):
        assert (await ask(client, headers={"traceparent": header})).status_code == 200
        for path in ("/v1/recall", "/v1/qa"):
            asked = {**question, "strategy": "vector"} if path == "/v1/recall" else question
            answer = await client.post(path, asked, content_type="application/json", headers={"traceparent": header})
            assert answer.status_code == 200, answer.content
        runs = [run.traceparent async for run in Run.objects.order_by("-created_at")[:3]]
        assert runs == [kept] * 3


# Answers in words over HTTP: the agent's stream, the plain path, and both while the agent is switched off.


QA, STREAM = "/v1/qa", "/v1/agent/stream"


@pytest.mark.usefixtures("runner")
async def test_without_a_chat_model_the_nearest_passages_are_given_and_none_is_called_an_answer(
    agent_client: AsyncClient,
) -> None:
    answer = await post(agent_client, QA, query="What to do when vLLM on the H100 dies with out of memory?")
    document = answer.json()
    assert answer.status_code == 200, document
    WordsAnswer.model_validate(document)
    assert (document["strategy"], document["agent"], document["fallback"]) == (PLAIN.name, False, None)
    assert (document["outcome"], document["answer"], document["text"], document["by"]) == ("passages", "", "", None)
    assert (document["verified"], document["support"]) == (None, None)
    assert "LLM_BASE_URL" in document["note"]
    assert document["url"] == f"http://testserver/runs/{document['run']}/"
    assert [cited["n"] for cited in document["citations"]] == list(range(1, len(document["citations"]) + 1))
    assert document["citations"]
    for cited in document["citations"]:
        message = await Message.objects.aget(external_id=cited["message"])
        assert cited["quote"] in message.text
        assert cited["message"] in cited["passage"]


@pytest.mark.usefixtures("runner")
async def test_a_typed_filter_that_nothing_meets_is_never_dropped(agent_client: AsyncClient) -> None:
    for query in ("vLLM since:2099-01-01", "vLLM author:Nobody", "vLLM channel:nosuchchannel"):
        for path in (QA, STREAM):
            answer = await post(agent_client, path, query=query)
            document = answer.json() if path == QA else (await events_of(answer))[-1][2]
            assert (document["outcome"], document["citations"]) == ("passages", [])
            assert f"No message meets the filters {query.split()[1]}." in document["note"]
    found = (await post(agent_client, "/v1/recall", query="vLLM since:2099-01-01", strategy="vector")).json()
    assert found["topics"] == []


def checked(events: list[tuple[str, int, Any]]) -> tuple[Any, list[Any], Any]:
    """Returns the beginning, the progress and the answer, after checking the shape of each against the description."""
    (first, _, begun), *between, (last, _, answer) = events
    assert (first, last, {kind for kind, _, _ in between}) == ("run", "answer", {"progress"})
    StreamBegun.model_validate(begun)
    WordsAnswer.model_validate(answer)
    for _kind, _seq, progress in between:
        StreamProgress.model_validate(progress)
    return begun, [progress for _kind, _seq, progress in between], answer


@pytest.mark.usefixtures("runner")
async def test_the_agent_shows_progress_and_answers_and_the_run_keeps_the_rest(agent_client: AsyncClient) -> None:
    answer = await post(agent_client, STREAM)
    assert answer["Content-Type"].startswith("text/event-stream")
    begun, progress, document = checked(await events_of(answer))
    assert (begun["strategy"], begun["agent"], begun["note"]) == (REACT.name, True, "")
    assert document["agent"] is True
    assert (document["outcome"], document["verified"]) == ("passages", None)
    assert document["citations"]
    assert "search" in {each.get("tool") for each in progress}
    assert answer["Content-Location"] == f"/v1/runs/{document['run']}"
    run = await Run.objects.aget(pk=document["run"])
    assert (run.strategy, run.state) == (REACT.name, "finished")
    assert await run.events.acount() > len(progress), "the trace is the run"


@pytest.mark.usefixtures("runner")
async def test_while_the_agent_is_switched_off_the_plain_path_answers_its_stream_and_says_so(
    agent_client: AsyncClient, settings: Any
) -> None:
    settings.ENABLE_AGENT = False
    begun, _progress, document = checked(await events_of(await post(agent_client, STREAM)))
    assert (begun["strategy"], begun["agent"], document["agent"]) == (PLAIN.name, False, False)
    assert "ENABLE_AGENT" in begun["note"]
    # The stream takes the parameters of the agent; the plain path follows those that it has.
    asked = {"planner": "never", "hits": 7}
    answer = await post(agent_client, STREAM, parameters=asked)
    assert answer.status_code == 200, answer.content
    _begun, _progress, document = checked(await events_of(answer))
    assert (await Run.objects.aget(pk=document["run"])).parameters["hits"] == 7
    wrong = await post(agent_client, STREAM, parameters={"threshold": 0.5})
    assert wrong.status_code == 400
    assert "“react” has no parameter “threshold”" in wrong.json()["error"]["message"]
    assert (await post(agent_client, QA)).json()["strategy"] == PLAIN.name
    refused = await post(agent_client, "/v1/recall", strategy=REACT.name)
    assert refused.status_code == 400
    assert "ENABLE_AGENT" in refused.json()["error"]["message"]


@pytest.mark.usefixtures("runner")
async def test_a_question_asked_twice_is_searched_once(agent_client: AsyncClient) -> None:
    runs = [(await post(agent_client, QA)).json()["run"] for _twice in range(2)]
    found = [(await Run.objects.aget(pk=run)).events.filter(kind="candidates_found") for run in runs]
    first, second = [(await events.aget()).payload for events in found]
    assert first["cached_seconds"] is None
    assert second["cached_seconds"] >= 0
    assert second["candidates"] == first["candidates"]
