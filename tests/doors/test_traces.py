"""Traces of other programs: late, twice, broken, from real libraries; each is a run that people can read, or
refused."""

import gzip
import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from memoryapp.doors.traces import arrival
from memoryapp.doors.traces.wire import LARGEST_BYTES
from memoryapp.engine.events import CandidatesFound, ModelReplied, RunFinished, TurnStarted
from memoryapp.engine.kinds.react import ToolUsed
from memoryapp.engine.outline import Outline
from memoryapp.insight import capsules, delivery
from memoryapp.insight.capsules import capsule_of, document
from memoryapp.intake import invariants
from memoryapp.models import ChatUser, Run, RunEvent, Trace, TraceSpan
from memoryapp.runs import endings, followers, lifecycle
from rerankui.runs import fragments
from tests.doors import traced_programs as programs
from tests.doors.sent import TRACE, request, requests_of, search, span
from tests.peers.chat_provider import MODEL, WORDS, ChatProvider
from tests.support.api_client import Program, error_of, token_for
from tests.support.stack import CHECKOUT

pytestmark = pytest.mark.django_db(transaction=True)

PATH = "/v1/otlp/v1/traces"
ROOT = {"openinference__span__kind": "CHAIN", "input__value": "Who looks after the bees?"}


@pytest.fixture
def program(anna: ChatUser) -> Program:
    return Program(token_for(anna, scopes=("ingest",)))


def kinds(run: Run) -> list[str]:
    return list(RunEvent.objects.filter(run=run).order_by("seq").values_list("kind", flat=True))


def sent(program: Program, *spans: dict[str, Any], **headers: str) -> dict[str, Any]:
    answer = program.post(PATH, request(*spans), **headers)
    assert answer.status_code == 200, answer.content
    return dict(json.loads(answer.content))


def test_a_trace_grows_over_requests_until_its_root_has_ended(program: Program, anna: ChatUser) -> None:
    assert sent(program, search(3, 1, "bees", "Vera keeps bees.")) == {}
    run = Run.objects.get()
    assert (run.state, run.query, kinds(run)) == ("running", "bees", ["run_started", "candidates_found"])
    # No process of this installation executes it, so none has abandoned it.
    assert endings.close_abandoned(timedelta(0)) == 0
    assert list(invariants.violations(anna)) == []
    sent(program, search(2, 1, "honey", "Honey is sold.", "Vera keeps bees."))
    run.refresh_from_db()
    assert kinds(run) == ["run_started", "tool_used", "tool_used", "candidates_found"]
    sent(program, span(1, seconds=9.0, **ROOT))
    run.refresh_from_db()
    assert (run.state, run.query, run.seconds) == ("finished", "Who looks after the bees?", 9.0)
    # Each document once, by its best place.
    found = RunEvent.objects.get(run=run, kind="candidates_found").payload["candidates"]
    assert [(each["id"], each["rank"]) for each in found] == [("Document:d1", 1), ("Document:d2", 2)]
    assert list(invariants.violations(anna)) == []


def test_the_same_spans_again_change_nothing_and_late_ones_belong_to_their_run(program: Program) -> None:
    whole = [span(1, seconds=9.0, **ROOT), search(2, 1, "bees", "Vera keeps bees.")]
    sent(program, *whole)
    before = list(RunEvent.objects.order_by("seq").values_list("pk", "payload"))
    sent(program, *whole)
    sent(program, whole[0])
    assert list(RunEvent.objects.order_by("seq").values_list("pk", "payload")) == before
    sent(program, span(3, 1, gen_ai__operation__name="execute_tool", gen_ai__tool__name="ring"))
    run = Run.objects.get()
    assert (run.state, kinds(run)) == ("finished", ["run_started", "candidates_found", "tool_used", "run_finished"])
    # Once its spans are dropped, nothing belongs to it any more, and the program is told so.
    assert arrival.drop_spans(timedelta(0)) == 3
    assert Trace.objects.update(has_root=True) == 1
    Run.objects.update(heartbeat_at="2026-01-01T00:00Z")
    late = sent(program, search(4, 1, "wax", "Wax."), *whole)
    assert late["partialSuccess"]["rejectedSpans"] == "3"
    assert kinds(run) == ["run_started", "candidates_found", "tool_used", "run_finished"]
    assert not TraceSpan.objects.exists()


def test_a_trace_without_a_root_ends_when_nothing_comes_any_more(program: Program, anna: ChatUser) -> None:
    sent(program, search(2, 1, "bees", "Vera keeps bees."))
    assert arrival.end_quiet() == []
    run = Run.objects.get()
    assert arrival.end_quiet(timedelta(0)) == [run.pk]
    run.refresh_from_db()
    assert (run.state, run.selected_count) == ("finished", 1)
    assert list(invariants.violations(anna)) == []


