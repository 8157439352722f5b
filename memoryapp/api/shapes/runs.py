"""The answer of ``GET /v1/runs/<id>``."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel

from memoryapp.api.shapes.recall import ChosenItem, ChosenTopic, Usage


class RunAnswer(BaseModel):
    """A run. Once it is finished, it contains everything that ``POST /v1/recall`` answers."""

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
