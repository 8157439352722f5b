"""Answers in words over HTTP: the agent's stream, the plain path, and both while the agent is switched off."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from django.test import AsyncClient

from memoryapp.api import agent, asking, streams
from memoryapp.api.shapes.answers import StreamBegun, StreamProgress, WordsAnswer
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
    for module in (agent, asking, streams):
        monkeypatch.setattr(module, "runner", made)
    yield made
    await made.close()


@pytest.mark.usefixtures("runner")
async def test_the_plain_path_answers_with_the_messages_it_quotes(client: AsyncClient) -> None:
    answer = await post(client, QA, query="What to do when vLLM on the H100 dies with out of memory?")
    document = answer.json()
    assert answer.status_code == 200, document
    WordsAnswer.model_validate(document)
    assert (document["strategy"], document["agent"], document["by"], document["fallback"]) == (
        PLAIN.name,
        False,
        "extracts",
        None,
    )
    assert document["outcome"] in {"answered", "softened"}
    assert document["answer"] == document["text"] != ""
    assert document["verified"] is None, "the plain path checks no claims"
    assert document["url"] == f"http://testserver/runs/{document['run']}/"
    for cited in document["citations"]:
        assert f"[{cited['n']}]" in document["text"]
        message = await Message.objects.aget(external_id=cited["message"])
        assert cited["quote"] in message.text


@pytest.mark.usefixtures("runner")
async def test_a_question_about_something_else_is_refused(client: AsyncClient) -> None:
    document = (await post(client, QA, query="Who won the chess tournament in Reykjavik?")).json()
    assert (document["outcome"], document["citations"]) == ("refused", [])


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
    assert document["answer"] == document["text"] != ""
    assert isinstance(document["verified"], bool)
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
