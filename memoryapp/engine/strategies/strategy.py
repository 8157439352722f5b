"""A strategy as a value: its name, its parameters, its prompts, and the function that recalls."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any, Generic, Literal, Protocol, TypeVar

from memoryapp.engine.budget import Deadline
from memoryapp.engine.candidates import BASELINE, RANKED, Candidate
from memoryapp.engine.chat.media import MediaContent
from memoryapp.engine.chat.protocol import Chat
from memoryapp.engine.context import TopicsText, passages_text, topics_text
from memoryapp.engine.emit import Emit
from memoryapp.engine.events import RESPELLED, CandidatesFound, QueryEnriched, RunFinished, Selected
from memoryapp.engine.fusion import Fusion, fuse
from memoryapp.engine.memory import ANYWHERE, Background, MessageContent, ReadTopics, Where
from memoryapp.engine.notes import Note, Notes
from memoryapp.engine.outline import Outline
from memoryapp.engine.parameters import Parameters
from memoryapp.engine.prompts.prompt import BuiltInPrompt, PromptBook
from memoryapp.engine.prompts.rerank import RerankRequest

# The input of a strategy, and the ports through which it reaches the memory and the models.
#
# A strategy knows neither database nor settings. It gets functions that are bound to one owner and to the seconds of
# one run. They also replay earlier runs, cache what was read, and store the query's vector.

Own = TypeVar("Own", bound=Parameters)


@dataclass(frozen=True, slots=True)
class StrategyRequest(Generic[Own]):
    """One query to one memory, with the strategy's own parameters.

    ``variables`` replace those of a rerank prompt: a run that is tried again sends its model the same ones, whatever
    has changed since. ``where`` are the filters of a caller or a person, which the ports apply by themselves;
    ``unread`` are filters in the query that could not be read."""

    query: str
    parameters: Own
    today: date
    background: Background
    prompts: PromptBook
    media: tuple[MediaContent, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    where: Where = ANYWHERE
    unread: tuple[str, ...] = ()

    def read_as(self, line: QueryEnriched) -> "StrategyRequest[Own]":
        """The request with the query of a ``line`` in which typos were put right."""
        return replace(self, query=line.enriched) if line.note == RESPELLED else self


@dataclass(frozen=True, slots=True)
class FoundPassage:
    """A passage that a search ranked: its text, and the messages that contain it, oldest first. After a search that is
    restricted, both are without the messages that it does not permit. ``score`` is ``fused`` mapped into (0, 1);
    ``topics`` are the numbers of the live topics with its messages."""

    id: int
    rank: int
    cosine: float
    bm25: float
    fused: float
    score: float
    text: str
    messages: tuple[int, ...]
    topics: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """The result of a search: candidates as an event, topic ids in plain vector order, passages. ``rarity`` is the idf,
    over all passages, of each stem of the query that any of them contains. ``nearness`` is the best cosine as a share
    of the usual one of the embedding model; 0 if that is unknown, or there are no vectors."""

    event: CandidatesFound
    baseline: tuple[str, ...]
    passages: tuple[FoundPassage, ...] = ()
    rarity: Mapping[str, float] = field(default_factory=dict)
    nearness: float = 0.0


class FindCandidates(Protocol):
    """Compares everything the owner has with the query. Raises SearchTimeout when the run's seconds are over.
    ``fusion`` combines meaning and words into one order. As many of the best ``passages`` are read as requested. Only
    messages that ``where`` permits are searched; restrictions of the run itself take precedence."""

    def __call__(self, *, fusion: Fusion = fuse, passages: int = 0, where: Where = ANYWHERE) -> Awaitable[Found]: ...


@dataclass(frozen=True, slots=True)
class PreparedSearch:
    """A search whose vectors are ready, which took ``seconds``. ``line`` is the query as it will be compared; an
    unrelated rewrite was removed from it."""

    line: QueryEnriched
    find: FindCandidates
    seconds: float = 0.0


class SearchTimeout(Exception):
    """The run's time ended before the search had found anything."""


