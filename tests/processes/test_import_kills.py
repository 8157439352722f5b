"""An import whose process is killed again and again continues, and nothing is missing or doubled."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.db import connection

from memoryapp.intake.transfer import files
from memoryapp.models import ChatUser, ImportBatch, ImportFile, Message, Topic
from memoryapp.platform.database import conninfo
from memoryapp.upkeep import tasks
from tests.intake.laplaced import database, message, topic
from tests.support.chats import chat_line
from tests.support.stack import CHECKOUT, wait_for

MESSAGES = 12_000
KILLED_AT = (2_000, 6_000)
# Processes waiting files once, as the worker does.
IMPORTING = "import django; django.setup(); from memoryapp.upkeep import tasks; tasks.import_waiting()"
LOCK = "SELECT pg_advisory_lock(hashtextextended('messages', %s))"


@pytest.mark.django_db(transaction=True)
def test_an_import_killed_again_and_again_is_whole_in_the_end(tmp_path: Path, settings: Any) -> None:
    settings.IMPORT_DIR = tmp_path / "imports"
    anna = ChatUser.objects.create(name="anna")
    row = files.stage(anna, _chat(tmp_path), "chat.jsonl", "ada")
    tasks.import_waiting()
    row.refresh_from_db()
    files.begin(row)
    for count in KILLED_AT:
        with _worker(tmp_path) as process:
            _kill_once_stored(process, anna, count)
        # The next process can take the import once the database has noticed the end of the killed one.
        wait_for(lambda: _locks("granted") == 0)
        assert ImportFile.objects.get().state == ImportFile.State.IMPORTING
    assert KILLED_AT[-1] <= Message.objects.count() < MESSAGES
    # The killed process's lock is freed when the database notices its end; the next sweep comes anyway.
    wait_for(lambda: _swept().state == ImportFile.State.DONE)
    row.refresh_from_db()
    batch = ImportBatch.objects.get()
    assert (row.state, batch.added, batch.skipped) == (ImportFile.State.DONE, MESSAGES, 0)
    assert Message.objects.filter(batch=batch).count() == MESSAGES
    assert Message.objects.values("external_id").distinct().count() == MESSAGES


@pytest.mark.django_db(transaction=True)
def test_an_import_killed_before_its_topics_leaves_nothing_to_archive(tmp_path: Path, settings: Any) -> None:
    settings.IMPORT_DIR = tmp_path / "imports"
    listed = [*(message(n, 7) for n in (1, 2, 5)), *(message(n, 8) for n in (3, 4))]
    path = database(tmp_path, history=listed, topics=[topic(7, 1, 5), topic(8, 3, 4)])
    row = files.stage(ChatUser.objects.create(name="anna"), path, "laplaced.db", "ada")
    tasks.import_waiting()
    row.refresh_from_db()
    files.begin(row)
    with psycopg.connect(conninfo()) as keeping, _worker(tmp_path) as process:
        keeping.execute("LOCK TABLE memoryapp_topic IN SHARE MODE")
        wait_for(lambda: _locks("NOT granted", "relation") >= 1)
        process.kill()
    wait_for(lambda: _locks("granted") == 0)
    tasks.archive_due()
    assert not Topic.objects.exists()
    wait_for(lambda: _swept().state == ImportFile.State.DONE)
    talks = {topic.summary: topic.message_set.count() for topic in Topic.objects.live()}
    assert talks == {"Talk 7": 3, "Talk 8": 2}


def _kill_once_stored(process: subprocess.Popen[bytes], owner: ChatUser, count: int) -> None:
    """Lets the importer take its writers' lock for one batch at a time, and kills it before the next one."""
    with (
        psycopg.connect(conninfo(), autocommit=True) as having,
        psycopg.connect(conninfo(), autocommit=True) as wanting,
        ThreadPoolExecutor(1) as waiter,
    ):
        having.execute(LOCK, [owner.pk])
        while Message.objects.count() < count:
            wait_for(lambda: _locks("NOT granted") == 1)
            taken = waiter.submit(wanting.execute, LOCK, [owner.pk])
            wait_for(lambda: _locks("NOT granted") == 2)
            having.execute(LOCK.replace("_lock", "_unlock"), [owner.pk])
            taken.result()
            having, wanting = wanting, having
        process.kill()


def _locks(which: str, kind: str = "advisory") -> int:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*) FROM pg_locks WHERE locktype = %s AND {which}", [kind])
        return int(cursor.fetchone()[0])


def _swept() -> ImportFile:
    tasks.import_waiting()
    return ImportFile.objects.get()


def _chat(folder: Path) -> Path:
    began, path = datetime(2020, 1, 1, tzinfo=UTC), folder / "chat.jsonl"
    with path.open("w") as file:
        for n in range(MESSAGES):
            file.write(
                json.dumps(chat_line(id=f"m{n}", ts=(began + timedelta(minutes=n)).isoformat(), text=f"text {n}"))
            )
            file.write("\n")
    return path


def _worker(folder: Path) -> subprocess.Popen[bytes]:
    environment = {
        **os.environ,
        "DATABASE_URL": conninfo(),
        "DATA_DIR": str(folder),
        "DJANGO_SETTINGS_MODULE": "memoryapp.settings",
    }
    return subprocess.Popen([sys.executable, "-c", IMPORTING], cwd=CHECKOUT, env=environment)
