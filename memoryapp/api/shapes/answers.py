"""The bodies and answers of ``POST /v1/qa`` and ``POST /v1/agent/stream``."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import ConfigDict, WithJsonSchema

from memoryapp.api.shapes.fields import PARAMETERS, Answer, KnownName, PageUrl, Query, StrictBody, exemplified
from memoryapp.api.shapes.recall import Conversation, RecallBody, Usage


class QuestionBody(StrictBody):
    """A question to one memory, to be answered in words. ``messages`` and ``parameters`` are those of a recall."""

    model_config = exemplified(user="anna", query="Which cake did Dasha bake?")

    user: KnownName
    query: Query
    messages: Conversation = None
    parameters: Annotated[dict[str, Any], WithJsonSchema(PARAMETERS)] = {}

    def recall(self, strategy: str) -> RecallBody:
        """Returns the body of a recall with this question by that strategy."""
        return RecallBody.model_construct(
            user=self.user,
            query=self.query,
            messages=self.messages,
            media=[],
            strategy=strategy,
            parameters=self.parameters,
        )


class CitedMessage(Answer):
    """The source of citation ``[n]``: the message's id as it was sent, the topic that held it, and the cited words.

    ``passage`` are the ids of the messages of the passage that it belongs to, oldest first.
    """

    n: int
    topic: str
    message: str
    author: str
    ts: str
    quote: str
    passage: list[str] = []


class CheckedStatement(Answer):
    """A statement of an answer beside the messages with the numbers ``citations``.

    ``support`` is ``in_words`` if every telling word of it stands there, ``differs`` if some do not, ``contradicted``
    if a number, date, negation or order is another one, and ``unchecked`` where words cannot be compared. ``missing``
    and ``turned`` are those words. ``verified`` is null where no model judged; a contradicted statement is never
    verified. One that is not ``kept`` was left out of the answer.
    """

    text: str
    citations: list[int]
    support: Literal["in_words", "differs", "contradicted", "unchecked"]
    missing: list[str]
    turned: list[str]
    verified: bool | None
    kept: bool


class WordsAnswer(Answer):
    """An answer in words. ``answer`` marks each statement with ``[n]``, the number of a citation; ``text`` is the same.

    ``outcome`` is ``softened`` if little supports the answer, ``refused`` if the memory does not contain one, and
    ``failed`` if the run ended before it had one; ``fallback`` then says why. Where no chat model is connected it is
    ``passages``: ``answer`` is empty, and ``citations`` are the passages nearest to the question, best first.
    ``coverage`` is the part of the question that the sources cover, ``support`` the part of the model's ``statements``
    that a model confirmed or, where none judged, whose words all stand in the messages, both from 0 to 1.
    ``support`` is null for passages, refusals, and where nothing could be checked. ``verified`` says whether a model
    confirmed all statements that were kept and no word contradicts one, and is null where no model judged them. ``by``
    is null for passages; earlier versions composed answers of ``extracts``. ``note`` names what was left out, corrected
    or widened. ``agent`` is false for the plain path. ``cut``: the model ran into its limit of tokens,
    so the answer lacks its end.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "run": "8f3c1b0e-3a77-4a5e-9d0c-6f6f0a0b7c11",
                "url": "http://127.0.0.1:8000/runs/8f3c1b0e-3a77-4a5e-9d0c-6f6f0a0b7c11/",
                "strategy": "plain",
                "agent": False,
                "outcome": "passages",
                "answer": "",
                "text": "",
                "citations": [
                    {
                        "n": 1,
                        "topic": "Topic:42",
                        "message": "m17",
                        "author": "Dasha",
                        "ts": "2026-07-25T14:30:00+00:00",
                        "quote": "It was a honey cake with walnuts",
                        "passage": ["m16", "m17"],
                    }
                ],
                "coverage": 0.91,
                "support": None,
                "verified": None,
                "statements": [],
                "by": None,
                "note": "No chat model is connected, or models are switched off, so nothing is answered: these are the "
                "passages nearest to the question. Set LLM_BASE_URL and LLM_API_KEY to connect one.",
                "fallback": None,
                "cut": False,
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
    url: PageUrl
    strategy: str
    agent: bool
    outcome: Literal["answered", "softened", "refused", "passages", "failed"]
    answer: str
    text: str
    citations: list[CitedMessage]
    coverage: float
    support: float | None
    verified: bool | None
    statements: list[CheckedStatement] = []
    by: Literal["model", "extracts"] | None
    note: str
    fallback: str | None
    cut: bool
    usage: Usage


class StreamBegun(Answer):
    """The first event, ``run``: the run and its strategy. ``note`` says why it is not the agent, or is empty."""

    run: UUID
    url: PageUrl
    strategy: str
    agent: bool
    note: str


class StreamProgress(Answer):
    """An event ``progress``: the current step, and the tool that it uses."""

    step: str
    tool: str = ""
