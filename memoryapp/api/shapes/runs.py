"""A stored run, as ``GET /v1/runs/<id>`` answers it."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel

from memoryapp.api.shapes.recall import ChosenItem, ChosenTopic, Usage


class RunAnswer(BaseModel):
    """A run; once it is finished, with everything that ``POST /v1/recall`` answers."""

    run: UUID
    url: str
    user: str
    query: str
    strategy: str
    parameters: dict[str, Any]
    state: Literal["pending", "running", "finished"]
    asked_at: datetime
    finished_at: datetime | None
    topics: list[ChosenTopic] | None = None
    people: list[ChosenItem] | None = None
    artifacts: list[ChosenItem] | None = None
    context: str | None = None
    fallback: str | None = None
    usage: Usage | None = None
