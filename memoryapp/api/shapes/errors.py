"""The shape of every refusal, and what an endpoint raises to refuse."""

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
    503: "unavailable",
}
# Beside those of the statuses: what curation says of a memory that has changed.
EVERY_CODE = (*dict.fromkeys(CODES.values()), "stale", "depends", "erased")


class RequestRefused(Exception):
    """A refused request: the status, a sentence for people, and further fields for programs."""

    def __init__(self, status: int, message: str = "", *, code: str = "", wait: float = 0, **more: Any) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.wait = wait
        self.more = more


class Fault(BaseModel):
    """``code`` is for programs: one for each status, and for 409 why. ``message`` is for people."""

    code: Annotated[str, WithJsonSchema({"type": "string", "enum": list(EVERY_CODE)})]
    message: str


class ErrorAnswer(BaseModel):
    """Every refusal has this shape; ``message`` is a sentence in English."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"error": {"code": "not_found", "message": "There is nothing here."}}}
    )

    error: Fault
