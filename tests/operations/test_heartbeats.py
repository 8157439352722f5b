"""Worker and beat, as readiness sees them, and what they log while the database is unreachable."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from django.db import OperationalError, ProgrammingError
from django.test import Client

from memoryapp import celery
from memoryapp.models import Heartbeat
from memoryapp.platform import heartbeats
from memoryapp.platform.database import OutageLog, is_outage

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
