"""The bodies and the answers of decisions about recall."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import StringConstraints

from memoryapp.api.shapes.fields import Answer, KnownName, Reason, StrictBody, exemplified

_DecidedId = Annotated[str, StringConstraints(pattern=r"^(?:Topic|Person|Fact):[0-9]{1,18}$")]


class DecisionBody(StrictBody):
    """`id` is a topic, a person or a fact of the chat user; `usual` takes back what was decided."""

    model_config = exemplified(user="anna", id="Topic:42", recall="pinned", reason="The plan for this year")

    user: KnownName
    id: _DecidedId
    recall: Literal["pinned", "never", "usual"]
    reason: Reason = ""


class Decision(Answer):
    id: str
    recall: Literal["pinned", "never", "usual"]


class DecisionAnswer(Decision):
    """``change`` is the number by which the decision is undone."""

    change: int


class DecisionsAnswer(Answer):
    decisions: list[Decision]