Enrich = Callable[[Emit], Awaitable[QueryEnriched]]
PrepareSearch = Callable[[QueryEnriched], Awaitable[PreparedSearch]]
ReadMessages = Callable[[Sequence[int]], Awaitable[Sequence[MessageContent]]]


@dataclass(frozen=True, slots=True)
class RerankScores:
    """How likely each text answers a query: in (0, 1), or on the scale of a cross-encoder; higher is better. ``by``
    names the cross-encoder; it is empty for the embedded scorer. ``failure`` says why the scorer replaced it."""

    scores: Sequence[float]
    by: str = ""
    failure: str = ""


ScoreTexts = Callable[[str, Sequence[str]], Awaitable[RerankScores]]


@dataclass(frozen=True, slots=True)
class Ports:
    """Everything that a strategy may call, for one run.

    ``enrich`` returns the rewritten query, and emits events of the endpoint. ``search`` makes a query's vectors and
    returns the prepared search. ``read_topics`` and ``read_messages`` take row numbers and return, in that order, what
    the owner still has of them. ``rerank_scores`` asks the cross-encoder, or else the embedded scorer. ``deadline`` is
    that of the whole run: every call of a model gets a part of the seconds ``left``. ``writer`` is the model that may
    write an answer; None when no model is connected or models are switched off. ``judge`` says whether
    its sources say that; None for the writer itself."""

    chat: Chat
    enrich: Enrich
    search: PrepareSearch
    read_topics: ReadTopics
    read_messages: ReadMessages
    rerank_scores: ScoreTexts
    deadline: Deadline
    writer: Chat | None = None
    judge: Chat | None = None


@dataclass(frozen=True, slots=True)
class Ranking:
    """The order of topics by which a strategy is measured, and how many of them a run records."""

    most: int
    ids: Callable[[Outline], Sequence[str]]


FUSED = Ranking(RANKED, lambda outline: [each.id for each in outline.found.candidates] if outline.found else ())
NEAREST = Ranking(BASELINE, lambda outline: outline.finished.baseline if outline.finished else ())


@dataclass(frozen=True, slots=True)
class Strategy(Generic[Own]):
    """``recall`` emits the events after ``RunStarted``, and returns the last event of the run.

    It leaves the context and the totals of ``RunFinished`` empty; the run adds them and emits it. A run is labelled
    with the first of its ``prompts``. When models are switched off, a strategy that ``needs_model`` is replaced by the
    nearest topics. ``context`` makes the text of the selected topics for the chat model, ``passages`` that of their
    passages. A strategy that ``answers`` ends with words. One that ``plans`` chooses its own steps; a setting can
    switch it off. ``calibrated`` holds, by the name of an embedding profile, defaults of parameters that differ for
    that profile."""

    name: str
    recall: Callable[[StrategyRequest[Own], Ports, Emit], Awaitable[RunFinished]]
    parameters: type[Own]
    prompts: tuple[BuiltInPrompt, ...] = ()
    needs_model: bool = False
    answers: bool = False
    plans: bool = False
    ranking: Ranking = FUSED
    context: TopicsText = topics_text
    passages: TopicsText = passages_text
    calibrated: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def text_of(self, context: str) -> TopicsText:
        """What makes the text of the selected topics, by the parameter of that name."""
        return self.passages if context == "passages" else self.context


AnyStrategy = Strategy[Any]


# How a rerank ends: with a selection, with nothing relevant, or with a fallback that replaces the model's choice.
#
# All fallbacks follow one rule: the topics that the model asked to read, or else the nearest by vector. Two outcomes
# stay empty, because nothing that the model wanted can be used. People and artifacts are never added.

Fallback = Literal[
    "all_hallucinated",
    "protocol_violation",
    "parse_error",
    "timeout",
    "turn_timeout",
    "max_tool_calls",
    "llm_error",
    "empty_response",
    "refused",
    "content_filter",
    "disabled",
    "no_candidates",
]
# How many topics are handed over as possibly related.
_UNSURE = 3
_EMPTY: frozenset[Fallback] = frozenset({"all_hallucinated", "no_candidates"})


