"""The log of a run: it names the run, and contains nothing of questions and answers."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from daphne.access import AccessLogGenerator
from django.conf import settings
from django.test import Client
from django.utils import timezone

from memoryapp.engine.agents.merger import propose_summary
from memoryapp.engine.chat.client import HttpChat
from memoryapp.engine.chat.protocol import Chat, ChatRequest, LLMError, Reply
from memoryapp.engine.embeddings import EmbeddingError, Profile
from memoryapp.engine.http_embedder import HttpEmbedder
from memoryapp.engine.memory import MessageContent, TopicContent
from memoryapp.models import ChatUser, Run
from memoryapp.platform.llm.clients import offline_embedder
from memoryapp.platform.logs import JsonFormatter, LineFormatter, RunLogFilter, about_run, cause
from memoryapp.runs import lifecycle
from memoryapp.runs.clients import open_clients
from memoryapp.search.vectors import embed_pending
from rerankui.web import server_limits
from tests.conftest import talk
from tests.engine.scripted import ScriptedChat, Step

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
    async with open_clients() as clients:
        await lifecycle.execute(run.pk, replace(clients, chat=Muttering()))
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


@pytest.mark.django_db
@pytest.mark.parametrize("noun", ["topics", "people/Person:1", "nothing"])
@pytest.mark.parametrize("formatter", [LineFormatter(), JsonFormatter()])
def test_no_part_of_a_name_with_spaces_and_slashes_stands_in_the_log(formatter: logging.Formatter, noun: str) -> None:
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(formatter)
    logging.getLogger().addHandler(handler)
    try:
        for method in ("get", "delete"):
            getattr(Client(), method)(f"/v1/users/Anna%20Petrova%2FSmith/{noun}", headers={"authorization": "Bearer x"})
    finally:
        logging.getLogger().removeHandler(handler)
    assert written.getvalue().count("/v1/") == 2
    assert not re.search("Anna|Petrova|Smith", written.getvalue())


@pytest.mark.parametrize("formatter", [LineFormatter(), JsonFormatter()])
def test_a_refused_page_is_one_line_that_names_nobody(formatter: logging.Formatter, as_stranger: Client) -> None:
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(formatter)
    logging.getLogger().addHandler(handler)
    try:
        for path in ("/tokens/", "/memory/7/", "/prompts/anna/en/", "/anna/", "/v1/users/anna/topics"):
            assert as_stranger.get(f"{path}?q=anna").status_code in (401, 403, 404)
    finally:
        logging.getLogger().removeHandler(handler)
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


def test_the_settings_write_what_this_module_says() -> None:
    handler = settings.LOGGING["handlers"]["stderr"]
    assert handler["formatter"] == settings.LOG_FORMAT == "line"
    assert handler["filters"] == ["run"]


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
