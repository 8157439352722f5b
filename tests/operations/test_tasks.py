"""The worker's tasks: a failure affects one task only, and unclaimed tasks do not accumulate."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import DataError, connections
from kombu import Connection

from memoryapp import celery
from memoryapp.celery import Sweeps, app
from memoryapp.intake import archiving
from memoryapp.intake.archiving import Archived, IngestionError
from memoryapp.intake.cutters import Cutter
from memoryapp.intake.messages import add_messages
from memoryapp.models import ChatUser, Topic, TopicEdit
from memoryapp.platform import work
from memoryapp.platform.llm import clients
from memoryapp.upkeep import tasks
from memoryapp.upkeep.pipeline.archive import DUE_LANES
from tests.ingestion.test_archiving import message_record
from tests.operations.test_work import unlock
from tests.search.test_vectors import Away, Hashing, Refusing
from tests.support.splitting import SplittingChat


@pytest.fixture
def everyone(anna: ChatUser, boris: ChatUser) -> None:
    """Two chat users, each with a session that ended long ago; Anna is processed first."""
    add_messages(anna, [message_record(number, f"a poisoned word {number}") for number in range(4)])
    add_messages(boris, [message_record(number, f"a harmless word {number}") for number in range(4)])


def test_a_chat_user_whose_text_the_model_refuses_keeps_nobody_from_being_archived(
    everyone: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(clients, "embedder_of", lambda of: Refusing("poisoned"))
    tasks.archive_due()
    assert set(Topic.objects.values_list("owner__name", flat=True)) == {"boris"}
    assert "are not archived yet: The endpoint answered 400" in caplog.text


@pytest.mark.parametrize(
    "error", [IngestionError("no"), DataError("no"), ValueError("no")], ids=lambda error: type(error).__name__
)
def test_what_else_goes_wrong_with_one_chat_user_keeps_nobody_from_being_archived(
    everyone: None, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    archive: Callable[..., Archived] = archiving.archive

    def archive_or_fail(owner: ChatUser, cutter: Cutter, *rest: Any, **asked: Any) -> Archived:
        if owner.name == "anna":
            raise error
        return archive(owner, cutter, *rest, **asked)

    monkeypatch.setattr(clients, "embedder_of", lambda profile: Hashing())
    monkeypatch.setattr(archiving, "archive", archive_or_fail)
    tasks.archive_due()
    assert set(Topic.objects.values_list("owner__name", flat=True)) == {"boris"}


def test_a_connected_model_cuts_the_sessions(everyone: None, monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    settings.LLM_BASE_URL, settings.SPLIT_THRESHOLD_CHARS = "http://model.invalid/v1", 25_000
    monkeypatch.setattr(clients, "embedder_of", lambda profile: Away())
    monkeypatch.setattr(clients, "open_chat", SplittingChat().open)
    tasks.archive_due()
    assert list(TopicEdit.objects.values_list("call__prompt_version", flat=True)) == ["split-en-0"] * 2


@pytest.mark.django_db(transaction=True)
def test_no_more_than_two_sweeps_archive_at_once(everyone: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "embedder_of", lambda profile: Hashing())
    other = connections.create_connection("default")
    try:
        with other.cursor() as cursor:
            for lane in range(DUE_LANES):
                cursor.execute("SELECT pg_advisory_lock(hashtextextended('archive_due', %s))", [lane])
        tasks.archive_due()
        assert not Topic.objects.exists()
        work.ask_to_archive(ChatUser.objects.get(name="anna"), "cora")
        tasks.archive_asked()
        assert set(Topic.objects.values_list("owner__name", flat=True)) == {"anna"}
    finally:
        unlock(other)
    tasks.archive_due()
    assert set(Topic.objects.values_list("owner__name", flat=True)) == {"anna", "boris"}


def test_an_embedding_endpoint_that_is_away_is_one_line_in_the_log(
    everyone: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(clients, "embedder_of", lambda profile: Hashing())
    tasks.archive_due()
    monkeypatch.setattr(clients, "embedder_of", lambda profile: Away())
    tasks.embed_pending()
    assert [record.getMessage() for record in caplog.records] == [
        "Vectors are missing and will be requested again: The endpoint is away."
    ]


def test_sweeps_that_nobody_takes_do_not_pile_up() -> None:
    beat = Sweeps(app)
    with Connection("memory://") as broker:
        producer = broker.Producer()
        for _ in range(20):
            for entry in beat.schedule.values():
                beat.apply_async(entry, producer=producer, advance=False)
        waiting = producer.channel.queue_purge(app.conf.task_default_queue)
    beat.close()
    assert waiting == len(app.conf.beat_schedule)


def test_no_sweep_is_dropped_by_a_worker_whose_clock_is_ahead() -> None:
    beat = Sweeps(app)
    with Connection("memory://") as broker:
        producer = broker.Producer()
        for entry in beat.schedule.values():
            beat.apply_async(entry, producer=producer, advance=False)
        sent = [producer.channel._get(app.conf.task_default_queue) for _ in beat.schedule]
    assert [message["headers"]["expires"] for message in sent] == [None] * len(beat.schedule)


@pytest.mark.parametrize("wrong_by", [timedelta(days=400), timedelta(days=-400)], ids=["ahead", "behind"])
def test_a_clock_that_was_wrong_once_stops_no_sweep(monkeypatch: pytest.MonkeyPatch, wrong_by: timedelta) -> None:
    now, uptime = datetime(2026, 3, 2, tzinfo=UTC), 5000.0
    monkeypatch.setattr(app, "now", lambda: now + wrong_by)
    monkeypatch.setattr(celery.time, "monotonic", lambda: uptime)
    beat = Sweeps(app)
    entry = beat.reserve(beat.schedule["archive-due"])
    monkeypatch.setattr(app, "now", lambda: now)
    assert not entry.is_due().is_due
    uptime += 61
    assert entry.is_due().is_due


def test_celery_finds_the_app_in_a_process_of_its_own() -> None:
    """Celery imports the module before the models are loaded, unlike everything else that imports it."""
    find = "from celery.app.utils import find_app; print(find_app('memoryapp.celery').main)"
    found = subprocess.run([sys.executable, "-c", find], capture_output=True, text=True, check=False)
    assert (found.stdout.strip(), found.returncode) == ("mnemoscope", 0), found.stderr[-2_000:]
