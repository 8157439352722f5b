"""The body and answer of ``POST /v1/messages``."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from memoryapp.api.shapes.errors import ErrorAnswer, Fault
from memoryapp.api.shapes.fields import EXAMPLE_MESSAGE, MESSAGE_OR_REJECTED, Answer, LeftOutMessages, Name
from memoryapp.importers.record import LONGEST

MOST_A_CALL = 1_000


class MessagesBody(BaseModel):
    """Up to 1,000 messages of one chat user; ``session`` is the label of those that have none of their own. Further
    fields of the body are stored with the first message."""

    model_config = ConfigDict(
        extra="allow", json_schema_extra={"example": {"user": "anna", "messages": [EXAMPLE_MESSAGE]}}
    )

    user: Name
    session: Annotated[str | None, Field(max_length=LONGEST["session"])] = None
    messages: Annotated[
        list[Annotated[Any, WithJsonSchema(MESSAGE_OR_REJECTED)]], Field(json_schema_extra={"maxItems": MOST_A_CALL})
    ]


class RejectedMessage(Answer):
    """A message that was not stored; ``index`` is its place in the list, from 0."""

    index: int
    id: str = ""
    reason: str


class AddedAnswer(Answer):
    """The number of new messages and of known ones, and the messages that could not be stored.

    ``left_out`` counts, by reason, what is no talk and not stored: calls of tools and their results.
    """

    model_config = ConfigDict(json_schema_extra={"example": {"added": 1, "skipped": 0, "rejected": []}})

    added: int
    skipped: int
    rejected: list[RejectedMessage]
    left_out: list[LeftOutMessages] = []


class Unstored(Fault):
    """``rejected`` is there if the body could be read and no message of it could be stored."""

    rejected: list[RejectedMessage] | None = None


class UnstoredErrorAnswer(ErrorAnswer):
    """The body cannot be read, or no message of it could be stored."""

    error: Unstored
