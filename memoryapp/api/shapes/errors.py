"""The shape of every refusal."""

from __future__ import annotations

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
