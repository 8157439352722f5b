"""Runs leave as spans through the real exporter: continued, without texts, and at nobody's cost."""

import gzip
import logging
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from memoryapp.engine.outline import Outline
from memoryapp.models import ChatUser, Run
from memoryapp.platform.telemetry import ended
from memoryapp.runs import followers, lifecycle
from memoryapp.runs.clients import open_clients
from tests.support.api_client import token_for
from tests.support.executing import QUERY, memory_of_three

pytestmark = pytest.mark.django_db(transaction=True)


class Collector(ThreadingHTTPServer):
    """``status`` is its answer; 200 takes the spans."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _CollectorHandler)
        self.status = 200
        self.taken: list[Any] = []
        self.headers: list[dict[str, str]] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self.shutdown()
        self.server_close()

    @property
    def spans(self) -> list[Any]:
        return [
            span for request in self.taken for r in request.resource_spans for s in r.scope_spans for span in s.spans
        ]

    def attributes(self) -> dict[str, dict[str, Any]]:
        """The attributes of each span by its name."""
        return {span.name: {pair.key: _plain(pair.value) for pair in span.attributes} for span in self.spans}


def _plain(value: Any) -> Any:
    kind = value.WhichOneof("value")
    return [_plain(each) for each in value.array_value.values] if kind == "array_value" else getattr(value, kind)


class _CollectorHandler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        self.server.headers.append({name.lower(): value for name, value in self.headers.items()})
        if self.server.status == 200:
            self.server.taken.append(ExportTraceServiceRequest.FromString(body))
        self.send_response(self.server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""


# Runs leave as spans through the real exporter: continued, without texts, and at nobody's cost.


CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TEXTS = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.stop()


@pytest.fixture
def memory() -> ChatUser:
    found: ChatUser = async_to_sync(memory_of_three)()
    return found


@pytest.fixture(autouse=True)
def sender_of_this_test() -> Iterator[None]:
    """Each test begins and ends without the process's thread."""
    ended._sender.cache_clear()
    yield
    ended._sender.cache_clear()


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "60000")
    return monkeypatch


def executed(owner: ChatUser, query: str = QUERY, **given: Any) -> Run:
    """A run of the embedded model, to its end."""
    run = lifecycle.start(owner, query, **given)

    async def execute() -> None:
        async with open_clients() as clients:
            await lifecycle.execute(run.pk, clients)

    async_to_sync(execute)()
    run.refresh_from_db()
    assert run.is_finished
    return run


def sent() -> None:
    """Everything that waits is sent, as at the end of the process."""
    sender = ended._sender()
    assert sender
    sender.close()
    assert not sender._thread.is_alive()


def test_a_run_continues_the_trace_of_its_caller_without_any_text(
    memory: ChatUser, collector: Collector, environment: pytest.MonkeyPatch
) -> None:
    environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    environment.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=secret")
    environment.setenv("OTEL_SERVICE_NAME", "our-memory")
    environment.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
    run = executed(memory, traceparent=CALLER)
    sent()
    whole, *parts = sorted(collector.spans, key=lambda span: span.name != "search_memory")
    assert (whole.trace_id.hex(), whole.parent_span_id.hex()) == tuple(CALLER.split("-")[1:3])
    assert {span.parent_span_id for span in parts} == {whole.span_id}
    assert all(whole.start_time_unix_nano <= span.start_time_unix_nano for span in parts)
    assert all(span.end_time_unix_nano <= whole.end_time_unix_nano for span in parts)
    names = collector.attributes()
    assert names["search_memory"]["gen_ai.operation.name"] == "search_memory"
    assert names["search_memory"]["gen_ai.memory.record.count"] == run.selected_count
    assert names["search_memory"]["mnemoscope.run.url"] == f"/runs/{run.pk}/"
    assert names["search_memory"]["mnemoscope.run.outcome"] == "chosen"
    assert names["retrieval"]["mnemoscope.candidates"] == run.candidate_count
    chats = [span for span in parts if span.name.startswith("chat")]
    assert len(chats) == run.turns
    assert [span.name for span in parts if span.name.startswith("execute_tool")]
    assert collector.headers[0]["x-key"] == "secret"
    assert collector.headers[0]["content-encoding"] == "gzip"
    (resource,) = (each.resource for request in collector.taken for each in request.resource_spans)
    assert {pair.key: pair.value.string_value for pair in resource.attributes}["service.name"] == "our-memory"
    for words in ("vLLM", "memory here", "H100", "honey"):
        assert words not in str(collector.taken)


