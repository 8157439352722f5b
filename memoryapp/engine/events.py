"""Every event of a run, defined once.

A rerank is its events: what a strategy yields is stored, and what is stored is shown. Events are frozen values.
``to_payload`` and ``from_payload`` convert them to and from a JSON column, and ``outline.summarise`` computes the
totals of a run from its events. A stored event never changes its meaning: fields may be added with a default, but never
renamed."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from operator import itemgetter
from typing import Any, ClassVar, Literal, cast, get_args

from memoryapp.engine.budget import Usage
from memoryapp.engine.candidates import Candidate, CrossEncoded, ItemCandidate, UnderstoodQuery
from memoryapp.engine.json_values import Code, build, to_text
from memoryapp.engine.kinds.decisions import DecisionsApplied
from memoryapp.engine.kinds.filter import Filtered
from memoryapp.engine.kinds.kind import Activity, ContextPart, EventKind, Piece, ReadTopic, Totals
from memoryapp.engine.kinds.react import Answered, StepStarted, ToolUsed
from memoryapp.engine.notes import Notes
from memoryapp.engine.text.answers import topics_in

# Payloads of ``candidates_found`` as versions up to 0.16 stored them, read in today's form.
#
# Topics that the model was not shown were stored as columns of equal length under ``below``; now they are among the
# ``candidates`` like all others.

_BY_ITSELF = {"terms", "parts", "found_by", "line", "shown"}
_COLUMNS = tuple(each.name for each in fields(Candidate) if each.name not in _BY_ITSELF)


def upgraded(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    """The payload with every candidate in one list, best first; one without columns is returned as it is. Raises
    ValueError for anything that no version stored, such as columns of unequal length: it may come from a file."""
    if "below" not in payload:
        return payload
    rest = {name: value for name, value in payload.items() if name != "below"}
    try:
        every = sorted([*payload.get("candidates", ()), *_one_by_one(payload["below"])], key=itemgetter("rank"))
    except (AttributeError, LookupError, TypeError) as error:
        raise ValueError(f"The candidates that were not shown cannot be read: {error!r}") from error
    return {**rest, "candidates": every}


def _one_by_one(below: Mapping[str, Any]) -> list[dict[str, Any]]:
    columns = {name: below[name] for name in _COLUMNS if below.get(name)}
    terms, parts = below.get("terms", {}), below.get("parts", {})
    found: list[dict[str, Any]] = []
    for place, values in enumerate(zip(*columns.values(), strict=True)):
        row = {"passage_id": 0, **dict(zip(columns, values, strict=True)), "line": "", "shown": False, "found_by": {}}
        added = {name: column[place] for name, column in parts.items() if column[place]}
        found.append({**row, "terms": terms.get(row["id"], {}), "parts": added})
    return found


MediaType = Literal["image", "audio", "file"]


@dataclass(frozen=True, slots=True)
class MediaItem:
    """A file that came with a query, identified by its hash; the bytes are never part of an event."""

    sha256: Code
    type: MediaType
    mime_type: Code
    name: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call that the model made; ``arguments`` is the JSON text as it came."""

    id: Code
    name: Code
    arguments: str


@dataclass(frozen=True, slots=True)
class Selected:
    """A selected item. ``rank`` is the model's order within its kind, from 1; ``score`` is that of the candidate.

    ``unread`` marks a topic that the model selected by its candidate line alone; runs of earlier versions do not say.
    ``pinned`` marks one that somebody pinned: it is selected whatever the query, with score and vector rank 0 where
    the search did not select it."""

    id: str
    rank: int
    reason: str
    score: float
    vector_rank: int
    excerpt: tuple[Piece, ...] = ()
    excerpt_by: Literal["model", "scorer", ""] = ""
    unread: bool = False
    pinned: bool = False


@dataclass(frozen=True, slots=True)
class RunStarted(EventKind, then="enrich"):
    kind: ClassVar[str] = "run_started"
    strategy: Code
    query: str
    parameters: Mapping[Code, Any]
    prompt_version: Code
    model: Code
    profile: Code
    media: tuple[MediaItem, ...] = ()
    parent: Code = ""


# The note of a line in which typos of one letter were put right; it is searched instead of the query.
RESPELLED = "respelled"


@dataclass(frozen=True, slots=True)
class QueryEnriched(EventKind, then="search", told="search", ends="enrich"):
    """The query as search sees it. ``note`` is empty when a model wrote it. Otherwise it is a code that says why the
    raw query is used, followed by a colon and the words of the endpoint, or the rewrite that is ``unrelated`` to the
    conversation; ``cause`` and HTTP's ``status`` say how a model failed. A rewrite is searched together with the query;
    earlier versions searched it alone. ``variables`` are those that filled the prompt."""

    kind: ClassVar[str] = "query_enriched"
    query: str
    enriched: str
    note: str
    seconds: float
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    model: Code = ""
    prompt_version: Code = ""
    variables: Mapping[Code, str] = field(default_factory=dict)
    cause: Code = ""
    status: int = 0

    @property
    def usage(self) -> Usage:
        return Usage(self.input_tokens, self.output_tokens, self.cost_usd)


