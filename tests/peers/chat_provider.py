"""A provider of chat models on the other end of a real HTTP connection: it answers as its ``mood`` is. ``requests`` are
those of programs, known by their ``MODEL``; what the memory itself asks is refused at once, or waits for ``awake``
while ``sleeps`` is set, so that the recall ends by its own limits."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.support.clock import PATIENCE

MODEL = "acme/talker"
WORDS = ["You wrote: ", "vLLM on our H100 dies ", "with out of memory, ", "so lower it."]
REFUSAL = {
    "error": {"message": "Rate limit reached.", "type": "requests", "param": None, "code": "rate_limit_exceeded"}
}
CALL = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'}}

_BEYOND_ASCII = (("X-Served-By", "Zürich"), ("X-RateLimit-Plan", "für alle"))


class ChatProvider(ThreadingHTTPServer):
    """Moods: ``well``, ``calls`` (a tool), ``refuses``, ``fails`` (with a page), ``page`` (in place of an answer),
    ``late``, ``breaks`` (in a stream). Whatever it answers has headers beyond ASCII."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.mood = "well"
        self.sleeps = False
        self.awake, self.goes_on, self.left = threading.Event(), threading.Event(), threading.Event()
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.calm()
        self.url = f"http://127.0.0.1:{self.server_address[1]}/v1"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def calm(self) -> None:
        """Forgets what was asked, and answers well again."""
        self.mood, self.sleeps = "well", False
        self.awake.set()
        self.goes_on.set()
        self.left.clear()
        self.requests.clear()
        self.headers.clear()

    def stop(self) -> None:
        self.calm()
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ChatProvider

    def do_GET(self) -> None:
        self._send(200, {"object": "list", "data": [{"id": MODEL, "object": "model"}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if body["model"] == MODEL:
            self.server.requests.append(body)
            self.server.headers.append({name.lower(): value for name, value in self.headers.items()})
            self._answer(body)
            return
        if self.server.sleeps:
            self.server.awake.wait(PATIENCE)
        self._send(400, {"error": {"message": "This model is not for you."}})

    def _answer(self, body: dict[str, Any]) -> None:
        mood = self.server.mood
        if mood == "late":
            self.server.awake.wait(PATIENCE)
        if mood == "refuses":
            self._send(429, REFUSAL, **{"Retry-After": "7", "X-Request-Id": "req_1"})
        elif mood == "fails":
            self._send(500, f"<html><body>Key {self.headers['Authorization']} met a fault</body></html>".encode())
        elif mood == "page":
            self._send(200, b"<html><script>alert(1)</script></html>")
        elif body.get("stream"):
            self._stream(_chunks(mood, body))
        else:
            self._send(200, _completion(mood, body))

    def _send(self, status: int, document: Any, **headers: str) -> None:
        content = document if isinstance(document, bytes) else json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/html" if isinstance(document, bytes) else "application/json")
        self.send_header("Content-Length", str(len(content)))
        for name, value in (*headers.items(), *_BEYOND_ASCII):
            self.send_header(name, value)
        self.end_headers()
        try:
            self.wfile.write(content)
        except OSError:
            self.server.left.set()

    def _stream(self, chunks: list[dict[str, Any]]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        for name, value in _BEYOND_ASCII:
            self.send_header(name, value)
        self.end_headers()
        self.close_connection = True
        try:
            for place, chunk in enumerate(chunks):
                self._write(f"data: {json.dumps(chunk)}\n\n".encode())
                if place == 1:
                    self.server.goes_on.wait(PATIENCE)
                if place == 1 and self.server.mood == "breaks":
                    return
            self._write(b"data: [DONE]\n\n")
            self._write(b"")
        except OSError:
            self.server.left.set()

    def _write(self, content: bytes) -> None:
        self.wfile.write(f"{len(content):x}\r\n".encode() + content + b"\r\n")

    def log_message(self, *_arguments: Any) -> None:
        """Logs nothing, so that the test's own output stays readable."""


def _calls(mood: str, body: dict[str, Any]) -> bool:
    return mood == "calls" and not any(message["role"] == "tool" for message in body["messages"])


def _completion(mood: str, body: dict[str, Any]) -> dict[str, Any]:
    calls = _calls(mood, body)
    spoken = {"content": None, "tool_calls": [CALL]} if calls else {"content": "".join(WORDS)}
    choice = {
        "index": 0,
        "message": {"role": "assistant", **spoken},
        "finish_reason": "tool_calls" if calls else "stop",
    }
    usage = {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14}
    return {
        "id": "gen-1",
        "object": "chat.completion",
        "created": 1,
        "model": MODEL,
        "choices": [choice],
        "usage": usage,
    }


def _chunks(mood: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    top = {"id": "gen-1", "object": "chat.completion.chunk", "created": 1, "model": MODEL}
    deltas: list[tuple[dict[str, Any], str | None]] = [({"content": word}, None) for word in WORDS]
    calls = _calls(mood, body)
    if calls:
        deltas = [({"tool_calls": [{"index": 0, **CALL}]}, None)]
    deltas = [({"role": "assistant", "content": ""}, None), *deltas, ({}, "tool_calls" if calls else "stop")]
    return [{**top, "choices": [{"index": 0, "delta": each, "finish_reason": end}]} for each, end in deltas]