@dataclass(frozen=True, slots=True)
class Trail:
    """What the model did before the end: candidates it asked for, ids that are no candidates, topics it read."""

    requested: tuple[str, ...] = ()
    hallucinated: tuple[str, ...] = ()
    read: tuple[str, ...] = ()


def chosen(
    request: RerankRequest,
    topics: Sequence[Selected],
    trail: Trail,
    *,
    people: Sequence[Selected] = (),
    artifacts: Sequence[Selected] = (),
) -> RunFinished:
    """The model's own selection; an empty one is respected."""
    notes = () if topics or people or artifacts else (Note("nothing_relevant"),)
    return replace(_finished(request, topics, trail, "", notes), people=tuple(people), artifacts=tuple(artifacts))


def nearest(found: CandidatesFound, *, newest_first: bool = False) -> tuple[Selected, ...]:
    """The topics that the search shows first, of equal scores the newest, in place of a choice of which the embedded
    scorer is not sure; for a question about the present ``newest_first``."""
    shown = sorted((each for each in found.shown if each.passage_id), key=lambda each: each.date, reverse=True)
    best = sorted(shown, key=lambda each: -round(each.score, 2))[:_UNSURE]
    if newest_first:
        best.sort(key=lambda each: each.date, reverse=True)
    return tuple(_selected([each.id for each in best], best, ()))


def fall_back(request: RerankRequest, fallback: Fallback, most: int, trail: Trail | None = None) -> RunFinished:
    """At most ``most`` topics in place of a selection that did not come."""
    trail = trail or Trail()
    # When no topic was near enough to be shown, the nearest would be noise.
    nearest = request.baseline if request.candidates else ()
    ids = () if fallback in _EMPTY else (trail.requested or nearest)[:most]
    instead = "nothing" if not ids else "requested" if trail.requested else "nearest"
    chosen = _selected(ids, request.candidates, request.baseline)
    return _finished(request, chosen, trail, fallback, (Note(fallback, {"instead": instead}),))


def interrupted(found: CandidatesFound, requested: Sequence[str], fallback: str, most: int) -> RunFinished:
    """At most ``most`` topics in place of the selection of a run that ended from outside, by the same rule."""
    ranked = found.candidates
    order = sorted(ranked, key=lambda each: (each.vector_rank or each.rank, each.rank))
    baseline = tuple(each.id for each in order[:BASELINE])
    nearest = baseline if any(each.shown for each in ranked) else ()
    ids = (tuple(requested) or nearest)[:most]
    instead = "nothing" if not ids else "requested" if requested else "nearest"
    return RunFinished(
        selected=tuple(_selected(ids, ranked, baseline)),
        dropped=(),
        fallback=fallback,
        notes=(Note("interrupted_run", {"instead": instead}),),
        requested=tuple(requested),
        baseline=baseline,
    )


def _selected(ids: Sequence[str], candidates: Sequence[Candidate], baseline: Sequence[str]) -> list[Selected]:
    scores = {candidate.id: candidate.score for candidate in candidates}
    vector_ranks = {id: rank for rank, id in enumerate(baseline, start=1)}
    vector_ranks |= {candidate.id: candidate.vector_rank for candidate in candidates}
    return [
        Selected(id=id, rank=rank, reason="", score=scores.get(id, 0.0), vector_rank=vector_ranks[id])
        for rank, id in enumerate(ids, start=1)
    ]


def _finished(
    request: RerankRequest, selected: Sequence[Selected], trail: Trail, fallback: str, notes: Notes
) -> RunFinished:
    ids = {topic.id for topic in selected}
    return RunFinished(
        selected=tuple(selected),
        dropped=tuple(id for id in trail.read if id not in ids),
        fallback=fallback,
        notes=notes,
        requested=trail.requested,
        hallucinated=trail.hallucinated,
        baseline=request.baseline,
    )
