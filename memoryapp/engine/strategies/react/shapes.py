"""Input and output of the seven tools, with bounds for every parameter; values outside of them are refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from memoryapp.engine.memory import Where
from memoryapp.engine.text.standing import Grade

LONGEST_QUESTION = 4_000
MOST_QUERIES = 8
_LONGEST_SHOWN = 200
# The context is part of the prompt of the answer; topics have a field of their own.
_UNTOLD = {"prompt", "topics"}

Question = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_QUESTION)]
Route = Literal["bm25", "dense", "hybrid"]


def _real(day: str) -> str:
    """Raises ValueError for a day that no calendar has."""
    return day and date.fromisoformat(day).isoformat()


Day = Annotated[str, StringConstraints(pattern=r"^(\d{4}-\d\d-\d\d)?$"), AfterValidator(_real)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Names = Annotated[tuple[Name, ...], Field(max_length=10)]
PassageIds = Annotated[tuple[int, ...], Field(max_length=1_000)]
Share = Annotated[float, Field(ge=0, le=1)]
Weight = Annotated[float, Field(ge=0, le=10)]


class Shape(BaseModel):
    """A value that never changes and contains nothing beside its fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def brief(self) -> dict[str, Any]:
        """The value in the short form of events: texts are cut, lists are counted, empty values are left out."""
        brief = {name: _brief(getattr(self, name)) for name in type(self).model_fields if name not in _UNTOLD}
        return {name: value for name, value in brief.items() if value not in ("", None, [], ()) and value is not False}


def _brief(value: Any) -> Any:
    if isinstance(value, str):
        return value[:_LONGEST_SHOWN]
    if isinstance(value, float):
        return round(value, 4)
    if isinstance(value, Mapping) or not isinstance(value, Sequence):
        return value
    return [_brief(each) for each in value] if all(isinstance(each, str) for each in value) else len(value)


class Filters(Shape):
    """Days as ``2023-05-01``, both included; empty is no bound. They are guesses, which a search may widen."""

    since: Day = ""
    until: Day = ""
    channels: Names = ()
    authors: Names = ()

    @property
    def where(self) -> Where:
        return Where(self.since, self.until, self.channels, self.authors)


class RouterInput(Shape):
    query: Question


class RouterOutput(Filters):
    """``meaning`` and ``words`` are the weights of the two orders: a route prefers one and excludes none."""

    route: Route
    meaning: Weight
    words: Weight
    reasons: Annotated[tuple[str, ...], Field(max_length=10)] = ()


class PlanInput(Shape):
    """``found_little`` asks for other words than those that were searched for."""

    query: Question
    most: Annotated[int, Field(ge=3, le=6)]
    found_little: bool = False


class PlanOutput(Filters):
    """The question itself is always the first of the ``queries``; the filters are those that the plan proposes."""

    queries: Annotated[tuple[Question, ...], Field(min_length=1, max_length=MOST_QUERIES)]
    by: Literal["model", "nobody"]
    why: str = ""


class SearchInput(Filters):
    queries: Annotated[tuple[Question, ...], Field(min_length=1, max_length=MOST_QUERIES)]
    k: Annotated[int, Field(ge=1, le=100)] = 10
    route: Route = "hybrid"


class Hit(Shape):
    id: int
    score: float
    snippet: Annotated[str, StringConstraints(max_length=_LONGEST_SHOWN)]
    topics: tuple[str, ...]


class SearchOutput(Shape):
    """``new`` hits are those that no earlier search has brought, ``relaxed`` says that guessed filters left too few and
    were widened."""

    hits: Annotated[tuple[Hit, ...], Field(max_length=1_000)]
    new: int
    by_meaning: int
    by_words: int
    relaxed: bool = False


class RerankInput(Shape):
    query: Question
    ids: Annotated[PassageIds, Field(min_length=1)]
    top_n: Annotated[int, Field(ge=1, le=200)] = 40


class Rescored(Shape):
    id: int
    score: float


class RerankOutput(Shape):
    """``by`` is the cross-encoder's model, or ``scorer``; ``failure`` why the scorer replaced it."""

    hits: Annotated[tuple[Rescored, ...], Field(max_length=1_000)]
    by: str
    moved: int
    failure: str = ""


class FetchInput(Shape):
    ids: Annotated[tuple[int, ...], Field(min_length=1, max_length=100)]


class FetchOutput(Shape):
    documents: Annotated[tuple[int, ...], Field(max_length=100)]
    messages: int
    missing: int
    topics: tuple[str, ...] = ()


class ComposeInput(Shape):
    """``beside`` keeps the citations that there are under their numbers."""

    ids: Annotated[tuple[int, ...], Field(max_length=100)]
    max_tokens_ctx: Annotated[int, Field(ge=200, le=8_000)] = 1_800
    beside: bool = False


class Numbered(Shape):
    id: int
    index: int


class ComposeOutput(Shape):
    """``prompt`` is what a model reads; ``coverage_est`` how much of the question the citations speak of.

    ``kept_earlier`` says that these are the citations of an earlier call, which speak of more of it.
    """

    prompt: str
    citations: tuple[Numbered, ...]
    coverage_est: Share
    tokens: int
    left_out: int
    kept_earlier: bool = False
    topics: tuple[str, ...] = ()


class VerifyInput(Shape):
    """``cited`` are the numbers of the sources that the claim refers to; without any, all sources are compared."""

    claim: Annotated[str, StringConstraints(min_length=1, max_length=1_000)]
    top_k: Annotated[int, Field(ge=1, le=10)] = 3
    cited: Annotated[tuple[int, ...], Field(max_length=100)] = ()


class VerifyOutput(Shape):
    """``verified`` says whether the cited sources say what the claim states; if only others do, it is ``misquoted``.

    ``sources`` are the numbers of those that do, ``by`` whether a model judged or words decided. ``support``,
    ``missing`` and ``turned`` are what the words of the messages say, as in ``StatementCheck``; ``found`` of its words
    stand there. ``confidence`` is 1 or
    0; None where words differ, because no share of words proves anything.
    """

    verified: bool
    confidence: Share | None
    evidence: Annotated[tuple[str, ...], Field(max_length=10)]
    documents_found: int
    sources: tuple[int, ...] = ()
    misquoted: bool = False
    by: Literal["model", "words"] = "words"
    found: int = 0
    support: Grade = "unchecked"
    missing: tuple[str, ...] = ()
    turned: tuple[str, ...] = ()
