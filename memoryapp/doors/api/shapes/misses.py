"""The bodies and answers of misses: what an assistant forgot, why, and what puts it right."""

from datetime import date, datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import Field, StringConstraints

from memoryapp.doors.api.shapes.fields import STRIPPED, Answer, KnownName, StrictBody, exemplified
from memoryapp.models import Miss
from memoryapp.runs.lifecycle import LONGEST_QUERY

Text = Annotated[str, StringConstraints(max_length=LONGEST_QUERY), STRIPPED]
_Moment = Annotated[str, Field(max_length=40)]


class MissBody(StrictBody):
    """What went wrong: the `question`, with what should have been known (`expected`) or the wrong `answer`. Without a
    `run` the question is asked again as at the moment `at`, a day or a moment; without that, of today's memory."""

    model_config = exemplified(user="anna", question="When is the dentist?", expected="Thursday at nine")

    user: KnownName
    question: Text = ""
    expected: Text = ""
    answer: Text = ""
    run: UUID | None = None
    at: _Moment | None = None


class DecideMissBody(StrictBody):
    """What is done about a miss. `repair` takes one of its `remedies` with the `values`, and the `text` that is to be
    used if it has one; the question is then asked again, and with `keep` each night as well. `expect` says in `text`
    what should have been known."""

    model_config = exemplified(do="repair", remedy="pin", values={"id": "Topic:42"})

    do: Literal["repair", "again", "expect", "keep", "undo", "dismiss", "reopen"]
    remedy: Annotated[str, Field(max_length=24)] = ""
    values: dict[str, Any] = {}
    text: Text = ""
    keep: bool = True


class RemedyAnswer(Answer):
    """A remedy that was tried: what it `does`, its `result` for this run, and how many past runs get `better` and
    `worse`, null where it changes none of them."""

    remedy: str
    does: str
    result: str
    values: dict[str, Any]
    text: str
    better: int | None
    worse: int | None


class ListedMiss(Answer):
    """`stage` says where it was lost, as the answer of `why_not` does; null until that is known. `found_again` says
    whether the run `again`, asked after the repair, found it."""

    id: int
    user: str
    question: str
    expected: str
    state: Miss.State
    stage: str | None
    topic: str | None
    remedy: str | None
    run: UUID | None
    again: UUID | None
    at: datetime
    repaired_at: datetime | None
    url: str


class MissAnswer(ListedMiss):
    """The miss with its explanation and remedies; both are empty until its run has ended."""

    sentence: str
    numbers: dict[str, Any]
    by_words: list[str]
    by_meaning: list[str]
    evidence: list[str]
    remedies: list[RemedyAnswer]
    found_again: bool | None


class MissesAnswer(Answer):
    """`next` is the `before` of the following page, or null."""

    misses: list[ListedMiss]
    next: int | None


class DayOfMisses(Answer):
    day: date
    misses: int


class CountedMisses(Answer):
    name: str
    misses: int
    hours: float | None = None


class MissDaysAnswer(Answer):
    """The last 30 days: misses a day, by stage and by remedy, the three stages at which misses were open longest, and
    the median of the hours from a miss to its repair. `kept` of `asked` questions were right in the last night;
    `fallen` names the misses that were not."""

    total: int
    open: int
    median_hours: float | None
    days: list[DayOfMisses]
    by_stage: list[CountedMisses]
    by_remedy: list[CountedMisses]
    costliest: list[CountedMisses]
    kept: int
    asked: int
    fallen: list[int]
