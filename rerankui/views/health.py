"""Health checks of this process and of everything it depends on, and metrics for Prometheus."""

import hmac
import ipaddress
import os

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.request import split_domain_port
from django.views.decorators.http import require_safe
from kombu.exceptions import KombuError
from prometheus_client import CONTENT_TYPE_LATEST

from memoryapp.celery import app
from memoryapp.platform import heartbeats
from memoryapp.platform.backlog import BacklogCollector, ages
from memoryapp.platform.database import database_outage
from memoryapp.platform.llm import clients
from memoryapp.platform.metrics import exposition
from memoryapp.runs import runner as readiness
from memoryapp.runs.runner import runner
from memoryapp.search import profiles
from rerankui.web.server_limits import draining

BROKER_SECONDS = 2.0
# A message that waits longer than this for a passage, a vector or, beyond the pause that ends a session, a topic.
LATE_AFTER = 3600.0
_OF_PROXIES = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip", "via")


@login_not_required
@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """Answers while the process works; it uses neither the database nor a session."""
    return HttpResponse("ok\n", content_type="text/plain")


@login_not_required
@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """Database, migrations, broker and this process's recording, each ``ok`` or what is wrong; 503 unless all are.
    Worker and beat are listed as well, but count only with ``?all=1``: pages are served without them. The provider's
    state and that of the embedding model, which the worker asks, are listed and never count."""
    parts = {"database": _database(), "broker": _broker(), "recording": readiness.recording(runner)}
    if draining.is_on:
        parts["process"] = "stopping"
    background = _background(ages_too=bool(request.GET.get("all")))
    counted = parts | background if request.GET.get("all") else parts
    is_ready = all(state == "ok" for state in counted.values())
    states = {**parts, **background, "provider": readiness.provider(runner), "embedding": _embedding()}
    return JsonResponse(states, status=200 if is_ready else 503)


@login_not_required
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Counters for Prometheus; 503 while the database is out of reach, because the queues are counted there."""
    if not _may_read_metrics(request):
        sentence = "Send METRICS_TOKEN as “Authorization: Bearer TOKEN”; without it only this machine is told.\n"
        refused = HttpResponse(sentence, status=401, content_type="text/plain; charset=utf-8")
        refused["WWW-Authenticate"] = "Bearer"
        return refused
    try:
        text = exposition(BacklogCollector(clients.profile()))
    except DatabaseError as error:
        database_outage.report(error)
        return HttpResponse("The database is out of reach.\n", status=503, content_type="text/plain")
    return HttpResponse(text, content_type=CONTENT_TYPE_LATEST)


def _may_read_metrics(request: HttpRequest) -> bool:
    """With METRICS_TOKEN set, by that token; else only from this machine, by a loopback name and through no proxy."""
    if settings.METRICS_TOKEN:
        credentials = request.headers.get("authorization", "")
        return hmac.compare_digest(credentials.encode(), f"Bearer {settings.METRICS_TOKEN}".encode())
    address, is_forwarded = request.META.get("REMOTE_ADDR", ""), any(name in request.headers for name in _OF_PROXIES)
    host = split_domain_port(request.get_host())[0].strip("[]")
    return not is_forwarded and _is_loopback(address) and (host == "localhost" or _is_loopback(host))


def _is_loopback(text: str) -> bool:
    try:
        return ipaddress.ip_address(text).is_loopback
    except ValueError:
        return False


def _database() -> str:
    try:
        executor = MigrationExecutor(connection)
        pending = executor.migration_plan(executor.loader.graph.leaf_nodes())
    except DatabaseError as error:
        database_outage.report(error)
        return "out of reach"
    return f"{len(pending)} migrations are not applied" if pending else "ok"


def _background(*, ages_too: bool) -> dict[str, str]:
    """Worker and beat and, if wanted, how late the work is."""
    try:
        if not ages_too:
            return heartbeats.states()
        late = [f"a message waits for a {name} for {age:.0f} s" for name, age in ages().items() if age > LATE_AFTER]
        return {**heartbeats.states(), "backlog": "; ".join(late) or "ok"}
    except DatabaseError:
        return dict.fromkeys((*heartbeats.PROCESSES, "backlog"), "unknown")


def _embedding() -> str:
    """``ok``, or how often in a row the worker got no vectors."""
    try:
        away = profiles.away()
    except DatabaseError:
        return "unknown"
    return f"no answer to the last {away.failures} requests" if away else "ok"


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