def test_spans_that_mean_nothing_here_are_no_runs(program: Program) -> None:
    assert sent(program, span(1, name="GET /healthz"), span(2, 1, db__system="postgresql")) == {}
    assert not Run.objects.exists()
    assert not TraceSpan.objects.exists()


def test_a_reranker_says_what_was_chosen_and_a_failed_model_why_not(program: Program) -> None:
    documents = {f"reranker.input_documents.{n}.document.content": text for n, text in enumerate(("one", "two"))}
    kept = {"reranker.output_documents.0.document.content": "two", "reranker.output_documents.0.document.score": 0.9}
    reranker = span(2, 1, openinference__span__kind="RERANKER", reranker__query="number", **documents, **kept)
    failed = span(4, 1, gen_ai__operation__name="chat", gen_ai__request__model="acme")
    failed["status"] = {"code": 2, "message": "HTTP 429"}
    sent(program, span(1, seconds=9.0, **ROOT), reranker, failed)
    finished = RunEvent.objects.get(kind="run_finished").payload
    ids = [each["id"] for each in RunEvent.objects.get(kind="candidates_found").payload["candidates"]]
    assert [(each["id"], each["score"]) for each in finished["selected"]] == [(ids[1], 0.9)]
    assert finished["dropped"] == [ids[0]]
    assert RunEvent.objects.get(kind="model_replied").payload["error"] == "HTTP 429"


def test_chat_users_are_named_by_header_attribute_or_resource(anna: ChatUser, boris: ChatUser) -> None:
    of_all = Program(token_for(scopes=("ingest",)))
    traces = [f"{n:032x}" for n in range(1, 6)]
    by_span = search(2, 1, "bees", "text", trace=traces[0], user__id="anna")
    # What comes later of a known trace need not name anybody.
    sent(of_all, by_span)
    sent(of_all, search(3, 1, "wax", "text", trace=traces[0]))
    sent(of_all, search(2, 1, "bees", "text", trace=traces[1]), **{"X-Mnemoscope-User": "%D0%B2%D0%B5%D1%80%D0%B0"})
    of_resource = requests_of([search(2, 1, "bees", "text", trace=traces[2])], {"user.id": "boris"})
    assert of_all.post(PATH, of_resource).status_code == 200
    unnamed = sent(of_all, search(2, 1, "bees", "text", trace=traces[3]))
    assert "name no chat user" in unnamed["partialSuccess"]["errorMessage"]
    found = list(Run.objects.order_by("owner__name").values_list("owner__name", flat=True))
    assert found == ["anna", "boris", "вера"]
    # A token of one chat user needs no name, and opens nobody else's memory.
    of_boris = Program(token_for(boris, scopes=("ingest",)))
    refused = sent(of_boris, search(2, 1, "bees", "text", trace=traces[4], user__id="anna"))
    assert refused["partialSuccess"]["rejectedSpans"] == "1"
    assert error_of(of_boris.post(PATH, request(by_span), **{"X-Mnemoscope-User": "anna"}))[0] == 404
    assert Run.objects.of(anna).count() == 1


