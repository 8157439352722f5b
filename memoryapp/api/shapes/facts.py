"""The bodies and the answer of facts that programs write."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from memoryapp.api.shapes.fields import (
    NUMBER,
    READABLE,
    READABLE_SCHEMA,
    STRIPPED,
    Answer,
    KnownName,
    Reason,
    StrictBody,
    exemplified,
)
from memoryapp.api.shapes.lists import ListedFact
from memoryapp.models import Fact

LONGEST_CONTENT = 2_000
_Word = Annotated[str, StringConstraints(max_length=100), READABLE, STRIPPED, READABLE_SCHEMA]
_Content = Annotated[str, StringConstraints(max_length=LONGEST_CONTENT), READABLE, STRIPPED, READABLE_SCHEMA]
_Importance = Annotated[int, Field(ge=0, le=100), NUMBER]


class FactBody(StrictBody):
    """A new fact about the chat user. `relation` says whom it is about, `importance` is from 0 to 100; from 80 on it is
    sent with every query."""

    model_config = exemplified(user="anna", content="Allergic to peanuts", category="health")

    user: KnownName
    content: _Content
    relation: _Word = "user"
    category: _Word = "other"
    type: Fact.Type = Fact.Type.CONTEXT
    importance: _Importance = 50
    reason: Reason = ""


class FactPatch(StrictBody):
    """What changes of a fact; at least one of its values."""

    model_config = exemplified(content="Allergic to peanuts and walnuts")

    content: _Content | None = None
    relation: _Word | None = None
    category: _Word | None = None
    type: Fact.Type | None = None
    importance: _Importance | None = None
    reason: Reason = ""


class FactAnswer(Answer):
    """``change`` is the number by which the change is undone; ``fact`` is null after a deletion."""

    change: int
    fact: ListedFact | None
