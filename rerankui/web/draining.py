"""Stops a web process without losing what it is doing.

After SIGTERM the process is not ready any more (``/readyz``) and refuses whatever would begin something: a balancer or
client sends that to another node. Runs, requests and streams that are under way end within their seconds, but at most
``DRAIN_SECONDS``; then the server stops. A second signal stops it at once.
"""

from __future__ import annotations

import asyncio
import json
import logging
import signal
from collections.abc import Callable
from typing import Any

from django.conf import settings

from memoryapp.runs.runner import Runner

# Seconds in which even an idle process still answers, so that no request meets a closed port without a word before it.
LEAST_SECONDS = 0.2
LOOK_AGAIN = 0.05
RETRY_AFTER = 1
_READING = frozenset(("GET", "HEAD", "OPTIONS"))
_SENTENCE = "This node is stopping; send the request again, to another one."

logger = logging.getLogger(__name__)


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
