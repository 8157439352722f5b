"""The bodies and answers of what expires: a rehearsal, the rules of a memory, and the batches that were set aside."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from memoryapp.doors.api.shapes.fields import Answer, KnownName, StrictBody, exemplified
from memoryapp.models import ExpiryRule


class RehearseBody(StrictBody):
    """A rule: rows of a `noun` older than `days`, all of them or those of a `kind` or `condition`."""

    model_config = exemplified(user="anna", noun="fact", days=365, condition="stale")

    user: KnownName
    noun: ExpiryRule.Noun
    days: Annotated[int, Field(ge=1, le=36_500)]
    kind: Annotated[str, Field(max_length=120)] = ""
    condition: ExpiryRule.Condition = ExpiryRule.Condition.AGE


class ExpiringNowAnswer(Answer):
    number: str
    at: datetime
    kind: str


class RehearsalAnswer(Answer):
    """How many rows of each kind would be set aside now, the oldest of them `first`; `shields` counts those that are
    old enough and never go, by what protects them."""

    total: int
    kinds: dict[str, int]
    shields: dict[str, int]
    first: list[ExpiringNowAnswer]


class ExpiryRuleAnswer(Answer):
    """`of_all` says that it is a rule for all memories."""

    id: int
    noun: ExpiryRule.Noun
    kind: str
    days: int
    condition: ExpiryRule.Condition
    grace_days: int
    is_on: bool
    made_by: str
    made_at: datetime
    of_all: bool


class ExpiryBatchAnswer(Answer):
    id: int
    rule: int = Field(validation_alias="rule_id")
    state: Literal["aside", "kept", "gone"]
    rows: int = Field(validation_alias="count")
    at: datetime
    due_at: datetime
    ended_at: datetime | None
    receipt: int | None = Field(validation_alias="receipt_id")


class ExpiryAnswer(Answer):
    """The rules that concern a memory, and its latest batches."""

    rules: list[ExpiryRuleAnswer]
    batches: list[ExpiryBatchAnswer]


class KeepBody(StrictBody):
    """The numbers of the rows that are kept for good; without any, all of them."""

    model_config = exemplified(numbers=["42"])

    numbers: Annotated[list[Annotated[str, Field(max_length=36)]], Field(max_length=1_000)] = []
