"""A receiver of webhooks on the other end of a real HTTP connection, which answers as a test says."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from django.contrib.auth.models import User
from standardwebhooks.webhooks import Webhook as Verifier

from memoryapp.models import Webhook
from memoryapp.platform.webhooks import receivers
from memoryapp.platform.webhooks.announcing import KINDS
from tests.support.clock import PATIENCE

Play = Callable[[BaseHTTPRequestHandler], None]


def answer(status: int, body: bytes = b"thank you", **headers: str) -> Play:
    def play(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return play


def endless(handler: BaseHTTPRequestHandler) -> None:
    """A body without an end, as fast as it is read."""
    handler.send_response(500)
    handler.end_headers()
    while True:
        handler.wfile.write(b"x" * 65_536)


def hang_up(handler: BaseHTTPRequestHandler) -> None:
    handler.connection.close()


@dataclass
class Receiver:
    """``play`` answers each request; ``received`` are the headers and bodies so far."""

    url: str = ""
    play: Play = field(default_factory=lambda: answer(200))
    received: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    arrived: threading.Event = field(default_factory=threading.Event)
    gate: threading.Event = field(default_factory=threading.Event)

    def wait(self, handler: BaseHTTPRequestHandler) -> None:
        """Answers when the test opens the gate."""
        assert self.gate.wait(PATIENCE)
        answer(200)(handler)

    def verified(self, secret: str, place: int = -1) -> Any:
        """What the library at the receiver reads of a message. Raises where the signature is wrong."""
        headers, body = self.received[place]
        return Verifier(secret).verify(body, headers)

    @property
    def ids(self) -> list[str]:
        return [headers["webhook-id"] for headers, _body in self.received]


@contextmanager
def receiving() -> Iterator[Receiver]:
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.received.append(({name.lower(): value for name, value in self.headers.items()}, body))
            receiver.arrived.set()
            self.close_connection = True
            try:
                receiver.play(self)
            except OSError:
                # The sender has hung up.
                return

        def log_message(self, *_arguments: Any) -> None:
            """Logs nothing, so that the test's own output stays readable."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    receiver.url = f"http://localhost:{server.server_address[1]}/hook?token=1"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield receiver
    finally:
        receiver.gate.set()
        server.shutdown()
        server.server_close()


def hooked(url: str, *kinds: str, name: str = "bot") -> tuple[Webhook, str]:
    """A webhook for these kinds, or for all, and its secret."""
    by, _new = User.objects.get_or_create(username="ada")
    return receivers.make(name, url, kinds or KINDS, nonce=receivers.new_nonce(), by=by)
