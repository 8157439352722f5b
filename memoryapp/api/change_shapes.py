"""What the doors to curation take and give, for pydantic to check and for OpenAPI to tell.

Messages go by the ids they were sent with, topics by theirs however they are written; what is misspelt is refused,
for a wish that is understood by half would change a memory otherwise than it was meant.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, WithJsonSchema
from pydantic_core import PydanticCustomError

from memoryapp.api.fields import LARGEST_ID, READABLE, READABLE_SCHEMA, STRIPPED, KnownName
from memoryapp.api.shapes import ErrorAnswer, Fault
from memoryapp.curation.change import MOST_MESSAGES, MOST_REASON_CHARS, MOST_SUMMARY_CHARS, MOST_TOPICS
from memoryapp.engine.memory import parse_topic_id
from memoryapp.importers.record import clean


def _topic_number(value: Any) -> int:
    number = parse_topic_id(value)
    if number is None:
        raise PydanticCustomError("topic_id", "This is no id of a topic, such as Topic:42")
    return number


def _message_name(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise PydanticCustomError("message_id", "This is no id of a message, such as m1")
    named: str = clean(str(value))
    return named


TopicId = Annotated[
    int,
    BeforeValidator(_topic_number),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 0, "maximum": LARGEST_ID},
                {"type": "string", "pattern": r"^\[?(?:[Tt]opic:)?[0-9]{1,18}\]?$"},
            ],
            "examples": ["Topic:42", 42, "[Topic:42]"],
        }
    ),
]
MessageId = Annotated[
    str,
    BeforeValidator(_message_name),
    WithJsonSchema({"type": ["string", "integer"], "description": "as it was sent", "examples": ["m1"]}),
]
Proposed = Annotated[str, StringConstraints(max_length=MOST_SUMMARY_CHARS), STRIPPED]
Summary = Annotated[str, StringConstraints(max_length=MOST_SUMMARY_CHARS), READABLE, STRIPPED, READABLE_SCHEMA]
Reason = Annotated[str, StringConstraints(max_length=MOST_REASON_CHARS), STRIPPED]


def _exactly(**example: Any) -> ConfigDict:
    """Takes these fields and no others."""
    return ConfigDict(extra="forbid", json_schema_extra={"example": example})


class MergeBody(BaseModel):
    """Two or more topics, neighbours or not; without a summary theirs are put together, oldest first."""

    model_config = _exactly(user="anna", topics=["Topic:1", "Topic:3"], summary="Tea", reason="one matter")

    user: KnownName
    topics: Annotated[list[TopicId], Field(max_length=MOST_TOPICS, json_schema_extra={"minItems": 2})]
    summary: Proposed = ""
    reason: Reason = ""


class SplitBody(BaseModel):
    """``at`` are the messages new parts begin with, ``summaries`` one a part, of which "" is proposed."""

    model_config = _exactly(at=["m7"], summaries=["Which tea to buy", "How to make it"])

    at: Annotated[list[MessageId], Field(max_length=MOST_TOPICS, json_schema_extra={"minItems": 1})]
    summaries: Annotated[list[Proposed], Field(max_length=MOST_TOPICS)] = []
    reason: Reason = ""


class SummaryBody(BaseModel):
    """The topic's new summary."""

    model_config = _exactly(summary="Which tea to buy", reason="said more clearly")

    summary: Summary
    reason: Reason = ""


class MoveBody(BaseModel):
    """Messages of one topic or several, and the topic they move ``to``; null is a new one, with ``summary``."""

    model_config = _exactly(user="anna", messages=["m7", "m8"], to="Topic:9")

    user: KnownName
    messages: Annotated[list[MessageId], Field(max_length=MOST_MESSAGES, json_schema_extra={"minItems": 1})]
    to: TopicId | None
    summary: Proposed = ""
    reason: Reason = ""


class UndoBody(BaseModel):
    """Nothing need be said."""

    model_config = _exactly(reason="they were two matters after all")

    reason: Reason = ""


class PutTopic(BaseModel):
    """A topic that came in; with ``dry_run`` one that would, whose id is null unless an undo brings it back."""

    id: str | None
    summary: str
    started_at: datetime
    ended_at: datetime
    message_count: int
    size_chars: int


class Evidence(BaseModel):
    """Where search finds the messages that answered a run: the rank, from 1, of the one hardest to find.

    The rank is null where one is in no topic, or beyond the first 200. ``shown`` says that the model is shown all of
    their topics, ``chars`` how much there is to read in these.
    """

    rank: int | None
    shown: bool
    chars: int


class RunEffect(BaseModel):
    """What would become of a run, today and with the change; ``golden`` ones are labelled questions."""

    run: UUID
    query: str
    asked_at: datetime
    golden: bool
    verdict: Literal["better", "worse", "same"]
    sentence: str
    before: Evidence
    after: Evidence


class EffectAnswer(BaseModel):
    """The past runs that saw a topic taken out, searched again as if the change were made, worse ones first.

    ``words_only`` of them were compared by words alone, for the vector of their query is not known.
    """

    affected: int
    better: int
    worse: int
    same: int
    words_only: int
    runs: list[RunEffect]


class ChangedAnswer(BaseModel):
    """The edit's id, the topics it put in, and the ids of those it retired, which lead to the new ones for ever.

    With ``dry_run`` nothing is changed: ``edit`` is null, and ``effect`` tells what past runs would have found.
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
    retired: list[str]
    effect: EffectAnswer | None


class EditName(BaseModel):
    """What an edit is called where it stands in the way."""

    id: int
    kind: str
    actor: str
    at: datetime


class Edit(EditName):
    """``out`` and ``put`` name the first 200 topics of each side, the counts all of them.

    ``stands`` tells whether what it did is so today: an undo can be undone, and then the first edit stands again.
    """

    reason: str
    undoes: int | None
    undone_by: int | None
    stands: bool
    out: list[str]
    out_count: int
    put: list[str]
    put_count: int


class EditsAnswer(BaseModel):
    """Edits in the order in which they were made; ``next`` is the ``after`` of the next page, or null.

    Whoever keeps up with a memory asks on with the last id there was: none is ever put in before it.
    """

    edits: list[Edit]
    next: int | None


class Conflict(Fault):
    """``successors`` comes with ``stale``, ``edits`` (newest first, to be undone in this order) with ``depends``."""

    code: Literal["stale", "depends", "conflict", "erased"]
    successors: dict[str, list[str]] | None = None
    edits: list[EditName] | None = None


class ConflictErrorAnswer(ErrorAnswer):
    """The memory is not as the program thinks: what changed meanwhile, or what stands in the way, is named."""

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
