"""The worker: its tasks, its messages, its heartbeat."""

import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from queue import Empty
from typing import Any

import psycopg
import pytest
from django.db import DataError, OperationalError, ProgrammingError, connections
from django.test import Client
from kombu import Connection
from kombu.exceptions import ChannelError

from memoryapp import celery
from memoryapp.celery import Sweeps, app
from memoryapp.intake import archiving
from memoryapp.intake.archiving import Archived, IngestionError
from memoryapp.intake.cutters import Cutter
from memoryapp.intake.messages import add_messages
from memoryapp.models import ChatUser, Heartbeat, Topic, TopicEdit
from memoryapp.platform import broker, heartbeats, work
from memoryapp.platform.database import OutageLog, is_outage
from memoryapp.platform.llm import clients
from memoryapp.upkeep import tasks
from memoryapp.upkeep.pipeline.archive import DUE_LANES
from tests.intake.test_archiving import message_record
from tests.platform.test_work import unlock
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


# Messages as files: the worker sees a complete message or none.


@pytest.fixture
def channel(tmp_path: Path) -> Iterator[Any]:
    folders = {"data_folder_in": tmp_path, "data_folder_out": tmp_path, "control_folder": tmp_path / "control"}
    (tmp_path / "control").mkdir()
    options = {name: str(folder) for name, folder in folders.items()}
    with Connection("filesystem://", transport_options=options) as connection:
        yield connection.default_channel


def test_messages_come_in_the_order_they_were_sent(channel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(100))
    monkeypatch.setattr(broker.time, "monotonic", lambda: 1000 + next(clock))
    for number in range(5):
        channel._put("celery", {"body": "ё" * 10_000, "number": number})
    assert [channel._get("celery")["number"] for _ in range(5)] == list(range(5))
    with pytest.raises(Empty):
        channel._get("celery")


def test_a_message_that_is_not_whole_yet_is_no_message(channel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def looked_at(part: Path, file: Path) -> None:
        with pytest.raises(Empty):
            channel._get("celery")
        seen.append(file.name)
        os.rename(part, file)

    monkeypatch.setattr(broker.os, "replace", looked_at)
    channel._put("celery", {"number": 1})
    assert len(seen) == 1
    assert channel._get("celery") == {"number": 1}


def test_a_full_disk_is_reported_and_no_file_is_left(
    channel: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(part: Path, file: Path) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(broker.os, "replace", full)
    with pytest.raises(ChannelError):
        channel._put("celery", {"number": 1})
    assert [file for file in tmp_path.iterdir() if file.is_file()] == []


def test_a_queue_is_bound_once(channel: Any) -> None:
    for _ in range(2):
        channel._queue_bind("tasks", "celery", "", "celery")
    channel._queue_bind("tasks", "other", "", "other")
    assert [bound.queue for bound in channel.get_table("tasks")] == ["other", "celery"]


# Worker and beat, as readiness sees them, and what they log while the database is unreachable.


ROOT = Path(__file__).resolve().parent.parent.parent


def ago(process: str, seconds: int) -> None:
    """Sets the last heartbeat to so long ago, or to so far ahead."""
    heartbeats.record(process)
    made = Heartbeat.objects.filter(pk=process)
    made.update(at=made.get().at.__class__.fromtimestamp(made.get().at.timestamp() - seconds, made.get().at.tzinfo))


def test_readiness_tells_of_worker_and_beat_and_counts_them_where_it_is_asked_to(db: None) -> None:
    heartbeats.record("beat")
    heartbeats.record("worker")
    answer = Client().get("/readyz?all=1")
    assert (answer.status_code, answer.json()["worker"], answer.json()["beat"]) == (200, "ok", "ok")
    ago("worker", 63)
    assert Client().get("/readyz").status_code == 200
    answer = Client().get("/readyz?all=1")
    assert (answer.status_code, answer.json()["beat"]) == (503, "ok")
    assert answer.json()["worker"].startswith("no sign for 6")


def test_a_sign_from_the_future_is_no_sign(db: None) -> None:
    """The database's clock was ahead and was corrected, and the process has died meanwhile."""
    ago("beat", -86_400)
    assert heartbeats.states()["beat"].startswith("no sign for 86")
    heartbeats.record("beat")
    assert heartbeats.states() == {"worker": heartbeats.NEVER, "beat": "ok"}


def test_the_overview_tells_who_gives_no_sign_any_more(as_admin: Client) -> None:
    heartbeats.record("worker")
    assert "No sign of life" not in as_admin.get("/").content.decode()
    ago("worker", 63)
    assert "No sign of life from worker" in as_admin.get("/").content.decode()


def away(kind: type[psycopg.Error] = psycopg.OperationalError) -> OperationalError:
    error = OperationalError("connection refused")
    error.__cause__ = kind("connection refused\nIs the server running?")
    return error


def test_a_database_that_is_away_is_one_line_a_minute_and_one_when_it_is_back(caplog: pytest.LogCaptureFixture) -> None:
    outage = OutageLog(interval=3600)
    for _ in range(20):
        outage.report(away())
    outage.end()
    outage.end()
    outage.report(away())
    sentences = [record.getMessage() for record in caplog.records]
    first = "The database cannot be reached: connection refused. Requests are refused and work waits until it is back."
    assert sentences == [first, "The database is back after 0 s.", first]


def test_a_task_ends_in_peace_only_when_the_database_is_away(caplog: pytest.LogCaptureFixture) -> None:
    faults = [away(), psycopg.OperationalError("the pool waited too long"), ProgrammingError("a fault of ours")]

    @celery.app.task(name="tests.failing", shared=False)
    def failing() -> None:
        raise faults.pop(0)

    with caplog.at_level(logging.WARNING):
        failing()
        failing()
        with pytest.raises(ProgrammingError):
            failing()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    del celery.app.tasks["tests.failing"]
    celery.database_outage.end()


def test_a_statement_that_timed_out_is_no_outage() -> None:
    assert not is_outage(away(psycopg.errors.QueryCanceled))
    assert is_outage(away(psycopg.errors.AdminShutdown))
    assert is_outage(psycopg.InterfaceError("the connection is closed"))


def test_the_worker_reads_its_app_before_the_models_are_there() -> None:
    """As ``celery -A memoryapp.celery`` does in a new process; the app that needs models could not be started."""
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "memoryapp.settings"}
    read = subprocess.run(
        [sys.executable, "-c", "import memoryapp.celery"], env=environment, cwd=ROOT, capture_output=True
    )
    assert read.returncode == 0, read.stderr.decode()