def test_spans_of_a_caller_that_is_not_sampled_are_not_sent(
    memory: ChatUser, collector: Collector, environment: pytest.MonkeyPatch
) -> None:
    environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    executed(memory, traceparent=CALLER[:-1] + "0")
    last = executed(memory)
    sent()
    environment.setenv("OTEL_TRACES_SAMPLER", "always_off")
    ended._sender.cache_clear()
    executed(memory)
    sent()
    assert {span.trace_id for span in collector.spans} == {last.pk.bytes}


def test_a_collector_that_is_away_costs_nothing_but_one_line_and_is_used_again(
    memory: ChatUser, collector: Collector, environment: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    collector.status = 400
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            run = executed(memory)
            assert run.fallback == ""
            exporter = ended._sender()._exporter  # type: ignore[union-attr]
            wait_until_read()
            exporter.flush()
    assert [record.message for record in caplog.records if "collector" in record.message] == [
        "The collector of traces takes none; spans are dropped until it does. Recalls go on."
    ]
    assert not [record for record in caplog.records if record.name.startswith("opentelemetry")]
    collector.status = 200
    back = executed(memory)
    sent()
    assert {span.trace_id for span in collector.spans} == {back.pk.bytes}


def wait_until_read() -> None:
    """Returns when the thread has read every run that it was given."""
    waiting = ended._sender()._waiting  # type: ignore[union-attr]
    waiting.join()


def test_without_the_package_one_sentence_says_so_and_runs_go_on(
    memory: ChatUser, environment: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    environment.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    environment.delitem(sys.modules, "memoryapp.platform.telemetry.exporting", raising=False)
    ended.begin()
    assert [record.message for record in caplog.records] == [ended.MISSING]
    assert executed(memory).fallback == ""
    assert [record.message for record in caplog.records].count(ended.MISSING) == 1


def test_nothing_is_sent_unless_the_environment_wants_it(environment: pytest.MonkeyPatch) -> None:
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
        environment.delenv(name, raising=False)
    assert not ended.is_wanted()
    environment.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:9/v1/traces")
    assert ended.is_wanted()
    for name, value in (("OTEL_SDK_DISABLED", "true"), ("OTEL_TRACES_EXPORTER", "none")):
        with environment.context() as narrower:
            narrower.setenv(name, value)
            assert not ended.is_wanted()


def test_own_spans_come_back_as_a_foreign_run_that_looks_like_the_original(
    live_server: Any, memory: ChatUser, boris: ChatUser, environment: pytest.MonkeyPatch
) -> None:
    token = token_for(boris, scopes=("ingest",))
    environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"{live_server.url}/v1/otlp")
    environment.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"Authorization=Bearer%20{token},X-Mnemoscope-User=boris")
    environment.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "30")
    environment.setenv(TEXTS, "SPAN_ONLY")
    run = executed(memory)
    wait_until_read()
    ended._sender()._exporter.flush()  # type: ignore[union-attr]
    copy = Run.objects.of(boris).get()
    assert (copy.query, copy.origin, copy.state) == (run.query, "mnemoscope", "finished")
    assert (copy.turns, copy.input_tokens, copy.output_tokens) == (run.turns, run.input_tokens, run.output_tokens)
    assert (copy.candidate_count, copy.selected_count) == (run.candidate_count, run.selected_count)
    theirs, ours = (Outline.of([item.event for item in followers.stored(each.pk)]) for each in (copy, run))
    assert theirs.found
    assert ours.found
    found = [each.id.removeprefix("Document:") for each in theirs.found.candidates]
    assert found == [each.id for each in ours.found.shown]
    assert theirs.finished
    assert ours.finished
    chosen = [each.id.removeprefix("Document:") for each in theirs.finished.selected]
    assert chosen == [each.id for each in ours.finished.selected]
    assert [reply.text for reply in theirs.replies] == [reply.text for reply in ours.replies]
    assert [reply.tool_calls for reply in theirs.replies] == [reply.tool_calls for reply in ours.replies]
