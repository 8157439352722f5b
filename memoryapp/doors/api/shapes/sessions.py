"""The body and the answer of ``POST /v1/sessions/close``."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

from memoryapp.doors.api.shapes.curation import TopicSummary
from memoryapp.doors.api.shapes.fields import LARGEST_ID, Answer, KnownName, exemplified
from memoryapp.importers.record import LONGEST


class CloseBody(BaseModel):
    """The active sessions of a chat user, or only those with the label ``session``."""

    model_config = exemplified(user="anna", session="s1")

    user: KnownName
    session: Annotated[str | None, Field(max_length=LONGEST["session"])] = None


class ClosedQuery(CloseBody):
    """The sessions by the numbers of their ``first`` and ``last`` message."""

    first: Annotated[int, Field(ge=0, le=LARGEST_ID)]
    last: Annotated[int, Field(ge=0, le=LARGEST_ID)]


class ClosedAnswer(Answer):
    """The topics that the messages of the sessions are in now; none if there was nothing to archive."""

    topics: list[TopicSummary]
