"""The body and answer of ``POST /v1/recall``."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import ConfigDict, Field, WithJsonSchema

from memoryapp.api.shapes.fields import (
    LONGEST_CONVERSATION,
    PARAMETERS,
    PART,
    STRATEGY,
    TURN,
    Answer,
    KnownName,
    PageUrl,
    Query,
    StrictBody,
    at_most,
    exemplified,
)
from memoryapp.api.shapes.topics import MessageInTopic
from memoryapp.engine.strategies import DEFAULT

MOST_MEDIA = 10
# As a text with a pattern: clients that are made from the description would otherwise need a name for each value.
Included = Annotated[
    Literal["messages", "passages"], WithJsonSchema({"type": "string", "pattern": "^(?:messages|passages)$"})
]

HandedOver = Literal["passages", "topics"]
Turn = Annotated[dict[str, Any], WithJsonSchema(TURN)]
Part = Annotated[dict[str, Any], WithJsonSchema(PART)]
Conversation = Annotated[
    list[Turn] | None,
    Field(json_schema_extra={"maxItems": LONGEST_CONVERSATION}),
    at_most(LONGEST_CONVERSATION, f"At most {LONGEST_CONVERSATION} messages of the conversation: send its last ones."),
]
SentMedia = Annotated[
    list[Part],
    Field(json_schema_extra={"maxItems": MOST_MEDIA}),
    at_most(MOST_MEDIA, f"At most {MOST_MEDIA} media a question."),
]


class RecallBody(StrictBody):
    """A query to one memory.

    ``messages`` are the end of the running conversation, up to 200 messages, oldest first; models read the last ten.
    Without them, the stored messages that are in no topic yet are used. ``media`` are OpenAI's content parts, with the
    content embedded as base64. ``include`` names what else the answer shall contain: the messages of chosen
    topics, or the passages that answer. ``as_of`` is a day or a moment (ISO 8601) whose topics, people and facts are
    searched, not by strategies that answer in words.
    """

    model_config = exemplified(user="anna", query="What did I decide about the GPU?", parameters={"max_topics": 5})

    user: KnownName
    query: Query
    messages: Conversation = None
    media: SentMedia = []
    strategy: Annotated[str, WithJsonSchema(STRATEGY)] = DEFAULT.name
    parameters: Annotated[dict[str, Any], WithJsonSchema(PARAMETERS)] = {}
    include: Annotated[list[Included], Field(max_length=2)] = []
    as_of: Annotated[str | None, Field(max_length=40)] = None


class ChosenTopic(Answer):
    """A chosen topic: ``rank`` from 1, ``score`` between 0 and 1, and an ``excerpt`` quoted from its messages, if any.

    ``read`` is true if the model read the topic's messages, false if it saw only the line of the candidate. ``pinned``
    topics are handed over with every recall; their score is 0 if this query did not find them. Summary,
    times and count are missing if the topic was erased meanwhile. ``messages`` and ``passages`` (the messages around
    what answers, long ones cut) are there if ``include`` names them.
    """

    id: str
    rank: int
    reason: str
    score: float
    read: bool
    pinned: bool = False
    summary: str | None = None
    first_at: datetime | None = None
    last_at: datetime | None = None
    message_count: int | None = None
    excerpt: str | None = None
    messages: list[MessageInTopic] | None = None
    passages: list[MessageInTopic] | None = None


class ChosenItem(Answer):
    """A chosen person or file."""

    id: str
    rank: int
    reason: str
    score: float
    name: str = ""


class Usage(Answer):
    """What a run cost: tokens, US dollars, seconds, and how often a model was asked and called a tool."""

    input_tokens: int
    output_tokens: int
    cost_usd: float
    seconds: float
    turns: int
    tool_calls: int


class RecallAnswer(Answer):
    """What was chosen, best first, and the context for the chat model; ``fallback`` is null if a model chose.

    ``handed_over`` says what of the chosen topics the context holds: the passages around what answers, or whole topics.
    ``unsure``: nothing was chosen without doubt; the nearest passages stand in the context as possibly related.
    ``cut``: the model's answer ran into its limit of tokens.
    """

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
                        "summary": "Which GPU to buy",
                        "first_at": "2026-07-25T14:30:00Z",
                        "last_at": "2026-07-25T15:10:00Z",
                        "message_count": 14,
                    }
                ],
                "people": [],
                "artifacts": [],
                "context": "[Topic:42] 2026-07-25 Which GPU to buy | 3 of 14 messages\n…",
                "handed_over": "passages",
                "fallback": None,
                "unsure": False,
                "cut": False,
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
    url: PageUrl
    topics: list[ChosenTopic]
    people: list[ChosenItem]
    artifacts: list[ChosenItem]
    context: str
    handed_over: HandedOver
    fallback: str | None
    unsure: bool
    cut: bool
    usage: Usage
