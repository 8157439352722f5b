"""The shape of every refusal, and the exception that an endpoint raises to refuse a request."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, WithJsonSchema

CODES = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    409: "conflict",
    413: "too_large",
    422: "invalid",
    429: "too_many_requests",
    500: "internal",
    502: "model_failed",
    503: "unavailable",
}
# The codes of the statuses, and further reasons for a 409.
EVERY_CODE = (*dict.fromkeys(CODES.values()), "stale", "depends", "erased")


class RequestRefused(Exception):
    """Raised to refuse a request, with the status, a sentence for people, and further fields for programs."""

    def __init__(self, status: int, message: str = "", *, code: str = "", wait: float = 0, **more: Any) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.wait = wait
        self.more = more


class NotYet(RequestRefused):
    """Raised for work that goes on after its request: 202, with the address that says what became of it."""

    def __init__(self, message: str, location: str, *, wait: float, **more: Any) -> None:
        super().__init__(202, message, wait=wait, **more)
        self.location = location


class PendingAnswer(BaseModel):
    """The work goes on. A ``GET`` at ``url``, which the header ``Location`` names as well, answers the same until it is
    done, then as the request would have. For a ``run`` that is the run, whose ``state`` becomes ``finished``."""

    message: str
    url: str
    run: str | None = None


class Fault(BaseModel):
    """``code`` is for programs: one for each status, and several for 409. ``message`` is for people."""

    code: Annotated[str, WithJsonSchema({"type": "string", "enum": list(EVERY_CODE)})]
    message: str


class ErrorAnswer(BaseModel):
    """Every refusal has this shape; ``message`` is a sentence in English."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"error": {"code": "not_found", "message": "There is nothing here."}}}
    )

    error: Fault