@dataclass(frozen=True, slots=True)
class CandidatesFound(EventKind, lane="candidates", look="candidates", then="ask", told="compose", ends="search"):
    """The topics that were ranked, best first, up to rank 200; the model saw those that are ``shown``.

    ``passages`` counts the passages that were compared, ``cards`` people and artifacts, which are ranked within their
    own kind.

    ``notes`` say why only words were compared; they are empty when vectors were compared too. Runs of earlier versions
    have ``note`` instead. ``without_vector`` counts the passages that had no vector yet and could be found only by
    their words. ``copies`` maps each topic that was not shown to the topic that says the same. ``cached_seconds`` is
    how long ago another run found this result. ``sessions`` are active sessions, each with its messages.
    ``newest`` is the number of the last message that had arrived, 0 in runs of earlier versions."""

    kind: ClassVar[str] = "candidates_found"
    candidates: tuple[Candidate, ...]
    passages: int
    seconds: float
    note: str = ""
    without_vector: int = 0
    people: tuple[ItemCandidate, ...] = ()
    artifacts: tuple[ItemCandidate, ...] = ()
    cards: int = 0
    notes: Notes = ()
    understood: UnderstoodQuery = UnderstoodQuery()
    cross_encoder: CrossEncoded = CrossEncoded()
    cached_seconds: float | None = None
    copies: Mapping[str, str] = field(default_factory=dict)
    sessions: Mapping[str, Sequence[int]] = field(default_factory=dict)
    newest: int = 0

    @property
    def by_words_alone(self) -> bool:
        """Whether there was no vector of the query."""
        return bool(self.note or self.notes)

    @property
    def shown(self) -> tuple[Candidate, ...]:
        """The topics that the model saw, best first."""
        return tuple(candidate for candidate in self.candidates if candidate.shown)

    def named(self, selected: Iterable[Selected]) -> dict[str, Candidate]:
        """The selected topics as the search found them, by id."""
        wanted = {each.id for each in selected}
        return {candidate.id: candidate for candidate in self.candidates if candidate.id in wanted}


@dataclass(frozen=True, slots=True)
class PromptMessage:
    """A message as the model received it; ``media`` lists the files beside the text."""

    role: Code
    content: str
    media: tuple[MediaItem, ...] = ()


