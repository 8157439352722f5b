"""The Celery app: tasks only hurry work up, beat sweeps what was lost.

Without a broker address messages lie as files in the data folder, which needs no server. What has to be
done is found in the rows themselves, so a lost message costs seconds and never work.
"""

from __future__ import annotations

import os
from typing import Any

from celery import Celery
from django.conf import settings

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "memoryapp.settings")


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


app = Celery("mnemoscope")
app.conf.update(
    broker_url=settings.CELERY_BROKER_URL,
    broker_transport_options=_transport(),
    broker_connection_retry_on_startup=True,
    task_ignore_result=True,
    task_acks_late=True,
    worker_prefetch_multiplier=1,
    worker_hijack_root_logger=False,
    beat_schedule={
        "close-abandoned-runs": {"task": "memoryapp.tasks.close_abandoned_runs", "schedule": 5.0},
        "execute-waiting-runs": {"task": "memoryapp.tasks.execute_waiting_runs", "schedule": 3.0},
        "embed-pending": {"task": "memoryapp.tasks.embed_pending", "schedule": 10.0},
        "archive-due": {"task": "memoryapp.tasks.archive_due", "schedule": 60.0},
    },
)
app.autodiscover_tasks(["memoryapp"])