def test_protobuf_is_answered_in_protobuf(program: Program, anna: ChatUser) -> None:
    message = ExportTraceServiceRequest()
    made = message.resource_spans.add().scope_spans.add().spans.add()
    made.trace_id, made.span_id, made.name = bytes.fromhex(TRACE), (7).to_bytes(8, "big"), "search"
    for key, value in (("gen_ai.operation.name", "search_memory"), ("gen_ai.memory.query.text", "bees")):
        made.attributes.add(key=key).value.string_value = value
    message.resource_spans[0].scope_spans[0].spans.add(name="no ids")
    body = gzip.compress(message.SerializeToString())
    kind = {"Content-Type": "application/x-protobuf", "Content-Encoding": "gzip"}
    answer = program.client.post(PATH, body, content_type=kind["Content-Type"], headers={**program.headers, **kind})
    assert answer["Content-Type"] == "application/x-protobuf"
    partial = ExportTraceServiceResponse.FromString(answer.content).partial_success
    assert (partial.rejected_spans, partial.error_message) == (1, "1 spans have no valid ids.")
    assert Run.objects.of(anna).get().query == "bees"
    kind.pop("Content-Encoding")
    refused = program.client.post(PATH, b"\xff", content_type=kind["Content-Type"], headers={**program.headers, **kind})
    assert (refused.status_code, refused["Content-Type"]) == (400, "application/x-protobuf")
    assert Status.FromString(refused.content).code == 3


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        pytest.param(b"{", {}, 400, id="cut off"),
        pytest.param(b"[]", {}, 400, id="a list"),
        pytest.param(b'{"resourceSpans": 7}', {}, 400, id="a number"),
        pytest.param(b'{"resourceSpans": [7]}', {}, 400, id="a number within"),
        pytest.param(b"[" * 100_000, {}, 400, id="nested"),
        pytest.param(b"{}", {"Content-Type": "text/plain"}, 415, id="another type"),
        pytest.param(b"{}", {"Content-Encoding": "br"}, 415, id="another packing"),
        pytest.param(b"{}", {"Content-Encoding": "gzip"}, 400, id="not packed"),
        pytest.param(gzip.compress(b"{}")[:-9], {"Content-Encoding": "gzip"}, 400, id="cut while packed"),
        pytest.param(gzip.compress(b" " * (LARGEST_BYTES + 1)), {"Content-Encoding": "gzip"}, 413, id="too large"),
        # Seventeen kilobytes hold millions of empty resources, or of scopes, over which a thread would go for seconds.
        pytest.param(b'{"resourceSpans":[' + b"{}," * 30_001 + b"{}]}", {}, 413, id="resources"),
        pytest.param(b'{"resourceSpans":[{"scopeSpans":[' + b"{}," * 30_001 + b"{}]}]}", {}, 413, id="scopes"),
        pytest.param(b"\x0a\x00" * 30_002, {"Content-Type": "application/x-protobuf"}, 413, id="protobuf"),
    ],
)
def test_what_cannot_be_read_is_refused_and_the_next_request_is_taken(
    program: Program, body: bytes, headers: dict[str, str], status: int
) -> None:
    media_type = headers.get("Content-Type", "application/json")
    refused = program.client.post(PATH, body, content_type=media_type, headers={**program.headers, **headers})
    assert refused.status_code == status
    is_json = refused["Content-Type"] == "application/json"
    sentence = json.loads(refused.content)["message"] if is_json else Status.FromString(refused.content).message
    assert sentence.endswith(".")
    assert sent(program, search(2, 1, "bees", "text")) == {}
    assert Run.objects.count() == 1


def test_odd_values_are_read_as_far_as_they_make_sense(program: Program, anna: ChatUser) -> None:
    deep: Any = {"stringValue": "bottom"}
    for _ in range(300):
        deep = {"arrayValue": {"values": [deep]}}
    odd = span(2, 1, gen_ai__operation__name="chat", gen_ai__usage__input_tokens="many", gen_ai__input__messages="[1")
    odd["attributes"] += [{"key": "deep", "value": deep}, {"key": 7}, {"value": {}}, {"key": "nul", "value": None}]
    odd["attributes"].append({"key": "gen_ai.output.messages", "value": {"stringValue": '[{"parts": [{"type": 3}]}]'}})
    odd["attributes"].append({"key": "gen_ai.usage.output_tokens", "value": {"doubleValue": 1e300}})
    odd |= {"startTimeUnixNano": "-5", "endTimeUnixNano": 10**30, "name": "a\0b", "status": 5, "events": None}
    sent(program, odd, span(1, **ROOT))
    run = Run.objects.get()
    assert (run.state, run.input_tokens, run.output_tokens) == ("finished", 0, 2**31 - 1)
    assert list(invariants.violations(anna)) == []


def test_an_erased_chat_user_takes_nothing(program: Program, anna: ChatUser) -> None:
    sent(program, search(2, 1, "bees", "text"))
    ChatUser.objects.filter(pk=anna.pk).update(erasing_since="2026-01-01T00:00Z")
    answer = program.post(PATH, request(search(3, 1, "wax", "text")))
    assert answer.status_code in (401, 409) or json.loads(answer.content)["partialSuccess"]["rejectedSpans"] == "1"
    assert TraceSpan.objects.count() == 1


# A foreign run on the pages of people and in the API: shown, compared, downloaded, and refused where it cannot be.


TEXTS = ("Vera keeps nine hives of bees.", "The barn is red.")


def foreign(owner: ChatUser, *texts: str, trace: str = "0" * 31 + "1") -> Run:
    """A finished run of another program, whose model was sent the first text alone."""
    sent = json.dumps([{"role": "user", "parts": [{"type": "text", "content": texts[0] if texts else "hello"}]}])
    chat = {"gen_ai.input.messages": sent, "gen_ai.operation.name": "chat", "gen_ai.request.model": "acme"}
    spans = [
        span(1, seconds=9.0, trace=trace, **ROOT),
        search(2, 1, "bees", *texts, trace=trace),
        span(4, 1, trace=trace, **chat),
    ]
    program = Program(token_for(owner, scopes=("ingest",)))
    assert program.post(PATH, request(*spans, service="beekeeper")).status_code == 200
    return Run.objects.of(owner).latest("heartbeat_at")


