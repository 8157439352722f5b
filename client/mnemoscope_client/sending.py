"""What both clients do with a request and its response, apart from sending and waiting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

import httpx
from pydantic import ValidationError

from mnemoscope_client.calls import Call
from mnemoscope_client.errors import MnemoscopeError, UnreachableError, UnreadableAnswerError, pending_of, refusal_of
from mnemoscope_client.shapes import Shape

Answer = TypeVar("Answer", bound=Shape)

CONNECT_SECONDS = 5.0
TOO_MANY_REQUESTS, PENDING = 429, 202
BAD_GATEWAY, UNAVAILABLE = 502, 503
_FIRST_PAUSE = 0.2


def _version() -> str:
    try:
        return version("mnemoscope-client")
    except PackageNotFoundError:
        # In a checkout, where it is not installed.
        return "unknown"


@dataclass(frozen=True, slots=True)
class Connecting:
    """Where and how requests are sent: what the constructors of both clients are given."""

    url: str
    token: str
    timeout: float
    retries: int
    longest_wait: float
    project: str = ""

    def options(self) -> dict[str, Any]:
        """Returns the arguments of httpx's client. Raises ValueError for an address that is none."""
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise ValueError(f"{self.url!r} is no address such as http://127.0.0.1:8000")
        return {
            "base_url": self.url.rstrip("/").removesuffix("/v1"),
            "headers": {
                "Authorization": f"Bearer {self.token}",
                "User-Agent": f"mnemoscope-client/{_version()}",
                **({"X-Mnemoscope-Project": quote(self.project)} if self.project else {}),
            },
            "timeout": httpx.Timeout(self.timeout, connect=min(self.timeout, CONNECT_SECONDS)),
        }

    def attempts(self, *, is_repeatable: bool) -> Attempts:
        return Attempts(is_repeatable, self.retries, self.longest_wait)


@dataclass(slots=True)
class Attempts:
    """How often a request is sent again. A request that may have begun something is sent again only if it certainly was
    not taken: if nobody listened, or the server says that there are too many."""

    is_repeatable: bool
    left: int
    longest_wait: float
    pause: float = _FIRST_PAUSE

    def after(self, response: httpx.Response) -> float:
        """Returns the seconds to wait before the next attempt. Raises RefusedError if there is none."""
        refusal = refusal_of(response)
        # A 502 without a time is that of a proxy.
        is_away = refusal.status == UNAVAILABLE or (refusal.status == BAD_GATEWAY and refusal.retry_after is not None)
        may_help = refusal.status == TOO_MANY_REQUESTS or (is_away and self.is_repeatable)
        wait = self._next_pause() if refusal.retry_after is None else refusal.retry_after
        if not may_help or self.left <= 0 or wait > self.longest_wait:
            raise refusal
        self.left -= 1
        return wait

    def until_done(self, response: httpx.Response) -> float:
        """Returns the seconds to wait before asking what became of work that goes on. Raises NotYetError if all waits
        are too long together, and for a run, which is followed by its own methods."""
        pending = pending_of(response)
        self.longest_wait -= pending.retry_after
        if pending.run or self.longest_wait < 0:
            raise pending
        return pending.retry_after

    def after_failure(self, error: httpx.TransportError) -> float:
        """Returns the seconds to wait before the next attempt. Raises UnreachableError if there is none."""
        was_not_sent = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
        is_late = isinstance(error, httpx.TimeoutException)
        if self.left <= 0 or not (was_not_sent or (self.is_repeatable and not is_late)):
            raise unreachable(error) from error
        self.left -= 1
        return self._next_pause()

    def _next_pause(self) -> float:
        self.pause *= 2
        return self.pause / 2


def unreachable(error: httpx.TransportError) -> UnreachableError:
    kind = "was silent for too long" if isinstance(error, httpx.ReadTimeout) else "cannot be reached"
    return UnreachableError(f"Mnemoscope {kind}: {error or type(error).__name__}.")


def answer_in(response: httpx.Response, shape: type[Answer]) -> Answer:
    """Returns the answer. Raises UnreadableAnswerError if it is none of this API."""
    try:
        return shape.model_validate_json(response.content)
    except ValidationError as error:
        raise UnreadableAnswerError(f"This is no answer of Mnemoscope's API: {error}") from None


def request_of(call: Call[Any]) -> Mapping[str, Any]:
    """Returns the arguments of httpx's ``request``."""
    return {"method": call.method, "url": call.path, "json": call.body, "params": dict(call.query)}


def request_after(response: httpx.Response) -> Mapping[str, Any]:
    """Returns the arguments of httpx's ``request`` that asks what became of work that goes on, at the same server."""
    return {"method": "GET", "url": f"/v1/{response.headers.get('Location', '').partition('/v1/')[2]}"}


def named(user: str | None, usual: str | None) -> str:
    """Returns the chat user of a call. Raises MnemoscopeError if neither the call nor the client names one."""
    if found := user or usual:
        return found
    raise MnemoscopeError("Name the chat user: Mnemoscope(…, user=…), or user=… in the call.")
