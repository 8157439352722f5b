"""The bodies and answers of the endpoints of curation.

Messages are named by the ids with which they were sent, topics by their ids in any spelling. An unknown field is
refused, because a request that is only half understood might change a memory in an unintended way.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import ConfigDict, Field, create_model

from memoryapp.api.shapes.edits import EditName
from memoryapp.api.shapes.errors import ErrorAnswer, Fault
from memoryapp.api.shapes.fields import (
    Answer,
    KnownName,
    MessageId,
    Proposed,
    Reason,
    StrictBody,
    Summary,
    TopicId,
    TopicName,
)
from memoryapp.api.shapes.topics import TopicSummary
from memoryapp.curation.change import MOST_MESSAGES, MOST_TOPICS
from memoryapp.curation.operations.operation import (
    AT,
    MESSAGES,
    PROPOSED,
    SUMMARIES,
    SUMMARY,
    TO,
    TOPIC,
    TOPICS,
    Endpoint,
    Part,
)

_ITEMS: dict[str, Any] = {"minItems": 1}
# How each part of a request is written in a body: its type, and its default if it may be left out.
_FIELDS: Mapping[Part, Any] = {
    TOPICS: (Annotated[list[TopicId], Field(max_length=MOST_TOPICS, json_schema_extra={"minItems": 2})], ...),
    MESSAGES: (Annotated[list[MessageId], Field(max_length=MOST_MESSAGES, json_schema_extra=_ITEMS)], ...),
    TO: (TopicId | None, ...),
    AT: (Annotated[list[MessageId], Field(max_length=MOST_TOPICS, json_schema_extra=_ITEMS)], ...),
    SUMMARY: (Summary, ...),
    PROPOSED: (Proposed, ""),
    SUMMARIES: (Annotated[list[Proposed], Field(max_length=MOST_TOPICS)], []),
}


@cache
def body_of(endpoint: Endpoint) -> type[StrictBody]:
    """The shape of what a program sends: the chat user unless a topic in the address says whose, parts, a reason."""
    whose: dict[str, Any] = {} if TOPIC in endpoint.takes else {"user": (KnownName, ...)}
    parts = {part.name: _FIELDS[part] for part in endpoint.body_takes}
    fields: dict[str, Any] = {**whose, **parts, "reason": (Reason, "")}
    return create_model(
        endpoint.body,
        __base__=StrictBody,
        __doc__=endpoint.body_about,
        __module__=__name__,
        __cls_kwargs__={"json_schema_extra": {"example": dict(endpoint.example)}},
        **fields,
    )


class PutTopic(TopicSummary):
    """A topic that the change puts in. With ``dry_run`` its id is null, unless an undo would bring it back."""

    id: TopicName | None  # type: ignore[assignment]


class Evidence(Answer):
    """How search finds the topics with the messages that answered a run. ``rank``, from 1, is that of the last topic.

    ``rank`` is null if a message is in no topic, or its topic is not among the first 200. ``shown`` is true if all of
    these topics are shown to the model. ``chars`` is their total size.
    """

    rank: int | None
    shown: bool
    chars: int


class RunEffect(Answer):
    """A past run ``before`` and ``after`` the change. ``golden`` is true if it belongs to a labelled question."""

    run: UUID = Field(validation_alias="run_id")
    query: str
    asked_at: datetime = Field(validation_alias="when")
    golden: bool = Field(validation_alias="is_golden")
    verdict: Literal["better", "worse", "same"]
    sentence: str
    before: Evidence
    after: Evidence


class EffectAnswer(Answer):
    """The past runs that saw a topic taken out, searched again with the change applied; those that get worse first.

    ``words_only`` is the number of runs compared by words only, because the vector of their query is not stored.
    """

    affected: int
    better: int
    worse: int
    same: int
    words_only: int
    runs: list[RunEffect] = Field(validation_alias="rows")


class ChangedAnswer(Answer):
    """The id of the edit, the topics that it put in, and the ids that it retired; these now lead to the new topics.

    With ``dry_run`` nothing is changed: ``edit`` is null, and ``effect`` shows what past runs would have found.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "edit": 17,
                "topics": [
                    {
                        "id": "Topic:44",
                        "summary": "Tea",
                        "started_at": "2026-07-25T14:30:00+00:00",
                        "ended_at": "2026-07-28T09:12:00+00:00",
                        "message_count": 14,
                        "size_chars": 3120,
                    }
                ],
                "retired": ["Topic:1", "Topic:3"],
                "effect": None,
            }
        }
    )

    edit: int | None
    topics: list[PutTopic]
    retired: list[TopicName]
    effect: EffectAnswer | None


class Conflict(Fault):
    """``successors`` is set for ``stale``. ``edits`` is set for ``depends``; undo them first, in this order."""

    code: Literal["stale", "depends", "conflict", "erased"]
    successors: dict[str, list[str]] | None = None
    edits: list[EditName] | None = None


class ConflictErrorAnswer(ErrorAnswer):
    """The memory has changed meanwhile, or other edits prevent the change; the answer names them."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "error": {
                    "code": "stale",
                    "message": "Somebody changed this meanwhile: Topic:1 is retired. Its messages are in Topic:44 now.",
                    "successors": {"Topic:1": ["Topic:44"]},
                }
            }
        }
    )

    error: Conflict
