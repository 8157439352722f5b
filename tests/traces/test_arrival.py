"""Traces come in several requests, late, twice, from anybody, and broken; each is one run, or is refused in a sentence.

https://opentelemetry.io/docs/specs/otlp/#otlphttp-response says what a server answers.
"""

from __future__ import annotations

import gzip
import json
from datetime import timedelta
from typing import Any

import pytest
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from memoryapp.doors.traces import arrival
from memoryapp.doors.traces.wire import LARGEST_BYTES
from memoryapp.intake import invariants
from memoryapp.models import ChatUser, Run, RunEvent, Trace, TraceSpan
from memoryapp.runs import endings
from tests.support.api_client import Program, error_of, token_for
from tests.traces.sent import TRACE, request, requests_of, search, span

PATH = "/v1/otlp/v1/traces"
ROOT = {"openinference__span__kind": "CHAIN", "input__value": "Who looks after the bees?"}

pytestmark = pytest.mark.django_db(transaction=True)


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
