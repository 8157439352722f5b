"""The bodies and answers of runs, and of what is asked of them."""

from __future__ import annotations

from datetime import datetime
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, Literal
from uuid import UUID

from pydantic import (
    AliasChoices,
    AliasPath,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    RootModel,
    WithJsonSchema,
    create_model,
)

from memoryapp.doors.api.shapes import fields
from memoryapp.doors.api.shapes.curation import MessageInTopic
from memoryapp.engine.events import KINDS
from memoryapp.engine.notes import english
from memoryapp.engine.strategies import DEFAULT
from memoryapp.insight.compare.comparison import State
from memoryapp.insight.explain.fate import Stage
from memoryapp.runs.replays import LARGEST_SEED, LONGEST_QUERY, LONGEST_TEXT

# The body and answer of ``POST /v1/recall``.

MOST_MEDIA = 10
# As a text with a pattern: clients that are made from the description would otherwise need a name for each value.
Included = Annotated[
    Literal["messages", "passages"], WithJsonSchema({"type": "string", "pattern": "^(?:messages|passages)$"})
]

HandedOver = Literal["passages", "topics"]
Turn = Annotated[dict[str, Any], WithJsonSchema(fields.TURN)]
Part = Annotated[dict[str, Any], WithJsonSchema(fields.PART)]
Conversation = Annotated[
    list[Turn] | None,
    Field(json_schema_extra={"maxItems": fields.LONGEST_CONVERSATION}),
    fields.at_most(
        fields.LONGEST_CONVERSATION,
        f"At most {fields.LONGEST_CONVERSATION} messages of the conversation: send its last ones.",
    ),
]
SentMedia = Annotated[
    list[Part],
    Field(json_schema_extra={"maxItems": MOST_MEDIA}),
    fields.at_most(MOST_MEDIA, f"At most {MOST_MEDIA} media a question."),
]


class RecallBody(fields.StrictBody):
    """A query to one memory. With a ``project`` it sees what belongs to that one or is common to all, and nothing else.

    ``messages`` are the end of the running conversation, up to 200 messages, oldest first; models read the last ten.
    Without them, the stored messages that are in no topic yet are used. ``media`` are OpenAI's content parts, with the
    content embedded as base64. ``include`` names what else the answer shall contain: the messages of chosen
    topics, or the passages that answer. ``as_of`` is a day or a moment (ISO 8601) whose topics, people and facts are
    searched, not by strategies that answer in words."""

    model_config = fields.exemplified(
        user="anna", query="What did I decide about the GPU?", parameters={"max_topics": 5}
    )

    user: fields.KnownName
    query: fields.Query
    project: fields.Project = ""
    messages: Conversation = None
    media: SentMedia = []
    strategy: Annotated[str, WithJsonSchema(fields.STRATEGY)] = DEFAULT.name
    parameters: Annotated[dict[str, Any], WithJsonSchema(fields.PARAMETERS)] = {}
    include: Annotated[list[Included], Field(max_length=2)] = []
    as_of: Annotated[str | None, Field(max_length=40)] = None


# Values of the domain have an empty text or 0 where an answer has null.
NOTHING_IS_NULL = BeforeValidator(lambda value: value or None)


def _is_none(value: Any) -> bool:
    return value is None


_WHERE_GIVEN: Any = Field(None, exclude_if=_is_none)


def of(part: str, name: str, default: Any = ...) -> Any:
    """Returns the field that is read from a part of the value; where that has none it is not sent."""
    alias = AliasPath(part, name)
    return (
        Field(None, validation_alias=alias, exclude_if=_is_none)
        if default is None
        else Field(default, validation_alias=alias)
    )


class ChosenTopic(fields.Answer):
    """A chosen topic: ``rank`` from 1, ``score`` between 0 and 1, and an ``excerpt`` quoted from its messages, if any.

    ``read`` is true if the model read the topic's messages, false if it saw only the line of the candidate. ``pinned``
    topics are handed over with every recall; their score is 0 if this query did not find them. Summary,
    times and count are missing if the topic was erased meanwhile. ``messages`` and ``passages`` (the messages around
    what answers, long ones cut) are there if ``include`` names them."""

    id: str = of("selected", "id")
    rank: int = of("selected", "rank")
    reason: str = of("selected", "reason")
    score: float = of("selected", "score")
    read: bool
    pinned: bool = of("selected", "pinned", False)
    summary: str | None = of("head", "summary", None)
    first_at: datetime | None = of("head", "started_at", None)
    last_at: datetime | None = of("head", "ended_at", None)
    message_count: int | None = of("head", "message_count", None)
    excerpt: str | None = _WHERE_GIVEN
    messages: list[MessageInTopic] | None = _WHERE_GIVEN
    passages: list[MessageInTopic] | None = _WHERE_GIVEN


