"""How much the web server takes of a request, and how slowly, before the application sees any of it; and the line that
it writes of each request.

Daphne gathers a whole body first and has no setting for its size, so the limits stand in its class of requests. What
comes beyond them is thrown away as it arrives. A chat file is written to disk and not handed on, see ``uploads``. A
proxy in front should have the same limits: nobody's patience is then spent on sending what is refused."""

import asyncio
import json
import logging
import signal
import time
from collections.abc import Callable
from datetime import datetime
from io import BytesIO
from pathlib import Path
from typing import IO, Any

# First of all of daphne, and of Twisted, which keeps the event loop that is installed when it is first asked for one.
import daphne.server  # noqa: F401
from daphne import http_protocol
from daphne.access import AccessLogGenerator
from daphne.http_protocol import WebRequest
from django.conf import settings
from django.utils.translation import gettext as _
from django.utils.translation import override

from memoryapp.doors.api.refusals import PREFIX, refusal
from memoryapp.insight.capsules import LARGEST_CAPSULE_BYTES
from memoryapp.platform.logs import JsonFormatter
from memoryapp.platform.storage import NoSpace
from memoryapp.runs.runner import Runner
from rerankui.web import uploads
from rerankui.web.pages import language_of

# A form of a page; programs may send media and a thousand messages at once.
FORM_BYTES = 2 * 1024 * 1024
# The page that takes the file of a run, which has a limit of its own.
OPENS_RUNS = b"/runs/open/"
# A request must be complete within these seconds and one more for each of these bytes.
FIRST_SECONDS = 20.0
BYTES_A_SECOND = 8 * 1024
# A sender who was refused may not read the answer before all is sent, so it is listened to for a little while.
LAST_SECONDS = 5.0
PLAIN = "text/plain; charset=utf-8"

logger = logging.getLogger(__name__)


