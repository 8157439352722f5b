"""The Celery app: beat schedules sweeps, which find their work in the rows and say themselves how often.

Without a broker's address its messages are files in the data folder, which needs no server. A lost message costs
seconds and never work, because the next sweep finds the same rows.
"""

import os
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import psycopg
from celery import Celery, Task, bootsteps, signals
from celery.beat import ScheduleEntry, Scheduler
from celery.schedules import schedule
from django.conf import settings
from django.db import DatabaseError, connection
from kombu.transport import TRANSPORT_ALIASES

from memoryapp.platform import database, heartbeats
from memoryapp.platform.database import StagePaused, database_outage, is_gone, is_outage
from memoryapp.platform.embedded import children

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "memoryapp.settings")
# Django's checks examine the code and import every page, of which a worker shows none.
os.environ.setdefault("CELERY_SKIP_CHECKS", "yes")
TRANSPORT_ALIASES["filesystem"] = "memoryapp.platform.broker:Transport"


def _transport() -> dict[str, Any]:
    """Returns the options of the file broker; its folders are made here, because kombu makes none."""
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
    """A task that ends without an error when its work is paused or gone, and during an outage of the database. The
    remaining work stays in the rows for the next sweep. It is done in each cell, and an outage of one stops no other,
    unless it is ``of_all``."""

    of_all = False

    def __call__(self, *args: Any, **options: Any) -> None:
        from memoryapp.platform import cells  # noqa: PLC0415 it has models, which are loaded after this module

        for _number in (None,) if self.of_all else cells.each():
            self._once(*args, **options)

    def _once(self, *args: Any, **options: Any) -> Any:
        try:
            return self.run(*args, **options)
        except StagePaused:
            return None
        except (DatabaseError, psycopg.Error) as error:
            if is_gone(error):
                return None
            if not is_outage(error):
                raise
            database_outage.report(error)
            return None


def _record_heartbeat(process: str) -> None:
    """Writes the heartbeat; keeps no connection open, and logs an outage of the database once a minute."""
    try:
        heartbeats.record(process)
    except DatabaseError as error:
        database_outage.report(error)
    finally:
        connection.close()


def _since_start() -> datetime:
    """Returns a monotonic time: if a wall clock is set back, all sweeps stop until it reaches the old time again."""
    return datetime.fromtimestamp(time.monotonic(), UTC)


# What beat sends, and how often, as the sweeps declare it.
SCHEDULE: dict[str, dict[str, Any]] = {}


def sweep(every: float, *, of_all: bool = False) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Makes a function a task that beat sends every so many seconds, and that works in each cell, or once for all. Its
    messages never expire, because a worker whose clock is ahead would drop all."""

    def declared(work: Callable[[], None]) -> Callable[[], None]:
        task: Callable[[], None] = app.task(name=f"memoryapp.tasks.{work.__name__}", of_all=of_all)(work)
        timing = schedule(every, nowfun=_since_start)
        SCHEDULE[work.__name__.replace("_", "-")] = {"task": f"memoryapp.tasks.{work.__name__}", "schedule": timing}
        return task

    return declared


class Sweeps(Scheduler):  # type: ignore[misc]
    """Beat's scheduler. It sends each sweep once until the queue was empty: frequent sweeps that a busy worker does not
    take would leave the others no place in it.

    It stores nothing between starts, because an additional sweep does no harm.
    """

    _last_heartbeat = float("-inf")

    def __init__(self, *args: Any, **options: Any) -> None:
        # The tasks that were sent since the queue was last seen empty.
        self._sent: set[str] = set()
        super().__init__(*args, **options)

    def setup_schedule(self) -> None:
        super().setup_schedule()
        children.ping_from_thread()

    def tick(self, *args: Any, **options: Any) -> float:
        delay = super().tick(*args, **options)
        if time.monotonic() - self._last_heartbeat >= heartbeats.INTERVAL:
            self._last_heartbeat = time.monotonic()
            _record_heartbeat("beat")
        return min(float(delay), heartbeats.INTERVAL)

    def apply_async(self, entry: ScheduleEntry, producer: Any = None, advance: bool = True, **options: Any) -> Any:
        if producer is not None:
            queued = _queued(producer.channel)
            if not queued:
                self._sent.clear()
            if entry.task in self._sent or queued >= len(app.conf.beat_schedule):
                return None
            self._sent.add(entry.task)
        return super().apply_async(entry, producer=producer, advance=advance, **options)


def _queued(channel: Any) -> int:
    """Returns how many messages wait for a worker."""
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
    """The worker's heartbeat in the database, and its watchdog byte to `up`."""

    requires = {"celery.worker.components:Timer"}

    def __init__(self, worker: Any, **options: Any) -> None:
        super().__init__(worker, **options)
        self._due: Any = None

    def start(self, worker: Any) -> None:
        children.ping_from_thread()
        _record_heartbeat("worker")
        self._due = worker.timer.call_repeatedly(heartbeats.INTERVAL, _record_heartbeat, ("worker",))

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
    beat_schedule=SCHEDULE,
)
app.autodiscover_tasks(["memoryapp.upkeep"])


def _refuse_unusable_database(**_: Any) -> None:
    if refusal := database.refusal():
        sys.exit(refusal)


def _begin_telemetry(**_: Any) -> None:
    from memoryapp.platform.telemetry import ended  # noqa: PLC0415 it has models, which are loaded after this module

    ended.begin()


signals.worker_init.connect(_refuse_unusable_database)
signals.worker_init.connect(_begin_telemetry)
signals.beat_init.connect(_refuse_unusable_database)
