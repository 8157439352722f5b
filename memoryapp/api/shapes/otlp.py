"""Traces and the answer to them, as the OpenTelemetry protocol shapes them."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from memoryapp.api.shapes.fields import exemplified

_SPAN = {
    "traceId": "0af7651916cd43dd8448eb211c80319c",
    "spanId": "b7ad6b7169203331",
    "name": "search_memory",
    "startTimeUnixNano": "1790000000000000000",
    "endTimeUnixNano": "1790000000200000000",
    "attributes": [
        {"key": "gen_ai.operation.name", "value": {"stringValue": "search_memory"}},
        {"key": "gen_ai.memory.query.text", "value": {"stringValue": "Who looks after the bees?"}},
        {"key": "user.id", "value": {"stringValue": "anna"}},
    ],
}


class TracesBody(BaseModel):
    """``ExportTraceServiceRequest``, which is read by the protocol's own rules."""

    model_config = exemplified(resourceSpans=[{"scopeSpans": [{"spans": [_SPAN]}]}])

    resourceSpans: list[dict[str, Any]] | None = Field(
        default=[], description="the spans of each resource, by instrumentation scope"
    )


class PartialSuccess(BaseModel):
    rejectedSpans: str = Field(description="how many spans were not taken; a number of 64 bits is a text in JSON")
    errorMessage: str


class TracesAnswer(BaseModel):
    """Empty if everything was taken."""

    partialSuccess: PartialSuccess | None = None