class LimitedRequest(WebRequest):  # type: ignore[misc]
    """A request whose body ends at a number of bytes, and which does not wait for ever for its end."""

    content: IO[bytes]

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self._began = time.monotonic()
        self._received = 0
        self._is_awaited, self._is_refused, self._is_upload = True, False, False
        # Twisted would read every form as well, at many times its size, for an attribute that daphne never looks at.
        super().__init__(*arguments, parsePOSTFormSubmission=False, **named)

    def gotLength(self, length: int | None) -> None:
        # Whether it is an upload is known from now on: a ticket may expire while a body comes in.
        self._is_upload = bool(length) and uploads.is_upload(self.channel._path)
        super().gotLength(length)
        if (length or 0) > self._most_bytes:
            self._refuse_size()
        elif self._is_upload and self._fits_on_disk(2 * (length or 0)):
            self.content = uploads.new_file("body-")

    def handleContentChunk(self, data: bytes) -> None:
        before, self._received = self._received, self._received + len(data)
        if self._is_refused:
            return
        if self._received > self._most_bytes:
            self._refuse_size()
        elif self._is_upload and before // uploads.LOOK_BYTES != self._received // uploads.LOOK_BYTES:
            if self._fits_on_disk(len(data)):
                super().handleContentChunk(data)
        else:
            super().handleContentChunk(data)

    def _fits_on_disk(self, coming: int) -> bool:
        """Whether so many bytes can be written, else refuses the request. A body is written, and then its files."""
        try:
            with override(self._language):
                uploads.check_disk(coming)
        except NoSpace as error:
            self._refuse(507, "Insufficient Storage", PLAIN, str(error).encode())
            return False
        return True

    def process(self) -> Any:
        self._is_awaited = False
        if self._is_refused:
            return self.channel.loseConnection()
        if self._is_upload:
            self.requestHeaders.setRawHeaders(uploads.HEADER, [uploads.body_name(self.content)])
            self.content.close()
            self.content = BytesIO()
        return super().process()

    def connectionLost(self, reason: Any) -> None:
        if self._is_upload and self._is_awaited:
            self._forget_body()
        super().connectionLost(reason)

    def check_timeouts(self) -> None:
        """Called by daphne every two seconds."""
        if not self._is_awaited or self.channel is None:
            super().check_timeouts()
        elif (waited := time.monotonic() - self._began) > self._patience:
            self._is_awaited = False
            if not self._is_refused:
                logger.warning("a request was dropped: %s bytes of it came in %.0f s", self._received, waited)
            self.channel.timeoutConnection()

    @property
    def _patience(self) -> float:
        return LAST_SECONDS if self._is_refused else FIRST_SECONDS + self._received / BYTES_A_SECOND

    @property
    def _is_of_programs(self) -> bool:
        # The path of a request that is still coming in is known to the channel alone.
        return bool(self.channel._path.startswith(PREFIX.encode()))

    @property
    def _most_bytes(self) -> int:
        if self._is_upload:
            return int(settings.IMPORT_MAX_BYTES) + uploads.FORM_BYTES
        if self.channel._path.partition(b"?")[0] == OPENS_RUNS:
            return LARGEST_CAPSULE_BYTES + FORM_BYTES
        return int(settings.DATA_UPLOAD_MAX_MEMORY_SIZE if self._is_of_programs else FORM_BYTES)

    def _forget_body(self) -> None:
        self.content.close()
        if isinstance(name := getattr(self.content, "name", None), str):
            Path(name).unlink(missing_ok=True)
        self.content = BytesIO()

    def _refuse_size(self) -> None:
        logger.warning("a request was refused: its body has more than %s bytes", self._most_bytes)
        self._refuse(413, "Request Entity Too Large", *self._refusal())

    def _refuse(self, status: int, reason: str, kind: str, body: bytes) -> None:
        self._is_refused = True
        self._began = time.monotonic()
        self._forget_body()
        head = f"HTTP/1.1 {status} {reason}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
        self.channel.write(f"{head}Connection: close\r\n\r\n".encode() + body)

    def _refusal(self) -> tuple[str, bytes]:
        """Media type and body of the answer."""
        if self._is_of_programs:
            response = refusal(413, f"A body has at most {self._most_bytes:,} bytes.")
            return response["Content-Type"], response.content
        with override(self._language):
            sentence = _("The request is larger than %(size)s MB, the largest that a page accepts.")
        return PLAIN, (sentence % {"size": self._most_bytes // 1024**2}).encode()

    @property
    def _language(self) -> str:
        accepted = (self.requestHeaders.getRawHeaders(b"accept-language") or [b""])[0]
        cookies = {name.decode("latin-1"): value.decode("latin-1") for name, value in self.received_cookies.items()}
        return language_of(cookies, accepted.decode("latin-1"))


def limit() -> None:
    """Have daphne take every request within the limits, and write its lines as the logs are written."""
    http_protocol.WebRequest = LimitedRequest
    if settings.LOG_FORMAT == "json":
        AccessLogGenerator.write_entry = _write_as_json


def _write_as_json(
    log: AccessLogGenerator, host: str, date: datetime, request: str, status: int | None = None, length: Any = None
) -> None:
    fields = {"client": host, "status": status, "bytes": length}
    known = {name: value for name, value in fields.items() if value is not None}
    # What follows the question mark may be words that somebody looks for.
    line = {"name": "daphne.access", "levelname": "INFO", "msg": request.partition("?")[0], "fields": known}
    log.stream.write(JsonFormatter().format(logging.makeLogRecord(line)) + "\n")


# Stops a web process without losing what it is doing.
#
# After SIGTERM the process is not ready any more (``/readyz``) and refuses whatever would begin something: a balancer
# or client sends that to another node. Runs, requests and streams that are under way end within their seconds, but at
# most ``DRAIN_SECONDS``; then the server stops. A second signal stops it at once.

# Seconds in which even an idle process still answers, so that no request meets a closed port without a word before it.
LEAST_SECONDS = 0.2
LOOK_AGAIN = 0.05
RETRY_AFTER = 1
_READING = frozenset(("GET", "HEAD", "OPTIONS"))
_SENTENCE = "This node is stopping; send the request again, to another one."


class Draining:
    """Whether this process is stopping, and how many requests it still answers."""

    def __init__(self) -> None:
        self.is_on = False
        self._under_way = 0
        self._ending: asyncio.Task[None] | None = None

    def listen(self, runner: Runner, stop: Callable[[], Any], call: Callable[[Callable[[], Any]], Any]) -> None:
        """Begins with SIGTERM; ``stop`` then ends the server. ``call`` has a function called in the server's loop, from
        the handler of the signal."""
        signal.signal(signal.SIGTERM, lambda *_: call(lambda: self.begin(runner, stop)))

    def begin(self, runner: Runner, stop: Callable[[], Any]) -> None:
        """Refuses new work, and stops the server when the rest has ended. Call it in the server's loop."""
        if self.is_on:
            stop()
            return
        self.is_on = True
        self._ending = asyncio.get_running_loop().create_task(self._end(runner, stop))

    async def _end(self, runner: Runner, stop: Callable[[], Any]) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + settings.DRAIN_SECONDS
        await asyncio.sleep(min(LEAST_SECONDS, settings.DRAIN_SECONDS))
        is_busy = self._under_way or runner.is_busy
        while is_busy and loop.time() < until:
            await asyncio.sleep(LOOK_AGAIN)
            is_busy = self._under_way or runner.is_busy
        if is_busy:
            logger.warning("the server stops with %s requests under way", self._under_way)
        stop()

    def over(self, application: Any) -> Any:
        """The application, which answers 503 to new work while the process stops."""

        async def drained(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] != "http":
                if not self.is_on:
                    await application(scope, receive, send)
                return
            if self.is_on and scope["method"] not in _READING:
                await _refuse(send)
                return
            self._under_way += 1
            try:
                await application(scope, receive, send)
            finally:
                self._under_way -= 1

        return drained


async def _refuse(send: Any) -> None:
    body = json.dumps({"error": {"code": "unavailable", "message": _SENTENCE}}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"retry-after", str(RETRY_AFTER).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": 503, "headers": headers})
    await send({"type": "http.response.body", "body": body})


draining = Draining()
