"""What the doors take and give, for pydantic to check and for OpenAPI to tell.

Requests are checked against these shapes. Answers are made as they are and only described here: a test holds both
together.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from memoryapp.api.conversation import MOST_MESSAGES
from memoryapp.api.fields import PARAMETERS, PART, SAID, SENT, STRATEGY, TURN, KnownName, Name, Query
from memoryapp.ingestion import BATCH

MOST_MEDIA = 10

Turn = Annotated[dict[str, Any], WithJsonSchema(TURN)]
Part = Annotated[dict[str, Any], WithJsonSchema(PART)]


class Fault(BaseModel):
    code: str
    message: str


class ErrorAnswer(BaseModel):
    """Every refusal has this shape. The message is a sentence in English."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"error": {"code": "not_found", "message": "There is nothing here."}}}
    )

    error: Fault


class MessagesBody(BaseModel):
    """Messages of one chat user, up to 1,000. Other fields of the conversation are kept with its first message."""

    model_config = ConfigDict(extra="allow", json_schema_extra={"example": {"user": "anna", "messages": [SAID]}})

    user: Name
    messages: Annotated[list[Annotated[Any, WithJsonSchema(SENT)]], Field(json_schema_extra={"maxItems": BATCH})]


class RejectedMessage(BaseModel):
    """``index`` is its place in the list, from 0."""

    index: int
    id: str = ""
    reason: str


class AddedAnswer(BaseModel):
    """New messages, those that were there already, and those that could not be taken."""

    model_config = ConfigDict(json_schema_extra={"example": {"added": 1, "skipped": 0, "rejected": []}})

    added: int
    skipped: int
    rejected: list[RejectedMessage]


class RecallBody(BaseModel):
    """A question to one memory.

    ``messages`` are the end of the running conversation, oldest first, up to 200, of which models are told the last
    ten; without it the messages that are in no topic yet serve. ``media`` are content parts as OpenAI has them, with
    the content embedded.
    """

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "example": {"user": "anna", "query": "What did I decide about the GPU?", "parameters": {"max_topics": 5}}
        },
    )

    user: KnownName
    query: Query
    messages: Annotated[list[Turn] | None, Field(json_schema_extra={"maxItems": MOST_MESSAGES})] = None
    media: Annotated[list[Part], Field(json_schema_extra={"maxItems": MOST_MEDIA})] = []
    strategy: Annotated[str, WithJsonSchema(STRATEGY)] = "flash"
    parameters: Annotated[dict[str, Any], WithJsonSchema(PARAMETERS)] = {}


class ChosenTopic(BaseModel):
    """``rank`` from 1, ``score`` in (0, 1); ``excerpt`` is cut from the messages, absent where there is none.

    ``read`` tells whether the model read the topic, or knew of it only by its candidate line.
    """

    id: str
    rank: int
    reason: str
    score: float
    read: bool
    excerpt: str | None = None


class ChosenItem(BaseModel):
    id: str
    rank: int
    reason: str
    score: float
    name: str = ""


class Usage(BaseModel):
    input_tokens: int
    output_tokens: int
    cost_usd: float
    seconds: float
    turns: int
    tool_calls: int


class RecallAnswer(BaseModel):
    """What was chosen, best first, and the context for the chat model; ``fallback`` is null when a model chose."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "run": "8f3c1b0e-3a77-4a5e-9d0c-6f6f0a0b7c11",
                "url": "http://127.0.0.1:8000/runs/8f3c1b0e-3a77-4a5e-9d0c-6f6f0a0b7c11/",
                "topics": [
                    {
                        "id": "Topic:42",
                        "rank": 1,
                        "reason": "names the card that was bought",
                        "score": 0.91,
                        "read": True,
                    }
                ],
                "people": [],
                "artifacts": [],
                "context": "[Topic:42] 2026-07-25 Which GPU to buy\n…",
                "fallback": None,
                "usage": {
                    "input_tokens": 5120,
                    "output_tokens": 240,
                    "cost_usd": 0.0033,
                    "seconds": 1.9,
                    "turns": 2,
                    "tool_calls": 1,
                },
            }
        }
    )

    run: UUID
    url: str
    topics: list[ChosenTopic]
    people: list[ChosenItem]
    artifacts: list[ChosenItem]
    context: str
    fallback: str | None
    usage: Usage


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


class TopicSummary(BaseModel):
    id: str
    summary: str
    started_at: datetime
    ended_at: datetime
    message_count: int
    size_chars: int


class TopicsAnswer(BaseModel):
    """Live topics in the order in which they came to be; ``next`` is the ``after`` of the next page, or null."""

    topics: list[TopicSummary]
    next: str | None = Field(examples=["Topic:42"])


class SaidMessage(BaseModel):
    id: str
    role: str
    author: str
    ts: datetime
    text: str
    forwarded_from: str = ""


class TopicWithMessages(TopicSummary):
    user: str
    messages: list[SaidMessage]


class TopicAnswer(BaseModel):
    """The topic asked for; where it was retired, the live topics that hold its messages now."""

    id: str
    retired: bool
    topics: list[TopicWithMessages]


class ErasedAnswer(BaseModel):
    """The receipt: how many rows went from each table, and how many ``files`` of media. No name is kept."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "erasure": 3,
                "began_at": "2026-07-25T14:30:00+00:00",
                "ended_at": "2026-07-25T14:30:04+00:00",
                "counts": {"memoryapp_message": 1204, "memoryapp_topic": 96, "memoryapp_chatuser": 1, "files": 2},
            }
        }
    )

    erasure: int
    began_at: datetime
    ended_at: datetime
    counts: dict[str, int]
