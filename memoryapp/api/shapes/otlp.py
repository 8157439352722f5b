"""The answer to traces, as the OpenTelemetry protocol shapes it."""

from __future__ import annotations

from pydantic import BaseModel, Field


class PartialSuccess(BaseModel):
    rejectedSpans: str = Field(description="how many spans were not taken; a number of 64 bits is a text in JSON")
    errorMessage: str


class TracesAnswer(BaseModel):
    """Empty if everything was taken."""

    partialSuccess: PartialSuccess | None = None