@dataclass(frozen=True, slots=True)
class TurnStarted(EventKind, look="turn", told="model", is_before_wait=True):
    """A call of the model begins. ``prompt`` contains the messages that are new since the previous turn. The first turn
    also names its prompt, such as ``rerank-en-3``, and every variable that filled it."""

    kind: ClassVar[str] = "turn_started"
    turn: int
    tool_choice: Literal["forced", "auto", "none"]
    response_format: Literal["none", "json_object", "json_schema"]
    prompt: tuple[PromptMessage, ...]
    prompt_version: Code = ""
    variables: Mapping[Code, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ModelReplied(EventKind, look="reply", then="read", ends="turn"):
    """The model's answer in one turn. Seconds of wall time, tokens as billed by the provider.

    Cached tokens are part of the input, reasoning tokens of the output. ``refusal`` is what the model wrote when it
    refused to answer, ``status`` the HTTP status of an ``error``, ``notes`` are its codes. ``message`` is what later
    turns send back; it is stored beside the event (``raw_message``), not in its payload."""

    kind: ClassVar[str] = "model_replied"
    turn: int
    text: str
    reasoning: str
    tool_calls: tuple[ToolCall, ...]
    input_tokens: int
    output_tokens: int
    cost_usd: float
    seconds: float
    model: Code
    finish_reason: Code = ""
    error: str = ""
    provider: Code = ""
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    refusal: str = ""
    status: int = 0
    notes: Notes = ()
    message: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @property
    def usage(self) -> Usage:
        return Usage(self.input_tokens, self.output_tokens, self.cost_usd, self.cached_tokens, self.reasoning_tokens)

    @property
    def requested(self) -> list[str]:
        """The topics named in the arguments of the tool calls, as far as they can be read."""
        return [id for call in self.tool_calls for id in topics_in(call.arguments)]

    def activity(self) -> Activity:
        return "read" if self.tool_calls else "check"

    def marks(self) -> Mapping[str, str]:
        return dict.fromkeys(self.requested, "requested")


@dataclass(frozen=True, slots=True)
class TopicsRead(EventKind, look="read", then="read", ends="read"):
    """The result of one tool call. ``omitted`` topics did not fit, ``unknown`` ids are no candidates. ``notes`` say
    what was wrong with the call; runs of earlier versions have ``note`` instead, in words."""

    kind: ClassVar[str] = "topics_read"
    turn: int
    call: Code
    read: tuple[ReadTopic, ...]
    omitted: tuple[ReadTopic, ...]
    unknown: tuple[str, ...]
    size_chars: int
    note: str = ""
    notes: Notes = ()

    def marks(self) -> Mapping[str, str]:
        return {topic.id: "read" for topic in self.read}


@dataclass(frozen=True, slots=True)
class SteppedDown(EventKind, look="warning", is_before_wait=True):
    """The endpoint lacks a capability. ``instead`` is used from now on; for ``media``, only in this run."""

    kind: ClassVar[str] = "stepped_down"
    capability: Code
    instead: Code
    why: str


@dataclass(frozen=True, slots=True)
class Retried(EventKind, look="warning", then="retry", is_before_wait=True):
    """A call failed and is repeated after ``wait`` seconds. ``notes`` are ``why`` as codes; tokens and dollars are what
    the failed attempt was billed, and the turn's ``ModelReplied`` includes them."""

    kind: ClassVar[str] = "retried"
    attempt: int
    why: str
    wait: float
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    notes: Notes = ()


@dataclass(frozen=True, slots=True)
class RunFinished(EventKind, lane="result", look="result", then="", is_before_wait=True):
    """Always the last event of a run.

    ``fallback`` is empty when the model chose; otherwise ``notes`` say what happened (runs of earlier versions have
    ``note``, in words). ``selected`` are topics. ``people`` and ``artifacts`` are selected only by the model, never by
    a fallback. ``rerank_seconds`` is the wall time of the reranker alone; it is 0 without a reranker and in runs of
    earlier versions. ``requested`` lists the candidates that the model asked to read, ``dropped`` those it read but did
    not select, ``hallucinated`` the ids that were no candidates, ``baseline`` the plain vector order. ``stopped_by``
    names the person who stopped the run. ``cut``: the model's answer ran into its limit. ``unsure`` are topics whose
    best passages are handed over as possibly related, because the embedded scorer chose nothing."""

    kind: ClassVar[str] = "run_finished"
    selected: tuple[Selected, ...]
    dropped: tuple[str, ...]
    fallback: Code
    note: str = ""
    requested: tuple[str, ...] = ()
    hallucinated: tuple[str, ...] = ()
    baseline: tuple[str, ...] = ()
    totals: Totals = Totals()
    people: tuple[Selected, ...] = ()
    artifacts: tuple[Selected, ...] = ()
    context: tuple[ContextPart, ...] = ()
    stopped_by: str = ""
    rerank_seconds: float = 0.0
    notes: Notes = ()
    cut: bool = False
    unsure: tuple[Selected, ...] = ()

    def gap(self) -> str:
        return "wait" if self.fallback in ("stopped", "abandoned", "crashed") else "check"

    def marks(self) -> Mapping[str, str]:
        """After a fallback what a model read and what nobody uses stays as it was: no model judged anything."""
        used = [item.id for item in (*self.selected, *self.people, *self.artifacts)]
        if self.fallback:
            return dict.fromkeys(used, "instead")
        return {**dict.fromkeys(self.dropped, "dropped"), **dict.fromkeys(used, "chosen")}


@dataclass(frozen=True, slots=True)
class ModelProgress:
    """The text that the model has sent so far in a turn. It is shown while the turn lasts, and is never an event."""

    turn: int
    text: str
    reasoning: str


Event = (
    RunStarted
    | DecisionsApplied
    | QueryEnriched
    | CandidatesFound
    | TurnStarted
    | ModelReplied
    | TopicsRead
    | Filtered
    | StepStarted
    | ToolUsed
    | Answered
    | SteppedDown
    | Retried
    | RunFinished
)
KINDS: dict[str, type[Any]] = {event.kind: event for event in get_args(Event)}


def to_json(event: Event) -> str:
    """The event as JSON text, without its kind; characters that a database cannot store are replaced."""
    if isinstance(event, ModelReplied):
        return to_text({each.name: getattr(event, each.name) for each in fields(event) if each.name != "message"})
    return to_text(event)


def to_payload(event: Event) -> dict[str, Any]:
    """``to_json`` as a JSON value."""
    return cast(dict[str, Any], json.loads(to_json(event)))


def raw_message(event: Event) -> str:
    """The assistant message of a turn as JSON text, with its keys in the original order; empty when there is none."""
    return to_text(event.message) if isinstance(event, ModelReplied) and event.message else ""


def from_payload(kind: str, payload: Mapping[str, Any]) -> Event:
    """The event stored under ``kind``, by this version or an earlier one. Raises KeyError for an unknown kind."""
    event: Event = build(KINDS[kind], upgraded(payload))
    return event
