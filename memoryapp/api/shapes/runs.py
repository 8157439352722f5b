"""The bodies and answers of runs, and of what is asked of them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import AliasChoices, AliasPath, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from memoryapp.api.shapes.fields import NUMBER, PARAMETERS, Answer, PageUrl, StrictBody, exemplified
from memoryapp.api.shapes.recall import ChosenItem, ChosenTopic, HandedOver, Usage
from memoryapp.compare.states import State
from memoryapp.explain.fate import Stage
from memoryapp.runs.replays import LARGEST_SEED, LONGEST_QUERY, LONGEST_TEXT

MOST_IDS = 200
LATEST_TURN = 10_000
# Values of the domain have an empty text or 0 where an answer has null.
_NOTHING_IS_NULL = BeforeValidator(lambda value: value or None)
_RunId = Annotated[str, BeforeValidator(str)]


def _is_missing(value: Any) -> bool:
    return not value and value is not False


class ForkChanges(BaseModel):
    """What differs in a fork. ``prompt`` is the label of a stored prompt, ``candidates`` are the topics to show, in
    order, ``without`` those that are taken out, ``order`` is a seed that shuffles them; ``reply`` takes the place of
    the model's own in the turn, ``rewrite`` that of the enricher's query, and ``as_of`` is a day or a
    moment (ISO 8601) whose memory is searched."""

    model_config = ConfigDict(extra="forbid")

    query: Annotated[str | None, Field(min_length=1, max_length=LONGEST_QUERY)] = None
    rewrite: Annotated[str | None, Field(min_length=1, max_length=LONGEST_QUERY)] = None
    prompt: Annotated[str | None, Field(max_length=100)] = None
    model: Annotated[str | None, Field(max_length=200)] = None
    parameters: Annotated[dict[str, Any] | None, WithJsonSchema(PARAMETERS)] = None
    candidates: Annotated[list[str | int] | None, Field(max_length=MOST_IDS)] = None
    without: Annotated[list[str | int] | None, Field(max_length=MOST_IDS)] = None
    order: Annotated[int | None, Field(ge=0, le=LARGEST_SEED), NUMBER] = None
    reply: Annotated[str | None, Field(max_length=LONGEST_TEXT)] = None
    as_of: Annotated[str | None, Field(max_length=40)] = None


class ForkBody(StrictBody):
    """Where a fork begins, and what differs in it. Without a turn it begins at the first one, or at 0, before the
    query is rewritten, where a change requires it."""

    model_config = exemplified(turn=2, changes={"parameters": {"max_topics": 5}})

    turn: Annotated[int | None, Field(ge=0, le=LATEST_TURN), NUMBER] = None
    changes: ForkChanges = ForkChanges()


class ListedRun(Answer):
    """A run. ``outcome`` is ``chosen`` or ``none`` where the choice of the model stands, else the code of the fallback;
    empty before the end. A fork has a ``parent``, the ``turn`` at which it began and its ``changes``."""

    run: UUID = Field(validation_alias="id")
    url: PageUrl = Field(validation_alias="id")
    user: str = Field(validation_alias=AliasPath("owner", "name"))
    query: str
    strategy: str
    parameters: dict[str, Any]
    state: Literal["pending", "running", "finished"]
    outcome: str = ""
    asked_at: datetime = Field(validation_alias="created_at")
    finished_at: datetime | None
    parent: UUID | None = Field(None, validation_alias="parent_id")
    turn: int | None = None
    changes: dict[str, Any] = {}


class RunsAnswer(Answer):
    """Runs, the newest first; ``next`` is the ``before`` of the following page, or null."""

    runs: list[ListedRun]
    next: UUID | None


class RunAnswer(ListedRun):
    """A run. Once it is finished, it contains everything that ``POST /v1/recall`` answers. A fork has a ``parent``,
    the ``turn`` at which it began and its ``changes``."""

    topics: list[ChosenTopic] | None = None
    people: list[ChosenItem] | None = None
    artifacts: list[ChosenItem] | None = None
    context: str | None = None
    handed_over: HandedOver | None = None
    fallback: str | None = None
    unsure: bool | None = None
    cut: bool | None = None
    usage: Usage | None = None


class AnswerBody(StrictBody):
    """What the assistant said with what a run handed over."""

    model_config = exemplified(text="Dasha baked a honey cake with lemon.")

    text: Annotated[str, Field(min_length=1, max_length=LONGEST_TEXT)]


class UseOfChosen(Answer):
    """``how`` the answer uses a chosen item, and in which of its sentences: five of its words in a row are ``quoted``,
    by the embedded scorer it is ``reworded``, a person or a file is ``named``."""

    id: str
    how: Literal["quoted", "reworded", "named"]
    sentence: str


class DeliveredAnswer(Answer):
    """The chosen ids that the answer uses, and those it does not. ``recall`` tells a recall that failed from one that
    found nothing."""

    used: list[str]
    unused: list[str]
    uses: list[UseOfChosen]
    recall: Literal["found", "unsure", "nothing", "failed"]


class CounterfactualAnswer(Answer):
    """A change that was tried, and its result, in words. ``fork`` is the body of a fork that makes it, ``merge`` are
    topics to merge instead; ``rank`` and ``shown`` are those of the topic after a change of the search."""

    change: str
    result: str
    fork: dict[str, Any] | None = Field(None, exclude_if=_is_missing)
    merge: list[str] | None = Field(None, exclude_if=_is_missing)
    rank: int | None = Field(None, exclude_if=_is_missing)
    shown: bool | None = Field(None, exclude_if=_is_missing)


class WhyNotAnswer(Answer):
    """The ``stage`` that lost what was asked about, the ``topic`` as the run met it (a person or a file keeps its id),
    and the ``numbers`` that decided. ``now`` are the topics that hold it today, ``others`` further ones that say the
    same or nearly, ``seq`` is the event that lost it."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "stage": "beyond_candidates",
                "topic": "Topic:42",
                "sentence": "Topic:42 was ranked #61, and only the first 50 were shown to the model.",
                "numbers": {"rank": 61, "shown": 50},
                "counterfactuals": [
                    {
                        "change": "75 candidates",
                        "result": "it would be #61, and the model would see it",
                        "fork": {"turn": 1, "changes": {"parameters": {"candidates": 75}}},
                    }
                ],
                "now": ["Topic:42"],
                "others": ["Topic:7"],
                "seq": 3,
            }
        }
    )

    stage: Stage
    topic: Annotated[str | None, _NOTHING_IS_NULL]
    sentence: str
    numbers: dict[str, Any]
    counterfactuals: list[CounterfactualAnswer]
    now: list[str]
    others: list[str] = []
    seq: Annotated[int | None, _NOTHING_IS_NULL]


