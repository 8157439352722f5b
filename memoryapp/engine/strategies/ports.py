"""The input of a strategy, and the ports through which it reaches the memory and the models.

A strategy knows neither database nor settings. It gets functions that are bound to one owner and to the seconds of one
run. They also replay earlier runs, cache what was read, and store the query's vector.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Generic, Protocol, TypeVar

from memoryapp.engine.budget import Deadline
from memoryapp.engine.chat.media import MediaContent
from memoryapp.engine.chat.protocol import Chat
from memoryapp.engine.emit import Emit
from memoryapp.engine.events import CandidatesFound, QueryEnriched
from memoryapp.engine.fusion import Fusion, fuse
from memoryapp.engine.memory import ANYWHERE, Background, MessageContent, ReadTopics, Where
from memoryapp.engine.parameters import Parameters
from memoryapp.engine.prompts.prompt import PromptBook

Own = TypeVar("Own", bound=Parameters)


@dataclass(frozen=True, slots=True)
class StrategyRequest(Generic[Own]):
    """One query to one memory, with the strategy's own parameters.

    ``variables`` replace those of a rerank prompt: a run that is tried again sends its model the same ones, whatever
    has changed since. ``where`` are the filters of a caller or a person, which the ports apply by themselves;
    ``unread`` are filters in the query that could not be read.
    """

    query: str
    parameters: Own
    today: date
    background: Background
    prompts: PromptBook
    media: tuple[MediaContent, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    where: Where = ANYWHERE
    unread: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FoundPassage:
    """A passage that a search ranked: its text, and the messages that contain it, oldest first. After a search that is
    restricted, both are without the messages that it does not permit.

    ``score`` is ``fused`` mapped into (0, 1); ``topics`` are the numbers of the live topics with its messages.
    """

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
    """The result of a search: candidates as an event, topic ids in plain vector order, passages.

    ``rarity`` is the idf, over all passages, of each stem of the query that any of them contains. ``nearness`` is the
    best cosine as a share of the usual one of the embedding model; 0 if that is unknown, or there are no vectors.
    """

    event: CandidatesFound
    baseline: tuple[str, ...]
    passages: tuple[FoundPassage, ...] = ()
    rarity: Mapping[str, float] = field(default_factory=dict)
    nearness: float = 0.0


class FindCandidates(Protocol):
    """Compares everything the owner has with the query. Raises SearchTimeout when the run's seconds are over.

    ``fusion`` combines meaning and words into one order. As many of the best ``passages`` are read as requested. Only
    messages that ``where`` permits are searched; restrictions of the run itself take precedence.
    """

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
    """How likely each text answers a query: in (0, 1), or on the scale of a cross-encoder; higher is better.

    ``by`` names the cross-encoder; it is empty for the embedded scorer. ``failure`` says why the scorer replaced it.
    """

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
    its sources say that; None for the writer itself.
    """

    chat: Chat
    enrich: Enrich
    search: PrepareSearch
    read_topics: ReadTopics
    read_messages: ReadMessages
    rerank_scores: ScoreTexts
    deadline: Deadline
    writer: Chat | None = None
    judge: Chat | None = None
