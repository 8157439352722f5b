"""Instrumented programs send their traces to a live server, and each is a foreign run that people can read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from memoryapp.engine.events import CandidatesFound, ModelReplied, RunFinished, TurnStarted
from memoryapp.engine.kinds.react import ToolUsed
from memoryapp.engine.outline import Outline
from memoryapp.intake import invariants
from memoryapp.models import ChatUser, Run
from memoryapp.runs import followers
from tests.peers.chat_provider import MODEL, WORDS, ChatProvider
from tests.support.api_client import Program, token_for
from tests.support.stack import CHECKOUT
from tests.traces import programs

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def token(anna: ChatUser) -> str:
    return token_for(anna, scopes=("ingest",))


@pytest.fixture
def provider() -> Iterator[ChatProvider]:
    made = ChatProvider()
    yield made
    made.stop()


def only_run(owner: ChatUser) -> tuple[Run, list[Any]]:
    run = Run.objects.of(owner).get()
    return run, [item.event for item in followers.stored(run.pk)]


def test_a_chain_with_a_retriever_is_a_run_with_candidates_and_a_choice(
    live_server: Any, anna: ChatUser, token: str
) -> None:
    with programs.exporting(live_server.url, token, "beekeeper") as tracing:
        assert programs.chain(tracing) == programs.ANSWER
    run, events = only_run(anna)
    outline = Outline.of(events)
    assert (run.state, run.origin, run.query) == ("finished", "beekeeper", programs.QUERY)
    assert outline.found
    assert outline.finished
    assert outline.started
    assert [each.id for each in outline.found.candidates] == ["Document:bees", "Document:barn", "Document:honey"]
    assert [each.score for each in outline.found.candidates] == [0.91, 0.42, 0.77]
    # The model was sent two of the three.
    assert [each.id for each in outline.finished.selected] == ["Document:bees", "Document:honey"]
    reply = outline.replies[0]
    assert (reply.text, reply.input_tokens, reply.output_tokens) == (programs.ANSWER, 40, 7)
    assert "openinference.instrumentation.langchain" in outline.started.parameters["instrumentation"]
    assert (run.candidate_count, run.selected_count, run.turns) == (3, 2, 1)
    assert list(invariants.violations(anna)) == []


def test_a_graph_of_langgraph_is_a_run_with_two_turns_around_its_search(
    live_server: Any, anna: ChatUser, token: str
) -> None:
    with programs.exporting(live_server.url, token, "graph") as tracing:
        assert programs.graph(tracing, "anna") == programs.ANSWER
    run, events = only_run(anna)
    shown = [event.kind for event in events]
    turn = ["turn_started", "model_replied"]
    assert shown == ["run_started", *turn, "candidates_found", *turn, "run_finished"]
    first, second = [event for event in events if isinstance(event, ModelReplied)]
    assert [(call.name, call.id) for call in first.tool_calls] == [("search_notes", "call_1")]
    assert second.text == programs.ANSWER
    # Only what is new is in the prompt of the second turn.
    asked = [event for event in events if isinstance(event, TurnStarted)][1]
    assert all(programs.QUERY not in message.content for message in asked.prompt)
    assert "nine hives" in asked.prompt[-1].content
    assert run.query == programs.QUERY
    assert [each.id for each in events[-1].selected] == ["Document:bees", "Document:honey"]


def test_the_sdk_of_openai_is_a_run_with_a_turn_and_no_candidates(
    live_server: Any, anna: ChatUser, token: str, provider: ChatProvider
) -> None:
    with programs.exporting(live_server.url, token, "sdk") as tracing:
        text = programs.client(tracing, provider.url, MODEL)
    run, events = only_run(anna)
    assert [event.kind for event in events] == ["run_started", "turn_started", "model_replied", "run_finished"]
    _started, turn, reply, finished = events
    assert [(message.role, message.content) for message in turn.prompt] == [
        ("system", "Be brief."),
        ("user", programs.QUERY),
    ]
    assert (reply.text, reply.model, reply.provider) == ("".join(WORDS), MODEL, "openai")
    assert text == reply.text
    assert (run.query, finished.selected, run.state) == (programs.QUERY, (), "finished")


def test_conventions_of_opentelemetry_are_a_run_with_a_search_a_tool_and_a_turn(
    live_server: Any, anna: ChatUser, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "SPAN_ONLY")
    with programs.exporting(live_server.url, token, "agent") as tracing:
        programs.agent(tracing)
    run, events = only_run(anna)
    _started, found, tool, turn, reply, finished = events
    assert isinstance(found, CandidatesFound)
    assert isinstance(finished, RunFinished)
    assert [(each.id, each.score) for each in found.candidates] == [
        ("Document:bees", 0.91),
        ("Document:barn", 0.42),
        ("Document:honey", 0.77),
    ]
    assert (tool.tool, tool.arguments, tool.result) == (
        "get_weather",
        {"input": '{"city":"Oslo"}'},
        {"output": "rain"},
    )
    assert [message.role for message in turn.prompt] == ["system", "user"]
    assert (reply.model, reply.text, reply.finish_reason) == ("acme-small-2", programs.ANSWER, "stop")
    assert (run.input_tokens, run.output_tokens, run.query) == (31, 6, programs.QUERY)
    # Without texts of documents nobody can say which of them the model was sent.
    assert len(finished.selected) == 3
    assert [note.code for note in finished.notes] == ["foreign_all_found"]


def test_what_the_ai_sdk_of_vercel_sends_are_runs(anna: ChatUser, token: str) -> None:
    """The spans of `generateText` with a tool and of `streamText`, as version 5.0.277 sent them."""
    sent = (CHECKOUT / "tests" / "fixtures" / "ai_sdk_5_spans.json").read_bytes()
    assert Program(token).post("/v1/otlp/v1/traces", sent).json() == {}
    streamed, generated = Run.objects.of(anna).order_by("query")
    assert (generated.query, streamed.query) == ("Which cake did Dasha bake?", "What was in it?")
    for run in (generated, streamed):
        assert (run.state, run.origin) == ("finished", "cake-chat")
    events = [item.event for item in followers.stored(generated.pk)]
    called, answered = (event for event in events if isinstance(event, ModelReplied))
    assert [(each.name, each.arguments) for each in called.tool_calls] == [("searchMemory", '{"query":"honey cake"}')]
    assert (answered.text, answered.model) == ("Dasha baked a honey cake.", "gpt-4.1-mini-2025-04-14")
    assert [event.tool for event in events if isinstance(event, ToolUsed)] == ["searchMemory"]
    [first, second] = (event for event in events if isinstance(event, TurnStarted))
    assert [(each.role, each.content) for each in first.prompt] == [
        ("system", "You are kind."),
        ("user", "Which cake did Dasha bake?"),
    ]
    assert [message.role for message in second.prompt] == ["assistant", "tool"]
    assert second.prompt[0].content == 'searchMemory {"query": "honey cake"}'
    assert "The honey cake had walnuts" in second.prompt[1].content
    assert (generated.turns, generated.input_tokens, generated.output_tokens) == (2, 60, 14)
    [reply] = (item.event for item in followers.stored(streamed.pk) if isinstance(item.event, ModelReplied))
    assert (reply.text, reply.input_tokens, reply.output_tokens) == ("It had walnuts.", 30, 7)
    assert list(invariants.violations(anna)) == []
