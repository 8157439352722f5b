"""What a strategy is asked, and the ports through which it reaches the memory and the models.

A strategy knows neither database nor settings: it is handed callables that are bound to one owner and to the seconds
of one run. Replaying a run, caching what was read and keeping the query's vector happen behind them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Generic, Protocol, TypeVar

from memoryapp.engine.budget import Budget
from memoryapp.engine.chat.media import MediaContent
from memoryapp.engine.chat.protocol import Chat
from memoryapp.engine.events import CandidatesFound, QueryEnriched, Retried, SteppedDown
from memoryapp.engine.fusion import Fusion, fuse
from memoryapp.engine.memory import ANYWHERE, Background, MessageContent, ReadTopics, Where
from memoryapp.engine.parameters import Parameters
from memoryapp.engine.prompts import PromptBook

Own = TypeVar("Own", bound=Parameters)


@dataclass(frozen=True, slots=True)
class StrategyRequest(Generic[Own]):
    """One question to one memory, with the strategy's own parameters.

    ``variables`` replace those that a rerank prompt would be filled with: a run that is tried again sends its model
    the same whatever has changed since.
    """

    query: str
    parameters: Own
    today: date
    background: Background
    prompts: PromptBook
    media: tuple[MediaContent, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FoundPassage:
    """A passage that search ranked, best first: its text, and the messages it lies in, oldest first.

    ``score`` is ``fused`` mapped into (0, 1); ``topics`` are the numbers of the live topics that hold its messages.
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
    """What a search brought: candidates as their event tells them, topic ids in plain vector order, passages.

    ``rarity`` is the idf, over all passages, of each stem of the query that any of them holds.
    """

    event: CandidatesFound
    baseline: tuple[str, ...]
    passages: tuple[FoundPassage, ...] = ()
    rarity: Mapping[str, float] = field(default_factory=dict)


class FindCandidates(Protocol):
    """Compare everything the owner has with the query. Raises SearchTimeout when the run's seconds are over.

    ``fusion`` makes one order out of meaning and words; the best ``passages`` are read too, as many as asked for.
    Topics and passages are found by messages that ``where`` lets through; what the run itself sets goes before it.
    """

    def __call__(self, *, fusion: Fusion = fuse, passages: int = 0, where: Where = ANYWHERE) -> Awaitable[Found]: ...


@dataclass(frozen=True, slots=True)
class PreparedSearch:
    """A search whose vectors are made. ``line`` is the query as it will be compared: an unrelated rewrite is gone."""

    line: QueryEnriched
    find: FindCandidates


class SearchTimeout(Exception):
    """The time of the run was over before search had found anything."""


Enrich = Callable[[], AsyncGenerator[Retried | SteppedDown | QueryEnriched, None]]
PrepareSearch = Callable[[QueryEnriched], Awaitable[PreparedSearch]]
ReadMessages = Callable[[Sequence[int]], Awaitable[Sequence[MessageContent]]]


@dataclass(frozen=True, slots=True)
class RerankScores:
    """How likely each text answers a query, in (0, 1) or as a cross-encoder scores, higher is better.

    ``by`` names the cross-encoder, empty for the embedded scorer; ``failure`` says in words why that stood in for one.
    """

    scores: Sequence[float]
    by: str = ""
    failure: str = ""


ScoreTexts = Callable[[str, Sequence[str]], Awaitable[RerankScores]]


@dataclass(frozen=True, slots=True)
class Ports:
    """Everything a strategy may call, for one run.

    ``enrich`` yields what the endpoint does on the way and ends with the rewritten query. ``search`` makes a query's
    vectors and returns the search that is ready. ``read_topics`` and ``read_messages`` take row numbers and return
    what the owner still has of them, in that order. ``rerank_scores`` asks the cross-encoder, or else the embedded
    scorer. ``budget`` holds the seconds that the run has left. ``writer`` is the model that may be asked for words,
    None where none is connected or models are switched off.
    """

    chat: Chat
    enrich: Enrich
    search: PrepareSearch
    read_topics: ReadTopics
    read_messages: ReadMessages
    rerank_scores: ScoreTexts
    budget: Budget
    writer: Chat | None = None
