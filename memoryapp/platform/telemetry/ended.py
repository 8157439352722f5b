"""Runs that ended, and the thread that reads them and has their spans sent. ``run_ended`` costs its caller a queue's
entry. What the thread cannot do, it logs; nobody waits for it but the end of the process, for two seconds."""

from __future__ import annotations

import atexit
import logging
import os
import queue
import threading
from functools import cache
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.conf import settings
from django.db import connection
from django.urls import reverse

from memoryapp.engine.events import from_payload
from memoryapp.models import Run, RunEvent
from memoryapp.platform.telemetry.spans import RunSpans

if TYPE_CHECKING:
    from memoryapp.platform.telemetry.exporting import RunExporter

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_WITH_TEXTS = ("true", "span_only", "span_and_event")
_PACKAGE = "opentelemetry"
MISSING = (
    "OTEL_EXPORTER_OTLP_ENDPOINT is set, but the package that sends traces is missing, so none are sent:"
    " pip install 'mnemoscope[otel]'."
)
MOST_WAITING = 1_000
LAST_SECONDS = 2.0

logger = logging.getLogger(__name__)


def is_wanted() -> bool:
    """Whether the environment names a collector for traces."""
    is_off = os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    is_off = is_off or os.environ.get("OTEL_TRACES_EXPORTER", "").strip().lower() == "none"
    return not is_off and any(os.environ.get(name, "").strip() for name in _ENDPOINTS)


def with_texts() -> bool:
    """Whether messages and queries may be in the spans."""
    return os.environ.get("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "").strip().lower() in _WITH_TEXTS


def begin() -> None:
    """Says once, when a process starts, that traces cannot be sent."""
    if is_wanted() and _sender() is None:
        logger.warning(MISSING)


def run_ended(run: UUID) -> None:
    """Has the spans of this run sent soon, if anybody wants them. Never raises, and never waits."""
    if is_wanted() and (sender := _sender()):
        sender.take(run)


class Sender:
    """A thread that sends the spans of the runs it is given; when too many wait, further ones are left out."""

    def __init__(self, exporter: RunExporter) -> None:
        self._exporter = exporter
        self._waiting: queue.Queue[UUID | None] = queue.Queue(MOST_WAITING)
        self._thread = threading.Thread(target=self._work, name="traces", daemon=True)
        self._thread.start()

    def take(self, run: UUID) -> None:
        try:
            self._waiting.put_nowait(run)
        except queue.Full:
            logger.debug("no spans of run %s: too many wait", run)

    def close(self) -> None:
        """Sends what waits, for at most two seconds."""
        try:
            self._waiting.put_nowait(None)
        except queue.Full:
            return
        self._thread.join(LAST_SECONDS)

    def _work(self) -> None:
        while run := self._waiting.get():
            self._send(run)
            self._waiting.task_done()
        self._exporter.close()

    def _send(self, run: UUID) -> None:
        try:
            read = _read(run)
            if read:
                self._exporter.send(run, read[1].spans(), read[0])
        except Exception:
            logger.exception("the spans of run %s were not made", run)
        finally:
            connection.close()


def _read(run_id: UUID) -> tuple[str, RunSpans] | None:
    """The run, and the span of its caller; None for one that was erased meanwhile, or is of another program."""
    run = Run.objects.made_here().select_related("owner").filter(pk=run_id).first()
    rows = RunEvent.objects.filter(run=run_id).order_by("seq").values_list("at", "kind", "payload")
    timed = [(at, from_payload(kind, payload)) for at, kind, payload in rows]
    if run is None or not timed:
        return None
    values: dict[str, Any] = {
        "run": str(run.pk),
        "store": run.owner.name,
        "query": run.query,
        "strategy": run.strategy,
        "asked_at": run.created_at,
        "address": f"{settings.PUBLIC_URL}{reverse('run', args=[run.pk])}",
    }
    return run.traceparent, RunSpans(**values, timed=timed, with_texts=with_texts())


@cache
def _sender() -> Sender | None:
    """One for each process; None without the package."""
    try:
        from memoryapp.platform.telemetry.exporting import RunExporter  # noqa: PLC0415 its package is optional
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] != _PACKAGE:
            raise
        return None
    sender = Sender(RunExporter())
    atexit.register(sender.close)
    return sender
