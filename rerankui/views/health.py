"""Whether the process answers, whether everything behind it does, and what was counted."""

from __future__ import annotations

import os

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe
from kombu.exceptions import KombuError
from prometheus_client import CONTENT_TYPE_LATEST

from memoryapp import readiness
from memoryapp.celery import app
from memoryapp.metrics import exposition
from memoryapp.runner import runner

BROKER_SECONDS = 2.0


@login_not_required
@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """The process: no database, no session."""
    return HttpResponse("ok\n", content_type="text/plain")


@login_not_required
@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """Database, migrations, broker and this process's recording, each ``ok`` or what is wrong; 503 unless all are.

    The provider's state is told along with them and decides nothing.
    """
    parts = {"database": _database(), "broker": _broker(), "recording": readiness.recording(runner)}
    is_ready = all(state == "ok" for state in parts.values())
    return JsonResponse({**parts, "provider": readiness.provider(runner)}, status=200 if is_ready else 503)


@login_not_required
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Counts for Prometheus; 503 while the database is out of reach, for the queues are in it."""
    try:
        told = exposition()
    except DatabaseError:
        return HttpResponse("The database is out of reach.\n", status=503, content_type="text/plain")
    return HttpResponse(told, content_type=CONTENT_TYPE_LATEST)


def _database() -> str:
    try:
        executor = MigrationExecutor(connection)
        pending = executor.migration_plan(executor.loader.graph.leaf_nodes())
    except DatabaseError:
        return "out of reach"
    return f"{len(pending)} migrations are not applied" if pending else "ok"


def _broker() -> str:
    if settings.CELERY_BROKER_URL.startswith("filesystem:"):
        folder = settings.CELERY_BROKER_DIR
        existing = folder if folder.exists() else settings.DATA_DIR
        return "ok" if os.access(existing, os.W_OK) else "its folder cannot be written"
    try:
        with app.connection_for_write(connect_timeout=BROKER_SECONDS) as broker:
            broker.ensure_connection(max_retries=1, timeout=BROKER_SECONDS)
    except (KombuError, OSError):
        return "out of reach"
    return "ok"
