"""Metrics and logs: each figure once, each line with its run, and nothing personal."""

import io
import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from asgiref.sync import async_to_sync, sync_to_async
from channels.testing import WebsocketCommunicator
from daphne.access import AccessLogGenerator
from django.conf import LazySettings, settings
from django.test import Client
from django.utils import timezone
from prometheus_client import REGISTRY

from memoryapp import curation
from memoryapp.curation import suggestions
from memoryapp.curation.suggestions import proposals
from memoryapp.engine.agents.merger import propose_summary
from memoryapp.engine.chat.client import HttpChat
from memoryapp.engine.chat.protocol import Chat, ChatRequest, LLMError, LLMUnavailable, Reply
from memoryapp.engine.embeddings import EmbeddingError, Profile
from memoryapp.engine.events import (
    CandidatesFound,
    Event,
    ModelReplied,
    QueryEnriched,
    Retried,
    RunFinished,
    RunStarted,
    Selected,
    SteppedDown,
    ToolCall,
)
from memoryapp.engine.http_embedder import HttpEmbedder
from memoryapp.engine.memory import MessageContent, TopicContent
from memoryapp.intake.archiving import archive
from memoryapp.intake.cutters import Segmenter, cutter
from memoryapp.intake.messages import add_messages
from memoryapp.memory.sessions import limits
from memoryapp.models import (
    Artifact,
    ChatUser,
    Erasure,
    ImportFile,
    Operator,
    PassageVector,
    Run,
    Suggestion,
    Topic,
    TopicEdit,
    UnreadTopic,
)
from memoryapp.platform import metrics
from memoryapp.platform.backlog import BacklogCollector
from memoryapp.platform.llm import clients
from memoryapp.platform.llm.clients import offline_embedder
from memoryapp.platform.logs import JsonFormatter, LineFormatter, RunLogFilter, about_run, cause
from memoryapp.runs import endings, lifecycle
from memoryapp.runs.clients import open_clients
from memoryapp.search.vectors import embed_pending
from rerankui.runs.consumers import RunConsumer
from rerankui.web import server_limits
from tests.conftest import BEGAN, record, talk
from tests.engine.scripted import ScriptedChat, Step
from tests.support.clock import PATIENCE
from tests.support.executing import executed
from tests.support.splitting import SplittingChat, in_fours

HERE = {"host": "localhost"}
# The metrics of topics, each with the sample that grows.
OF_TOPICS = [
    *("topics_extracted_total", "splitter_duration_seconds_count", "topics_size_chars_count"),
    *("topics_coverage_gaps_total", "topics_merged_total", "merger_duration_seconds_count"),
    *("topics_consolidation_candidates_count", "topics_search_duration_seconds_count"),
    *("topics_search_results_count", "topics_reranker_selected_count"),
]
PROMISED = [
    *("reranker_duration_seconds", "reranker_tool_calls_total", "reranker_candidates_input"),
    *("reranker_candidates_output", "reranker_cost_usd_total", "reranker_fallback_total"),
    *("topics_extracted_total", "topics_size_chars", "topics_coverage_gaps_total", "topics_merged_total"),
    *("topics_consolidation_candidates", "topics_search_duration_seconds", "topics_search_results"),
    *("topics_reranker_selected", "splitter_duration_seconds", "merger_duration_seconds"),
    *("llm_requests_total", "llm_tokens_total", "llm_cost_usd_total", "llm_retries_total"),
    *("embedding_texts_total", "embedding_duration_seconds", "reranker_hallucinated_ids_total"),
    *("websocket_viewers", "queue_depth"),
]
COUNT_IN_ANOTHER_PROCESS = """
import os, sys, django
django.setup()
from memoryapp.platform import metrics
metrics.archived([700, 900], owner=41)
metrics.viewers.inc()
os.kill(os.getpid(), 9)
"""
TELL = """
import sys, django
django.setup()
from prometheus_client import generate_latest
from memoryapp.platform import metrics
sys.stdout.buffer.write(generate_latest(metrics.counted()))
"""


