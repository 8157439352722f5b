"""Answers in words over HTTP: the agent's stream, the plain path, and both while the agent is switched off."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from django.test import AsyncClient

from memoryapp.doors.api import recall
from memoryapp.doors.api.shapes.answers import StreamBegun, StreamProgress, WordsAnswer
from memoryapp.engine.strategies import PLAIN, REACT
from memoryapp.models import ChatUser, Message, Run
from memoryapp.runs.runner import Runner
from tests.api.test_api_recall import client, events_of, memory, post

__all__ = ["client", "memory"]

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("thread_closed")]

QA, STREAM = "/v1/qa", "/v1/agent/stream"


@pytest.fixture
async def runner(memory: ChatUser, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Runner]:
    """The runner of the web process, in this test's event loop."""
    made = Runner()
    made.bind()
    await made.clients()
    for module in (recall, recall, recall):
        monkeypatch.setattr(module, "runner", made)
    yield made
    await made.close()


@pytest.mark.usefixtures("runner")
async def test_without_a_chat_model_the_nearest_passages_are_given_and_none_is_called_an_answer(
    client: AsyncClient,
) -> None:
    answer = await post(client, QA, query="What to do when vLLM on the H100 dies with out of memory?")
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
async def test_a_typed_filter_that_nothing_meets_is_never_dropped(client: AsyncClient) -> None:
    for query in ("vLLM since:2099-01-01", "vLLM author:Nobody", "vLLM channel:nosuchchannel"):
        for path in (QA, STREAM):
            answer = await post(client, path, query=query)
            document = answer.json() if path == QA else (await events_of(answer))[-1][2]
            assert (document["outcome"], document["citations"]) == ("passages", [])
            assert f"No message meets the filters {query.split()[1]}." in document["note"]
    found = (await post(client, "/v1/recall", query="vLLM since:2099-01-01", strategy="vector")).json()
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
async def test_the_agent_shows_progress_and_answers_and_the_run_keeps_the_rest(client: AsyncClient) -> None:
    answer = await post(client, STREAM)
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
    client: AsyncClient, settings: Any
) -> None:
    settings.ENABLE_AGENT = False
    begun, _progress, document = checked(await events_of(await post(client, STREAM)))
    assert (begun["strategy"], begun["agent"], document["agent"]) == (PLAIN.name, False, False)
    assert "ENABLE_AGENT" in begun["note"]
    # The stream takes the parameters of the agent; the plain path follows those that it has.
    asked = {"planner": "never", "hits": 7}
    answer = await post(client, STREAM, parameters=asked)
    assert answer.status_code == 200, answer.content
    _begun, _progress, document = checked(await events_of(answer))
    assert (await Run.objects.aget(pk=document["run"])).parameters["hits"] == 7
    wrong = await post(client, STREAM, parameters={"threshold": 0.5})
    assert wrong.status_code == 400
    assert "“react” has no parameter “threshold”" in wrong.json()["error"]["message"]
    assert (await post(client, QA)).json()["strategy"] == PLAIN.name
    refused = await post(client, "/v1/recall", strategy=REACT.name)
    assert refused.status_code == 400
    assert "ENABLE_AGENT" in refused.json()["error"]["message"]


@pytest.mark.usefixtures("runner")
async def test_a_question_asked_twice_is_searched_once(client: AsyncClient) -> None:
    runs = [(await post(client, QA)).json()["run"] for _twice in range(2)]
    found = [(await Run.objects.aget(pk=run)).events.filter(kind="candidates_found") for run in runs]
    first, second = [(await events.aget()).payload for events in found]
    assert first["cached_seconds"] is None
    assert second["cached_seconds"] >= 0
    assert second["candidates"] == first["candidates"]
