"""The Celery app: tasks only hurry work up, beat sweeps what was lost.

Without a broker address messages lie as files in the data folder, which needs no server. What has to be
done is found in the rows themselves, so a lost message costs seconds and never work.
"""

from __future__ import annotations

import os
from typing import Any

from celery import Celery
from celery.beat import PersistentScheduler, ScheduleEntry
from django.conf import settings
from kombu.transport import TRANSPORT_ALIASES

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


def _every(seconds: float, task: str) -> dict[str, Any]:
    """A sweep; one that nobody took before the next is due is dropped, for that one does its work."""
    return {"task": f"memoryapp.tasks.{task}", "schedule": seconds, "options": {"expires": seconds}}


class Sweeps(PersistentScheduler):  # type: ignore[misc]
    """Beat, that waits while a round of messages lies in the queue: without a worker they would pile up."""

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


app = Celery("mnemoscope")
app.conf.update(
    broker_url=settings.CELERY_BROKER_URL,
    broker_transport_options=_transport(),
    broker_connection_retry_on_startup=True,
    task_ignore_result=True,
    task_acks_late=True,
    worker_prefetch_multiplier=1,
    worker_hijack_root_logger=False,
    beat_scheduler="memoryapp.celery:Sweeps",
    beat_schedule={
        "close-abandoned-runs": _every(5.0, "close_abandoned_runs"),
        "execute-waiting-runs": _every(3.0, "execute_waiting_runs"),
        "embed-pending": _every(10.0, "embed_pending"),
        "archive-due": _every(60.0, "archive_due"),
        "suggest-due": _every(60.0, "suggest_due"),
        "clear-login-sessions": _every(3600.0, "clear_login_sessions"),
    },
)
app.autodiscover_tasks(["memoryapp"])