class Unreachable:
    """A provider that fails, and repeats the question in its error."""

    model = "мандрагора-model"

    async def converse(self, request: ChatRequest) -> AsyncIterator[Reply]:
        raise LLMUnavailable(str(request.messages))
        yield Reply("")


def sample(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(f"mnemoscope_{name}", labels) or 0.0


def reply(**more: object) -> ModelReplied:
    fields = {"turn": 1, "text": "", "reasoning": "", "tool_calls": (), "input_tokens": 100, "output_tokens": 10}
    return ModelReplied(**{**fields, "cost_usd": 0.25, "seconds": 0.1, "model": "m", **more})  # type: ignore[arg-type]


def a_run(*between: Event, **ending: object) -> list[Event]:
    finished = {"selected": (), "dropped": (), "fallback": "", "note": "", **ending}
    found = CandidatesFound((), 10, 0.02)
    return [RunStarted("flash", "?", {}, "", "", ""), found, *between, RunFinished(**finished)]  # type: ignore[arg-type]


def test_a_run_is_counted_from_its_events() -> None:
    before = [sample("llm_tokens_total", agent="reranker", direction="input"), sample("reranker_tool_calls_total")]
    cost, retries = sample("reranker_cost_usd_total"), sample("llm_retries_total")
    call = ToolCall("1", "get_topics_content", "{}")
    metrics.run_finished(
        a_run(Retried(1, "busy", 0.1), reply(tool_calls=(call, call)), reply(), hallucinated=("Topic:9",)), owner=1
    )
    after = [sample("llm_tokens_total", agent="reranker", direction="input"), sample("reranker_tool_calls_total")]
    assert [now - then for now, then in zip(after, before, strict=True)] == [200, 2]
    assert sample("reranker_cost_usd_total") - cost == pytest.approx(0.5)
    assert sample("llm_retries_total") - retries == 1


def test_the_enricher_and_a_step_down_are_distinguished() -> None:
    asked = sample("llm_requests_total", agent="enricher", outcome="failed")
    down = sample("llm_stepped_down_total", capability="forced tool choice")
    enriched = QueryEnriched("?", "?", note="timeout", seconds=1, model="m")
    metrics.run_finished(a_run(enriched, SteppedDown("forced tool choice", "auto", "400")), owner=1)
    assert sample("llm_requests_total", agent="enricher", outcome="failed") == asked + 1
    assert sample("llm_stepped_down_total", capability="forced tool choice") == down + 1


def test_a_run_that_ended_before_it_began_is_counted_too() -> None:
    before = sample("runs_total", strategy="unknown")
    metrics.run_finished([RunFinished((), (), "crashed", "")], owner=1)
    assert sample("runs_total", strategy="unknown") == before + 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("thread_closed")
async def test_a_run_that_fails_is_counted_once_and_says_nothing_about_anybody() -> None:
    owner = await ChatUser.objects.acreate(name="мандрагора", display_name="Мандрагора")
    await sync_to_async(talk)(owner, ("мандрагора summary", ["мандрагора said this", "and мандрагора that"]))
    await embed_pending(offline_embedder())
    failed = sample("reranker_fallback_total", reason="llm_error")
    run = await sync_to_async(lifecycle.start)(owner, "What did мандрагора say?")
    async with open_clients() as clients:
        await lifecycle.execute(run.pk, replace(clients, chat=Unreachable()))
        await lifecycle.execute(run.pk, replace(clients, chat=Unreachable()))
    assert sample("reranker_fallback_total", reason="llm_error") == failed + 1
    page = (await sync_to_async(Client().get)("/metrics", headers=HERE)).content.decode()
    assert "мандрагора" not in page.casefold()
    assert "owner=" not in page


@pytest.mark.django_db(transaction=True)
def test_a_run_that_is_swept_is_counted(anna: ChatUser) -> None:
    before = sample("runs_total", strategy="unknown")
    Run.objects.create(owner=anna, query="?", strategy="flash", state=Run.State.RUNNING)
    Run.objects.update(heartbeat_at=timezone.now() - timedelta(minutes=1), attempt=endings.MOST_ATTEMPTS)
    assert endings.close_abandoned() == 1
    assert sample("runs_total", strategy="unknown") == before + 1


@pytest.mark.django_db
def test_metrics_are_served_on_this_machine_or_with_the_token(client: Client, settings: LazySettings) -> None:
    settings.ALLOWED_HOSTS = ["localhost", "memory.example.com"]
    assert client.get("/metrics", headers=HERE).status_code == 200
    for asked in ({"host": "memory.example.com"}, {**HERE, "x-forwarded-for": "203.0.113.9"}):
        assert client.get("/metrics", headers=asked).status_code == 401
    assert client.get("/metrics", headers=HERE, REMOTE_ADDR="192.0.2.1").status_code == 401
    settings.METRICS_TOKEN = "a-token-that-is-long"
    assert client.get("/metrics", headers=HERE).status_code == 401
    assert client.get("/metrics", headers={**HERE, "authorization": "Bearer anöther"}).status_code == 401
    far = {"host": "memory.example.com", "authorization": "Bearer a-token-that-is-long"}
    assert client.get("/metrics", headers=far, REMOTE_ADDR="192.0.2.1").status_code == 200


@pytest.mark.django_db
def test_the_page_names_everything_that_was_promised(client: Client) -> None:
    answer = client.get("/metrics", headers=HERE)
    assert answer.status_code == 200
    assert answer["Content-Type"].startswith("text/plain")
    page = answer.content.decode()
    assert [name for name in PROMISED if f"# TYPE mnemoscope_{name.removesuffix('_total')}" not in page] == []


@pytest.mark.django_db(transaction=True)
def test_archiving_counts_the_topics_and_their_sizes(anna: ChatUser) -> None:
    topics, cut = sample("topics_extracted_total"), sample("splitter_duration_seconds_count")
    add_messages(anna, [record(1, "Which cake for ten?"), record(2, "A honey cake.", role="assistant")])
    archive(anna, Segmenter(anna, offline_embedder()), limits(anna), now=True)
    assert sample("topics_extracted_total") == topics + 1
    assert sample("topics_size_chars_count") >= 1
    assert sample("splitter_duration_seconds_count") == cut + 1


@pytest.mark.django_db(transaction=True)
def test_whatever_happens_to_topics_feeds_its_metric(
    anna: ChatUser, settings: LazySettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model cuts a session and leaves out an exchange; topics are compared, merged, searched and chosen."""
    before = {name: sample(name) for name in OF_TOPICS}
    chat = SplittingChat(lambda ids: in_fours(ids[:8]))
    settings.LLM_BASE_URL = "https://llm.example/v1"
    monkeypatch.setattr(clients, "open_chat", chat.open)
    add_messages(anna, [record(number, f"Honey cake {number}?") for number in range(10)])
    archive(anna, cutter(anna, offline_embedder(), chat.open), limits(anna), now=True)
    async_to_sync(embed_pending)(offline_embedder())
    suggestions.suggest(anna)
    topics = list(Topic.objects.of(anna).live())
    chat.answer = lambda ids: '{"merged_summary": "Honey cakes"}'
    proposals.summary_proposed(anna, topics, "cora")
    plan = curation.plan_merge(anna, [topic.pk for topic in topics[:2]])
    curation.swap(anna, plan, kind=TopicEdit.Kind.MERGE, actor="cora")
    metrics.run_finished(a_run(reply(), selected=(Selected(f"Topic:{topics[2].pk}", 1, "", 0.5, 1),)), anna.pk)
    assert {name: sample(name) - was for name, was in before.items() if sample(name) <= was} == {}
    assert sample("topics_coverage_gaps_total") - before["topics_coverage_gaps_total"] == 2
    assert sample("topics_merged_total") - before["topics_merged_total"] == 2


def depths() -> dict[str, float]:
    """Returns the queues and how much waits in each."""
    family, _ages, _alarms = BacklogCollector(clients.profile()).collect()
    return {sample.labels["queue"]: sample.value for sample in family.samples}


@pytest.mark.django_db(transaction=True)
def test_topics_that_the_archivist_will_not_read_are_in_no_queue(anna: ChatUser, boris: ChatUser) -> None:
    failed, _waits = talk(anna, ("Cake", ["Which cake for ten?"]), ("Tea", ["Milk first?"]))
    talk(boris, ("Boats", ["Which boat?"]))
    assert depths()["topics_unread"] == 3
    UnreadTopic.objects.create(owner=anna, topic=failed, state=UnreadTopic.State.FAILED, due_at=BEGAN)
    ChatUser.objects.filter(pk=boris.pk).update(extraction=ChatUser.Extraction.OFF)
    assert depths()["topics_unread"] == 1


@pytest.mark.django_db(transaction=True)
def test_the_queues_are_read_from_the_rows(anna: ChatUser) -> None:
    talk(anna, ("Cake", ["Which cake for ten?", "A honey cake."]))
    add_messages(anna, [record(900, "An old message nobody archived", at=BEGAN)])
    Run.objects.create(owner=anna, query="?", strategy="flash")
    PassageVector.objects.all().delete()
    ImportFile.objects.create(owner=anna, source="chat.json", size_bytes=9)
    Artifact.objects.create(owner=anna, name="plan.pdf", file_type="pdf", sha256="0", created_at=BEGAN)
    Suggestion.objects.create(owner=anna, kind="merge", key="1", topics=[], evidence={})
    Erasure.objects.create(owner_number=999)
    assert depths() == {
        "imports_waiting": 1,
        "runs_pending": 1,
        "runs_running": 0,
        "passages_without_vector": 2,
        "passages_without_next_vector": 0,
        "sessions_due": 1,
        "suggestions_open": 1,
        "topics_unread": 1,
        "artifacts_unread": 1,
        "erasures_unfinished": 1,
        "webhook_messages_waiting": 0,
    }


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("thread_closed")
async def test_an_open_run_page_is_a_viewer_until_it_is_closed(anna: ChatUser, viewer: Operator) -> None:
    run = await Run.objects.acreate(owner=anna, query="?", strategy="flash", state=Run.State.RUNNING)
    page = WebsocketCommunicator(RunConsumer.as_asgi(), "/")
    page.scope.update(user=viewer.user, url_route={"args": (), "kwargs": {"pk": run.pk}})
    await page.connect(timeout=PATIENCE)
    await page.receive_from(timeout=PATIENCE)
    assert sample("websocket_viewers") == 1
    await page.disconnect(timeout=PATIENCE)
    assert sample("websocket_viewers") == 0


def in_another_process(code: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[bytes]:
    shared = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(folder), **environment}
    return subprocess.run([sys.executable, "-c", code], env=shared, capture_output=True, timeout=PATIENCE, check=False)


@pytest.mark.processes
def test_the_web_process_tells_what_a_worker_counted_but_not_who_watched_before_it_was_killed(tmp_path: Path) -> None:
    assert in_another_process(COUNT_IN_ANOTHER_PROCESS, tmp_path).returncode == -9
    page = in_another_process(TELL, tmp_path).stdout.decode()
    assert "mnemoscope_topics_extracted_total 2.0" in page
    assert "mnemoscope_websocket_viewers 1.0" not in page


@pytest.mark.processes
def test_chat_users_are_distinguished_only_on_request(tmp_path: Path) -> None:
    asked = {"METRICS_BY_OWNER": "true"}
    assert in_another_process(COUNT_IN_ANOTHER_PROCESS, tmp_path, **asked).returncode == -9
    page = in_another_process(TELL, tmp_path, **asked).stdout.decode()
    assert 'mnemoscope_topics_extracted_total{owner="41"} 2.0' in page


# The log of a run: it names the run, and contains nothing of questions and answers.


logger = logging.getLogger("memoryapp.test")


class Muttering:
    """A chat model that causes a log message deep inside a run."""

    model = "muttering"

    async def converse(self, request: ChatRequest) -> AsyncIterator[Reply]:
        logger.warning("the line crackles")
        yield Reply("")


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """Returns everything that any module logs, in the format of LOG_FORMAT=json LOG_LEVEL=DEBUG."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(JsonFormatter())
    handler.addFilter(RunLogFilter())
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield written
    root.removeHandler(handler)
    root.setLevel(level)


async def started(query: str) -> Run:
    owner = await ChatUser.objects.acreate(name="мандрагора", display_name="Мандрагора")
    await sync_to_async(talk)(owner, ("мандрагора summary", ["мандрагора said this", "and мандрагора that"]))
    await embed_pending(offline_embedder())
    return await sync_to_async(lifecycle.start)(owner, query)


def lines(log: io.StringIO) -> list[dict[str, str]]:
    return [json.loads(line) for line in log.getvalue().splitlines()]


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("thread_closed")
async def test_every_log_line_during_a_run_names_the_run(log: io.StringIO) -> None:
    run = await started("What did мандрагора say?")
    await executed(run, chat=Muttering())
    logger.warning("all is quiet")
    runs = {line["message"]: line.get("run") for line in lines(log)}
    assert runs["the line crackles"] == str(run.pk)
    assert runs["all is quiet"] is None


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("thread_closed")
async def test_a_provider_that_repeats_what_it_was_asked_puts_none_of_it_into_the_log(log: io.StringIO) -> None:
    def echo(request: httpx.Request) -> httpx.Response:
        return httpx.Response(400, json={"error": {"message": request.content.decode()[:500]}})

    run = await started("What did мандрагора say?")
    async with open_clients() as clients, httpx.AsyncClient(transport=httpx.MockTransport(echo)) as http:
        embedder = HttpEmbedder(http, "http://peer/v1", "", Profile("peer", "m", 512, 0.3))
        chat = HttpChat(http, "http://peer/v1", "", "m")
        await lifecycle.execute(run.pk, replace(clients, chat=chat, enricher=chat))
        with pytest.raises(EmbeddingError):
            await embed_pending(embedder)
        try:
            await embed_pending(embedder)
        except EmbeddingError as error:
            logger.warning("Vectors are missing: %s", cause(error))
        with pytest.raises(LLMError) as failed:
            await finished(chat)
        logger.warning("Merges are not judged: %s", cause(failed.value))
    await run.arefresh_from_db()
    assert run.fallback == "llm_error"
    assert any("Vectors are missing: The embedding endpoint" in line["message"] for line in lines(log))
    assert any(line["message"].endswith("peer did not understand the request (400)") for line in lines(log))
    assert "мандрагора" not in log.getvalue().casefold()


async def finished(chat: Chat) -> str:
    """Returns the answer to an agent's question about the messages. Raises LLMError."""
    now = timezone.now()
    topic = TopicContent(1, "", now, 10, (MessageContent(1, "user", "", now, "мандрагора"),))
    return (await propose_summary([topic], chat=chat, seconds=5).complete()).result()


async def test_a_refusal_that_quotes_messages_puts_none_of_them_into_the_log() -> None:
    with pytest.raises(LLMError) as refused:
        await finished(ScriptedChat(Step(Reply("", refusal="I do not speak of мандрагора."))))
    assert str(refused.value) == "The model refused to answer: I do not speak of мандрагора."
    assert cause(refused.value) == "The model refused to answer"


def test_lines_for_people_name_the_run_and_leave_out_the_row_a_fault_quotes() -> None:
    refusal = 'refused\nDETAIL:  Failing row contains (7, "мандрагора").'
    try:
        raise ValueError(refusal)
    except ValueError as error:
        fault = (type(error), error, error.__traceback__)
    record = logging.LogRecord("memoryapp.test", logging.ERROR, "", 1, "not stored", None, fault)
    with about_run(Run().pk):
        assert RunLogFilter().filter(record)
    text = LineFormatter().format(record)
    assert f"ERROR memoryapp.test [run {record.run}] not stored" in text  # type: ignore[attr-defined]
    assert "ValueError: refused" in text
    assert "мандрагора" not in text


@pytest.mark.parametrize("formatter", [LineFormatter(), JsonFormatter()])
def test_an_address_that_names_a_chat_user_stands_in_the_log_without_the_name(formatter: logging.Formatter) -> None:
    fields = ("django.request", logging.WARNING, __file__, 1, "Not Found: %s", ("/v1/users/anna/topics",), None)
    line = formatter.format(logging.LogRecord(*fields))
    assert "anna" not in line
    assert "/v1/users/…/topics" in line


@contextmanager
def log_in(formatter: logging.Formatter) -> Iterator[io.StringIO]:
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(formatter)
    logging.getLogger().addHandler(handler)
    try:
        yield written
    finally:
        logging.getLogger().removeHandler(handler)


@pytest.mark.django_db
@pytest.mark.parametrize("noun", ["topics", "people/Person:1", "nothing"])
@pytest.mark.parametrize("formatter", [LineFormatter(), JsonFormatter()])
def test_no_part_of_a_name_with_spaces_and_slashes_stands_in_the_log(formatter: logging.Formatter, noun: str) -> None:
    with log_in(formatter) as written:
        for method in ("get", "delete"):
            getattr(Client(), method)(f"/v1/users/Anna%20Petrova%2FSmith/{noun}", headers={"authorization": "Bearer x"})
    assert written.getvalue().count("/v1/") == 2
    assert not re.search("Anna|Petrova|Smith", written.getvalue())


@pytest.mark.parametrize("formatter", [LineFormatter(), JsonFormatter()])
def test_a_refused_page_is_one_line_that_names_nobody(formatter: logging.Formatter, as_stranger: Client) -> None:
    with log_in(formatter) as written:
        for path in ("/tokens/", "/memory/7/", "/prompts/anna/en/", "/anna/", "/v1/users/anna/topics"):
            assert as_stranger.get(f"{path}?q=anna").status_code in (401, 403, 404)
    lines = written.getvalue().splitlines()
    assert [line for line in lines if "anna" in line] == []
    places = (
        "Forbidden (Permission denied): /tokens/",
        "/memory/7/",
        "/prompts/<name>/<language>/",
        "an address",
        "/…/",
    )
    assert [place in line for place, line in zip(places, lines, strict=True)] == [True] * 5


@pytest.mark.parametrize("name", ["httpx", "httpcore"])
def test_the_http_clients_own_lines_of_addresses_and_headers_are_never_written(name: str) -> None:
    assert settings.LOGGING["loggers"][name]["level"] == "WARNING"
    assert not logging.getLogger(name).isEnabledFor(logging.INFO)


def test_a_request_is_logged_as_the_rest_is(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AccessLogGenerator, "write_entry", AccessLogGenerator.write_entry)
    for log_format in ("line", "json"):
        settings.LOG_FORMAT = log_format
        server_limits.limit()
        written = io.StringIO()
        details = {"client": "127.0.0.1:5000", "method": "GET", "path": "/v1/users/anna/topics?after=мандрагора"}
        AccessLogGenerator(written)("http", "complete", {**details, "status": 200, "size": 14})
        AccessLogGenerator(written)("websocket", "connected", {"client": "127.0.0.1:5000", "path": "/ws/runs/1/"})
    request, socket = map(json.loads, written.getvalue().splitlines())
    assert request.pop("at")
    assert request == {
        **{"level": "INFO", "logger": "daphne.access", "message": "GET /v1/users/…/topics"},
        **{"client": "127.0.0.1:5000", "status": 200, "bytes": 14},
    }
    assert (socket["message"], "status" in socket) == ("WSCONNECT /ws/runs/1/", False)
