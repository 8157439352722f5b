"""Spans through OpenTelemetry's SDK: batched, sent by its exporter in a thread of its own, dropped when too many wait.
Everything is configured by the SDK's own environment variables. A collector that is away is logged once, and once again
when it is back."""

import hashlib
import logging
import os
from collections.abc import Iterable, Sequence
from datetime import datetime
from uuid import UUID

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from memoryapp.platform.telemetry.spans import PROVIDER, OutgoingSpan

# These log every attempt that fails.
_NOISY = ("opentelemetry.exporter", "opentelemetry.sdk._shared_internal")

logger = logging.getLogger(__name__)


class _RunIds(IdGenerator):
    """Ids that follow from the run: its number is that of the trace, unless a caller's trace is continued."""

    def __init__(self) -> None:
        self.run = UUID(int=0)
        self.count = 0

    def begin(self, run: UUID) -> None:
        self.run, self.count = run, 0

    def generate_trace_id(self) -> int:
        return self.run.int

    def generate_span_id(self) -> int:
        self.count += 1
        digest = hashlib.sha256(f"{self.run}:{self.count}".encode()).digest()
        return int.from_bytes(digest[:8], "big") or 1


class _Watched(SpanExporter):
    """The exporter, which says once that nobody takes the spans, instead of at each attempt."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self._is_away = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._exporter.export(spans)
        is_away = result is not SpanExportResult.SUCCESS
        if is_away and not self._is_away:
            logger.warning("The collector of traces takes none; spans are dropped until it does. Recalls go on.")
        elif self._is_away and not is_away:
            logger.warning("The collector takes traces again.")
        self._is_away = is_away
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()


class RunExporter:
    """Sends the spans of runs; for one thread."""

    def __init__(self) -> None:
        for name in _NOISY:
            logging.getLogger(name).setLevel(logging.CRITICAL)
        self._ids = _RunIds()
        given = os.environ.get("OTEL_SERVICE_NAME") or SERVICE_NAME in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
        resource = Resource.create({} if given else {SERVICE_NAME: PROVIDER})
        self._provider = TracerProvider(resource=resource, id_generator=self._ids, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(_Watched(OTLPSpanExporter())))
        self._tracer = self._provider.get_tracer(PROVIDER)

    def send(self, run: UUID, spans: Iterable[OutgoingSpan], traceparent: str = "") -> None:
        """Hands the spans of a run to the batch; ``traceparent`` names the span to which the first one belongs."""
        self._ids.begin(run)
        whole: trace.Span | None = None
        context = None
        if traceparent:
            _version, number, caller, flags = traceparent.split("-")
            place = SpanContext(int(number, 16), int(caller, 16), True, TraceFlags(int(flags, 16)))
            context = trace.set_span_in_context(NonRecordingSpan(place))
        for each in spans:
            kind = SpanKind.CLIENT if each.is_remote else SpanKind.INTERNAL if whole else SpanKind.SERVER
            span = self._tracer.start_span(
                each.name, context, kind, dict(each.attributes), start_time=_nanoseconds(each.began)
            )
            if each.fault:
                span.set_status(Status(StatusCode.ERROR, each.fault))
            if whole is None:
                whole, ended = span, each.ended
                context = trace.set_span_in_context(span)
            else:
                span.end(_nanoseconds(each.ended))
        if whole:
            whole.end(_nanoseconds(ended))

    def flush(self) -> None:
        """Returns when everything was sent, or was not taken."""
        self._provider.force_flush()

    def close(self) -> None:
        self._provider.shutdown()


def _nanoseconds(at: datetime) -> int:
    return int(at.timestamp()) * 1_000_000_000 + at.microsecond * 1_000
