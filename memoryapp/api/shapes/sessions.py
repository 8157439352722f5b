"""The body and the answer of ``POST /v1/sessions/close``."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

from memoryapp.api.shapes.fields import Answer, KnownName, exemplified
from memoryapp.api.shapes.topics import TopicSummary
from memoryapp.importers.record import LONGEST


class CloseBody(BaseModel):
    """The active sessions of a chat user, or only those with the label ``session``."""

    model_config = exemplified(user="anna", session="s1")

    user: KnownName
    session: Annotated[str | None, Field(max_length=LONGEST["session"])] = None


class ClosedAnswer(Answer):
    """The topics that the messages of the sessions are in now; none if there was nothing to archive."""

    topics: list[TopicSummary]