class ChosenItem(fields.Answer):
    """A chosen person or file."""

    id: str = of("selected", "id")
    rank: int = of("selected", "rank")
    reason: str = of("selected", "reason")
    score: float = of("selected", "score")
    name: str = ""


class Usage(fields.Answer):
    """What a run cost: tokens, US dollars, seconds, and how often a model was asked and called a tool."""

    input_tokens: int
    output_tokens: int
    cost_usd: float
    seconds: float
    turns: int
    tool_calls: int


class RecallAnswer(fields.Answer):
    """What was chosen, best first, and the context for the chat model; ``fallback`` is null if a model chose.

    ``handed_over`` says what of the chosen topics the context holds: the passages around what answers, or whole topics.
    ``unsure``: nothing was chosen without doubt; the nearest passages stand in the context as possibly related.
    ``note`` says why nothing was chosen, in English. ``cut``: the model's answer ran into its limit of tokens."""

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
                "note": "",
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

    run: UUID = of("run", "pk")
    url: fields.PageUrl = of("run", "pk")
    topics: list[ChosenTopic]
    people: list[ChosenItem]
    artifacts: list[ChosenItem]
    context: str
    handed_over: HandedOver
    fallback: Annotated[str | None, NOTHING_IS_NULL] = of("finished", "fallback")
    unsure: Annotated[bool, BeforeValidator(bool)] = of("finished", "unsure")
    note: Annotated[str, BeforeValidator(english)] = of("finished", "notes")
    cut: bool = of("finished", "cut")
    usage: Usage


MOST_IDS = 200
LATEST_TURN = 10_000
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
    parameters: Annotated[dict[str, Any] | None, WithJsonSchema(fields.PARAMETERS)] = None
    candidates: Annotated[list[str | int] | None, Field(max_length=MOST_IDS)] = None
    without: Annotated[list[str | int] | None, Field(max_length=MOST_IDS)] = None
    order: Annotated[int | None, Field(ge=0, le=LARGEST_SEED), fields.NUMBER] = None
    reply: Annotated[str | None, Field(max_length=LONGEST_TEXT)] = None
    as_of: Annotated[str | None, Field(max_length=40)] = None


class ForkBody(fields.StrictBody):
    """Where a fork begins, and what differs in it. Without a turn it begins at the first one, or at 0, before the
    query is rewritten, where a change requires it."""

    model_config = fields.exemplified(turn=2, changes={"parameters": {"max_topics": 5}})

    turn: Annotated[int | None, Field(ge=0, le=LATEST_TURN), fields.NUMBER] = None
    changes: ForkChanges = ForkChanges()


class ListedRun(fields.Answer):
    """A run. ``outcome`` is ``chosen`` or ``none`` where the choice of the model stands, else the code of the fallback;
    empty before the end. A fork has a ``parent``, the ``turn`` at which it began and its ``changes``."""

    run: UUID = Field(validation_alias="id")
    url: fields.PageUrl = Field(validation_alias="id")
    user: str = Field(validation_alias=AliasPath("owner", "name"))
    query: str
    project: str
    strategy: str
    parameters: dict[str, Any]
    state: Literal["pending", "running", "finished"]
    outcome: str = ""
    asked_at: datetime = Field(validation_alias="created_at")
    finished_at: datetime | None
    parent: UUID | None = Field(None, validation_alias="parent_id")
    turn: int | None = None
    changes: dict[str, Any] = {}


class RunsAnswer(fields.Answer):
    """Runs, the newest first; ``next`` is the ``before`` of the following page, or null."""

    runs: list[ListedRun]
    next: UUID | None


if TYPE_CHECKING:
    RunAnswer = ListedRun
else:
    # Once the run is finished, it has every field of ``RecallAnswer``.
    RunAnswer = create_model(
        "RunAnswer",
        __base__=ListedRun,
        __doc__="A run. Once it is finished, it contains everything that ``POST /v1/recall`` answers. A fork has a"
        " ``parent``,\n    the ``turn`` at which it began and its ``changes``.",
        **{
            name: (field.annotation | None, None)
            for name, field in RecallAnswer.model_fields.items()
            if name not in ListedRun.model_fields
        },
    )


class AnswerBody(fields.StrictBody):
    """What the assistant said with what a run handed over."""

    model_config = fields.exemplified(text="Dasha baked a honey cake with lemon.")

    text: Annotated[str, Field(min_length=1, max_length=LONGEST_TEXT)]


class UseOfChosen(fields.Answer):
    """``how`` the answer uses a chosen item, and in which of its sentences: five of its words in a row are ``quoted``,
    by the embedded scorer it is ``reworded``, a person or a file is ``named``."""

    id: str
    how: Literal["quoted", "reworded", "named"]
    sentence: str


class DeliveredAnswer(fields.Answer):
    """The chosen ids that the answer uses, and those it does not. ``recall`` tells a recall that failed from one that
    found nothing."""

    used: list[str]
    unused: list[str]
    uses: list[UseOfChosen]
    recall: Literal["found", "unsure", "nothing", "failed"]


