"""The Celery app: tasks only hurry work up, beat sweeps what was lost.

Without a broker address messages lie as files in the data folder, which needs no server. What has to be
done is found in the rows themselves, so a lost message costs seconds and never work.
"""

from __future__ import annotations

import os
import sys
import time
from datetime import UTC, datetime
from typing import Any

import psycopg
from celery import Celery, Task, bootsteps, signals
from celery.beat import ScheduleEntry, Scheduler
from celery.schedules import schedule
from django.conf import settings
from django.db import DatabaseError, connection
from kombu.transport import TRANSPORT_ALIASES

from memoryapp import heartbeats, startup
from memoryapp.embedded import pulse
from memoryapp.outages import database, is_outage

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "memoryapp.settings")
TRANSPORT_ALIASES["filesystem"] = "memoryapp.broker:Transport"


def _transport() -> dict[str, Any]:
    """Where messages lie as files; the folders are made here, for kombu makes none."""
    if not settings.CELERY_BROKER_URL.startswith("filesystem:"):
        return {}
    queue, control = settings.CELERY_BROKER_DIR / "queue", settings.CELERY_BROKER_DIR / "control"
    for folder in (queue, control):
        folder.mkdir(parents=True, exist_ok=True)
    return {
        "data_folder_in": str(queue),
        "data_folder_out": str(queue),
        "control_folder": str(control),
        "polling_interval": 0.5,
    }


class Sweep(Task):  # type: ignore[misc]
    """A task that ends in peace when the database is away: what it was to do stays in the rows, for the next one."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        try:
            done = self.run(*args, **options)
        except (DatabaseError, psycopg.Error) as error:
            if not is_outage(error):
                raise
            database.met(error)
            return None
        database.over()
        return done


def _give_sign(process: str) -> None:
    """In a thread that keeps no connection; a database that is away is one line a minute."""
    try:
        heartbeats.give(process)
    except DatabaseError as error:
        database.met(error)
    else:
        database.over()
    finally:
        connection.close()


def _since_start() -> datetime:
    """A time that nobody sets: by the machine's clock, one that was ahead once would end all sweeps until then."""
    return datetime.fromtimestamp(time.monotonic(), UTC)


def _every(seconds: float, task: str) -> dict[str, Any]:
    """A sweep. Its message never expires: a worker whose clock is ahead of beat's would drop each of them."""
    return {"task": f"memoryapp.tasks.{task}", "schedule": schedule(seconds, nowfun=_since_start)}


class Sweeps(Scheduler):  # type: ignore[misc]
    """Beat, that waits while a round of messages lies in the queue: without a worker they would pile up.

    It remembers nothing from one start to the next, for a sweep too many does no harm.
    """

    _last_sign = float("-inf")

    def setup_schedule(self) -> None:
        super().setup_schedule()
        pulse.from_thread()

    def tick(self, *args: Any, **options: Any) -> float:
        delay = super().tick(*args, **options)
        if time.monotonic() - self._last_sign >= heartbeats.EVERY:
            self._last_sign = time.monotonic()
            _give_sign("beat")
        return min(float(delay), heartbeats.EVERY)

    def apply_async(self, entry: ScheduleEntry, producer: Any = None, advance: bool = True, **options: Any) -> Any:
        if producer is not None and _waiting(producer.channel) >= len(app.conf.beat_schedule):
            return None
        return super().apply_async(entry, producer=producer, advance=advance, **options)


def _waiting(channel: Any) -> int:
    """How many messages nobody took yet."""
    queue = app.amqp.queues[app.conf.task_default_queue]
    declared = channel.queue_declare(
        queue=queue.name,
        durable=queue.durable,
        exclusive=queue.exclusive,
        auto_delete=queue.auto_delete,
        arguments=queue.queue_arguments,
    )
    return int(declared.message_count)


class Heartbeats(bootsteps.StartStopStep):  # type: ignore[misc]
    """The worker's signs of life: to the database, and to whoever started it."""

    requires = {"celery.worker.components:Timer"}

    def __init__(self, worker: Any, **options: Any) -> None:
        super().__init__(worker, **options)
        self._due: Any = None

    def start(self, worker: Any) -> None:
        pulse.from_thread()
        _give_sign("worker")
        self._due = worker.timer.call_repeatedly(heartbeats.EVERY, _give_sign, ("worker",))

    def stop(self, worker: Any) -> None:
        if self._due:
            self._due.cancel()


app = Celery("mnemoscope", task_cls=Sweep)
app.steps["worker"].add(Heartbeats)
app.conf.update(
    broker_url=settings.CELERY_BROKER_URL,
    broker_transport_options=_transport(),
    broker_connection_retry_on_startup=True,
    task_ignore_result=True,
    result_expires=None,
    task_acks_late=True,
    worker_prefetch_multiplier=1,
    worker_hijack_root_logger=False,
    beat_scheduler="memoryapp.celery:Sweeps",
    beat_schedule={
        "close-abandoned-runs": _every(5.0, "close_abandoned_runs"),
        "execute-waiting-runs": _every(3.0, "execute_waiting_runs"),
        "embed-pending": _every(10.0, "embed_pending"),
        "archive-asked": _every(3.0, "archive_asked"),
        "archive-due": _every(60.0, "archive_due"),
        "erase-due": _every(10.0, "erase_due"),
        "suggest-due": _every(60.0, "suggest_due"),
        "clear-login-sessions": _every(3600.0, "clear_login_sessions"),
    },
)
app.autodiscover_tasks(["memoryapp"])


def _refuse_unusable_database(**_: Any) -> None:
    if refusal := startup.refusal():
        sys.exit(refusal)


signals.worker_init.connect(_refuse_unusable_database)
signals.beat_init.connect(_refuse_unusable_database)