def test_the_page_shows_the_run_and_says_what_is_missing(anna: ChatUser, as_debugger: Client) -> None:
    run = foreign(anna, *TEXTS)
    page = as_debugger.get(f"/runs/{run.pk}/").content.decode()
    assert "Document:d1" in page
    assert "beekeeper" in page
    assert (
        "The program did not send the answers of its model. It sent no reasoning. It sent no counts of tokens." in page
    )
    assert f"/runs/{run.pk}/fork/" not in page
    assert f"/runs/{run.pk}/filter/" not in page
    shown = as_debugger.get(f"/runs/{run.pk}/documents/d2/").content.decode()
    assert TEXTS[1] in shown
    assert as_debugger.get(f"/runs/{run.pk}/documents/d9/").status_code == 404
    for place in ("fork", "filter", "grades", "lab"):
        assert as_debugger.get(f"/runs/{run.pk}/{place}/").status_code == 404


def test_whoever_follows_gets_the_whole_run_with_each_frame(anna: ChatUser) -> None:
    run = foreign(anna, *TEXTS)
    frame = fragments.frame(run.pk, seen=fragments.Seen(1), language="en")
    assert frame.finished
    assert 'id="run-summary"' in frame.html
    assert frame.html.count("data-event ") == run.events.count()


def test_why_not_answers_as_far_as_the_trace_says(anna: ChatUser) -> None:
    run = foreign(anna, *TEXTS)
    program = Program(token_for(anna, scopes=("read", "recall")))
    address = f"/v1/runs/{run.pk}/why_not"
    chosen = json.loads(program.get(f"{address}?topic=Document:d1").content)
    assert (chosen["stage"], chosen["numbers"]) == ("chosen", {"rank": 1})
    left = json.loads(program.get(f"{address}?text=barn").content)
    assert (left["stage"], left["topic"]) == ("not_chosen", "Document:d2")
    assert json.loads(program.get(f"{address}?text=honey").content)["stage"] == "unknown"
    assert error_of(program.get(f"{address}?message=m1"))[0] == 422


def test_it_is_forked_nowhere_and_says_why(anna: ChatUser) -> None:
    run = foreign(anna, *TEXTS)
    program = Program(token_for(anna, scopes=("recall", "read")))
    status, _code, sentence = error_of(program.post(f"/v1/runs/{run.pk}/fork", {"turn": 1, "changes": {}}))
    assert status == 422
    assert "beekeeper" in sentence


def test_two_programs_are_compared_by_their_documents(anna: ChatUser) -> None:
    one, other = foreign(anna, *TEXTS), foreign(anna, TEXTS[0], trace="0" * 31 + "2")
    program = Program(token_for(anna, scopes=("read",)))
    compared = json.loads(program.get(f"/v1/compare?run={one.pk}&run={other.pk}").content)
    assert compared["first_divergence"]["stage"] == "search"
    states = {topic["id"]: topic["in"] for topic in compared["topics"]}
    assert states["Document:d1"] == {str(one.pk): "chosen", str(other.pk): "chosen"}
    assert states["Document:d2"] == {str(one.pk): "shown", str(other.pk): "absent"}
    assert {topic["id"]: topic["summary"] for topic in compared["topics"]}["Document:d2"] == TEXTS[1]


def test_a_file_of_it_opens_elsewhere_and_an_answer_is_compared_with_its_documents(anna: ChatUser) -> None:
    run = foreign(anna, *TEXTS)
    opened = capsules.opened(json.dumps(document(capsule_of(run))).encode())
    assert [item.event.kind for item in opened.events][-1] == "run_finished"
    used = delivery.deliver(run, "As I know, Vera keeps nine hives of bees. Ask her.")
    assert [(use.id, use.how) for use in used.uses] == [("Document:d1", "quoted")]


def test_the_list_is_narrowed_by_origin_and_figures_of_the_memory_leave_it_out(
    anna: ChatUser, as_debugger: Client
) -> None:
    run, own = foreign(anna, *TEXTS), lifecycle.start(anna, "What did Vera say?")
    of_program = as_debugger.get("/runs/?origin=beekeeper").content.decode()
    assert f"run-row-{run.pk}" in of_program
    assert f"run-row-{own.pk}" not in of_program
    of_memory = as_debugger.get("/runs/?origin=+").content.decode()
    assert f"run-row-{run.pk}" not in of_memory
    assert f"run-row-{own.pk}" in of_memory
    assert [each.pk for each in Run.objects.made_here()] == [own.pk]


# Instrumented programs send their traces to a live server, and each is a foreign run that people can read.


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
    assert (tool.tool, tool.arguments, tool.result) == ("get_weather", {"input": '{"city":"Oslo"}'}, {"output": "rain"})
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