class CounterfactualAnswer(fields.Answer):
    """A change that was tried, and its result, in words. ``fork`` is the body of a fork that makes it, ``merge`` are
    topics to merge instead; ``rank`` and ``shown`` are those of the topic after a change of the search."""

    change: str
    result: str
    fork: dict[str, Any] | None = Field(None, exclude_if=_is_missing)
    merge: list[str] | None = Field(None, exclude_if=_is_missing)
    rank: int | None = Field(None, exclude_if=_is_missing)
    shown: bool | None = Field(None, exclude_if=_is_missing)


class WhyNotAnswer(fields.Answer):
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
    topic: Annotated[str | None, NOTHING_IS_NULL]
    sentence: str
    numbers: dict[str, Any]
    counterfactuals: list[CounterfactualAnswer]
    now: list[str]
    others: list[str] = []
    seq: Annotated[int | None, NOTHING_IS_NULL]


class FirstDivergence(fields.Answer):
    """Where the first two runs, A and B, first differ; ``none`` if they did the same."""

    stage: Literal["query", "rewrite", "search", "filter", "turn", "tools", "choice", "answer", "words", "none"]
    turn: int | None = Field(None, exclude_if=_is_missing)
    sentence: str


class ComparedTopicAnswer(fields.Answer):
    """What became of a topic ``in`` each run, by the run's id, and its ``ranks``. Ids of one lineage are one topic:
    ``met_as`` names those under which a run met it, ``now`` the live ones of a topic that is retired."""

    id: str
    in_: dict[_RunId, State] = Field(alias="in", validation_alias=AliasChoices("states", "in"))
    ranks: dict[_RunId, int]
    met_as: dict[_RunId, list[str]]
    now: list[str] = Field(validation_alias=AliasPath("lineage", "now"))
    summary: str = Field(validation_alias=AliasPath("lineage", "summary"))


class ComparisonAnswer(fields.Answer):
    """Runs of one memory side by side."""

    first_divergence: FirstDivergence = Field(validation_alias="divergence")
    runs: list[Annotated[UUID, BeforeValidator(lambda run: getattr(run, "pk", run))]]
    topics: list[ComparedTopicAnswer]


class CapsuleAnswer(fields.Answer):
    """A run that another installation opens: its ``events`` in order, and in ``talks`` the messages of what was read or
    chosen, by id. ``masked`` counts what was masked, by kind."""

    format: Literal["mnemoscope-run"]
    version: Literal[1]
    run: dict[str, Any]
    events: list[dict[str, Any]]
    talks: dict[str, list[dict[str, Any]]]
    masked: dict[str, int]


# Events as lines of JSON: one shape for each kind, derived from the event's own class.


def _line(kind: str, event: type[Any]) -> type[BaseModel]:
    """Returns the shape of an event of this kind; its ``payload`` is also the data of a server-sent event."""
    of_this_kind: Any = Literal[kind]
    return create_model(
        f"{event.__name__}Line",
        seq=(Annotated[int, Field(ge=1)], ...),
        kind=(of_this_kind, ...),
        at=(datetime, ...),
        payload=(event, ...),
    )


_ANY_LINE = reduce(or_, (_line(kind, event) for kind, event in KINDS.items()))


class EventLine(RootModel[Annotated[_ANY_LINE, Field(discriminator="kind")]]):  # type: ignore[valid-type]
    """``seq`` counts from 1 without gaps; the kind of the last event is ``run_finished``."""


# Traces and the answer to them, as the OpenTelemetry protocol shapes them.

_SPAN = {
    "traceId": "0af7651916cd43dd8448eb211c80319c",
    "spanId": "b7ad6b7169203331",
    "name": "search_memory",
    "startTimeUnixNano": "1790000000000000000",
    "endTimeUnixNano": "1790000000200000000",
    "attributes": [
        {"key": "gen_ai.operation.name", "value": {"stringValue": "search_memory"}},
        {"key": "gen_ai.memory.query.text", "value": {"stringValue": "Who looks after the bees?"}},
        {"key": "user.id", "value": {"stringValue": "anna"}},
    ],
}


class TracesBody(BaseModel):
    """``ExportTraceServiceRequest``, which is read by the protocol's own rules."""

    model_config = fields.exemplified(resourceSpans=[{"scopeSpans": [{"spans": [_SPAN]}]}])

    resourceSpans: list[dict[str, Any]] | None = Field(
        default=[], description="the spans of each resource, by instrumentation scope"
    )


class PartialSuccess(BaseModel):
    rejectedSpans: str = Field(description="how many spans were not taken; a number of 64 bits is a text in JSON")
    errorMessage: str


class TracesAnswer(BaseModel):
    """Empty if everything was taken."""

    partialSuccess: PartialSuccess | None = None
