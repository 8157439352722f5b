"""What ``POST /v1/qa`` and ``POST /v1/agent/stream`` take and answer."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, WithJsonSchema

from memoryapp.api.shapes.fields import PARAMETERS, KnownName, Query, StrictBody, exemplified
from memoryapp.api.shapes.recall import Conversation, RecallBody, Usage


class QuestionBody(StrictBody):
    """A question to one memory, to be answered in words; ``messages`` and ``parameters`` are those of a recall."""

    model_config = exemplified(user="anna", query="Which cake did Dasha bake?")

    user: KnownName
    query: Query
    messages: Conversation = None
    parameters: Annotated[dict[str, Any], WithJsonSchema(PARAMETERS)] = {}

    def recall(self, strategy: str) -> RecallBody:
        """The same as a recall by that strategy."""
        return RecallBody.model_construct(
            user=self.user,
            query=self.query,
            messages=self.messages,
            media=[],
            strategy=strategy,
            parameters=self.parameters,
        )


class CitedMessage(BaseModel):
    """What stands behind ``[n]``: the message's id as it was sent, the topic that held it, and the words cited."""

    n: int
    topic: str
    message: str
    author: str
    ts: str
    quote: str


class WordsAnswer(BaseModel):
    """An answer in words. ``answer`` marks each statement with ``[n]``, the number of a citation; ``text`` is the same.

    ``outcome`` is ``softened`` where little supports the answer, ``refused`` where the memory does not hold one and
    ``failed`` where the run ended before there was any; ``fallback`` then says why. ``coverage`` is how much of the
    question the cited messages speak of, from 0 to 1. ``verified`` is true if messages bear out every claim that was
    checked, false if they do not, null where none was checked. ``by`` tells whether a model wrote the answer or it is
    put together of what the messages say. ``agent`` is false for the plain path.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "run": "8f3c1b0e-3a77-4a5e-9d0c-6f6f0a0b7c11",
                "url": "http://127.0.0.1:8000/runs/8f3c1b0e-3a77-4a5e-9d0c-6f6f0a0b7c11/",
                "strategy": "plain",
                "agent": False,
                "outcome": "answered",
                "answer": "It was a honey cake with walnuts [1].",
                "text": "It was a honey cake with walnuts [1].",
                "citations": [
                    {
                        "n": 1,
                        "topic": "Topic:42",
                        "message": "m17",
                        "author": "Dasha",
                        "ts": "2026-07-25T14:30:00+00:00",
                        "quote": "It was a honey cake with walnuts",
                    }
                ],
                "coverage": 0.91,
                "verified": True,
                "by": "extracts",
                "note": "",
                "fallback": None,
                "usage": {
                    "input_tokens": 0,
                    "output_tokens": 0,
                    "cost_usd": 0.0,
                    "seconds": 0.2,
                    "turns": 0,
                    "tool_calls": 0,
                },
            }
        }
    )

    run: UUID
    url: str
    strategy: str
    agent: bool
    outcome: Literal["answered", "softened", "refused", "failed"]
    answer: str
    text: str
    citations: list[CitedMessage]
    coverage: float
    verified: bool | None
    by: Literal["model", "extracts"] | None
    note: str
    fallback: str | None
    usage: Usage


class StreamBegun(BaseModel):
    """The first event, ``run``: who answers. ``note`` says why it is not the agent."""

    run: UUID
    url: str
    strategy: str
    agent: bool
    note: str


class StreamProgress(BaseModel):
    """An event ``progress``: the step that goes on now, and which tool it uses."""

    step: str
    tool: str = ""
