"""The receipt of an erasure."""

from __future__ import annotations

from datetime import datetime

from pydantic import ConfigDict, Field

from memoryapp.api.shapes.fields import Answer


class ErasedAnswer(Answer):
    """The receipt: how many rows of each table and how many ``files`` were erased or redacted. It contains no name."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "erasure": 3,
                "kind": "user",
                "began_at": "2026-07-25T14:30:00+00:00",
                "ended_at": "2026-07-25T14:30:04+00:00",
                "counts": {"memoryapp_message": 1204, "memoryapp_topic": 96, "memoryapp_chatuser": 1, "files": 2},
                "redacted": {},
            }
        }
    )

    erasure: int = Field(validation_alias="id")
    kind: str
    began_at: datetime
    ended_at: datetime
    counts: dict[str, int]
    redacted: dict[str, int]