class FirstDivergence(Answer):
    """Where the first two runs, A and B, first differ; ``none`` if they did the same."""

    stage: Literal["query", "rewrite", "search", "filter", "turn", "tools", "choice", "answer", "words", "none"]
    turn: int | None = Field(None, exclude_if=_is_missing)
    sentence: str


class ComparedTopicAnswer(Answer):
    """What became of a topic ``in`` each run, by the run's id, and its ``ranks``. Ids of one lineage are one topic:
    ``met_as`` names those under which a run met it, ``now`` the live ones of a topic that is retired."""

    id: str
    in_: dict[_RunId, State] = Field(alias="in", validation_alias=AliasChoices("states", "in"))
    ranks: dict[_RunId, int]
    met_as: dict[_RunId, list[str]]
    now: list[str] = Field(validation_alias=AliasPath("lineage", "now"))
    summary: str = Field(validation_alias=AliasPath("lineage", "summary"))


class ComparisonAnswer(Answer):
    """Runs of one memory side by side."""

    first_divergence: FirstDivergence = Field(validation_alias="divergence")
    runs: list[Annotated[UUID, BeforeValidator(lambda run: getattr(run, "pk", run))]]
    topics: list[ComparedTopicAnswer]


class CapsuleAnswer(Answer):
    """A run that another installation opens: its ``events`` in order, and in ``talks`` the messages of what was read or
    chosen, by id. ``masked`` counts what was masked, by kind."""

    format: Literal["mnemoscope-run"]
    version: Literal[1]
    run: dict[str, Any]
    events: list[dict[str, Any]]
    talks: dict[str, list[dict[str, Any]]]
    masked: dict[str, int]
