"""The shape of every refusal."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, WithJsonSchema

from memoryapp.api.refusals import CODES

# Beside those of the statuses: what curation says of a memory that has changed.
EVERY_CODE = (*dict.fromkeys(CODES.values()), "stale", "depends", "erased")


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
