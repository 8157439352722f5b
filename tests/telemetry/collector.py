"""A collector of traces on the other end of a real HTTP connection, which takes spans or refuses them."""

from __future__ import annotations

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Collector(ThreadingHTTPServer):
    """``status`` is its answer; 200 takes the spans."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _CollectorHandler)
        self.status = 200
        self.taken: list[Any] = []
        self.headers: list[dict[str, str]] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self.shutdown()
        self.server_close()

    @property
    def spans(self) -> list[Any]:
        return [
            span for request in self.taken for r in request.resource_spans for s in r.scope_spans for span in s.spans
        ]

    def attributes(self) -> dict[str, dict[str, Any]]:
        """The attributes of each span by its name."""
        return {span.name: {pair.key: _plain(pair.value) for pair in span.attributes} for span in self.spans}


def _plain(value: Any) -> Any:
    kind = value.WhichOneof("value")
    return [_plain(each) for each in value.array_value.values] if kind == "array_value" else getattr(value, kind)


class _CollectorHandler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        self.server.headers.append({name.lower(): value for name, value in self.headers.items()})
        if self.server.status == 200:
            self.server.taken.append(ExportTraceServiceRequest.FromString(body))
        self.send_response(self.server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""
