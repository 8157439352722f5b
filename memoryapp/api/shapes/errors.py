"""Refused requests: the exception that refuses one, and the shape of every refusal."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict


class Fault(BaseModel):
    code: str
    message: str


class ErrorAnswer(BaseModel):
    """Every refusal has this shape; ``message`` is a sentence in English."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"error": {"code": "not_found", "message": "There is nothing here."}}}
    )

    error: Fault


class RequestRefused(Exception):
    """A refused request: the status, a sentence for people, and further fields for programs."""

    def __init__(self, status: int, message: str = "", *, code: str = "", wait: float = 0, **more: Any) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.wait = wait
        self.more = more
