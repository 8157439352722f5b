"""What can go wrong: every exception of the client is a ``MnemoscopeError``.

``RefusedError`` and its subclasses are answers of the server, one class for each status; ``UnreachableError`` is the
lack of one.
"""

import json
from collections.abc import Mapping
from typing import Any

import httpx


class MnemoscopeError(Exception):
    """What every exception of the client is."""


class UnreachableError(MnemoscopeError):
    """The server was not reached, was silent for too long, or broke off; ``run`` goes on if it is known."""

    def __init__(self, message: str, run: str = "") -> None:
        super().__init__(message)
        self.run = run


class NotYetError(MnemoscopeError):
    """The work goes on at the server, for longer than the client waits: ``url`` says what became of it after
    ``retry_after`` seconds, and ``run`` is the run, if it is one."""

    def __init__(self, message: str, url: str, retry_after: float, run: str = "") -> None:
        super().__init__(message)
        self.url = url
        self.retry_after = retry_after
        self.run = run


class UnreadableAnswerError(MnemoscopeError):
    """The answer does not have the shape that the API describes: something else answers at this address."""


class RefusedError(MnemoscopeError):
    """The server refused the request.

    ``status`` is that of HTTP, ``code`` the reason for programs, ``retry_after`` the seconds after which the same
    request may be sent again, if that may help. ``details`` has the further fields of the error, such as ``rejected``
    and ``edits``.
    """

    def __init__(
        self, status: int, code: str, message: str, *, retry_after: float | None = None, details: Mapping[str, Any] = {}
    ) -> None:
        super().__init__(f"{message} ({status} {code})")
        self.status = status
        self.code = code
        self.message = message
        self.retry_after = retry_after
        self.details = dict(details)


class BadRequestError(RefusedError):
    """400: the message names what is wrong with the request."""


class UnauthorizedError(RefusedError):
    """401: the token is unknown or revoked."""


class ForbiddenError(RefusedError):
    """403: the token lacks the scope that the message names."""


class NotFoundError(RefusedError):
    """404: it does not exist, or the token does not open it."""


class ConflictError(RefusedError):
    """409: the memory has changed; ``code`` is ``conflict``, ``stale``, ``depends`` or ``erased``."""


class TooLargeError(RefusedError):
    """413: send less."""


class InvalidError(RefusedError):
    """422: the message begins with the field to correct."""


class TooManyRequestsError(RefusedError):
    """429: the token has sent too many requests, or has too many runs in flight."""


class UnavailableError(RefusedError):
    """502 or 503: a model, or the server, cannot do it now."""


REFUSALS = {
    400: BadRequestError,
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    413: TooLargeError,
    422: InvalidError,
    429: TooManyRequestsError,
    502: UnavailableError,
    503: UnavailableError,
}


def refusal_of(response: httpx.Response) -> RefusedError:
    """Returns the exception for a response with an error's status, whose content has been read."""
    fault = _fault(response)
    details = {name: value for name, value in fault.items() if name not in ("code", "message")}
    code = str(fault.get("code") or "error")
    message = str(fault.get("message") or response.reason_phrase or "The server refused the request.")
    made = REFUSALS.get(response.status_code, RefusedError)
    return made(response.status_code, code, message, retry_after=_retry_after(response), details=details)


def pending_of(response: httpx.Response) -> NotYetError:
    """Returns the exception for a response whose work goes on. Raises UnreadableAnswerError."""
    try:
        body = json.loads(response.content)
        return NotYetError(body["message"], body["url"], _retry_after(response) or 1.0, body.get("run") or "")
    except (ValueError, TypeError, KeyError) as error:
        raise UnreadableAnswerError(f"This is no answer of Mnemoscope's API: {error}") from None


def _fault(response: httpx.Response) -> Mapping[str, Any]:
    """Returns the ``error`` of the body; a proxy's page has none."""
    try:
        body = json.loads(response.content)
    except ValueError:
        return {}
    fault = body.get("error") if isinstance(body, dict) else None
    return fault if isinstance(fault, dict) else {}


def _retry_after(response: httpx.Response) -> float | None:
    """Returns the seconds of ``Retry-After``; the server never sends a date."""
    value = response.headers.get("Retry-After", "")
    return float(value) if value.isascii() and value.isdigit() else None
