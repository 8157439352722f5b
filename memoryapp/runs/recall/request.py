"""The input of a run: one query to the memory of a chat user, with all that is known before a model is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any, cast
from uuid import UUID

from psycopg_pool import AsyncConnectionPool

from memoryapp.engine.chat.cross_encoder import CrossEncoder
from memoryapp.engine.chat.media import MediaContent
from memoryapp.engine.chat.protocol import Chat, RecordedReply
from memoryapp.engine.embeddings import Embedder
from memoryapp.engine.events import CandidatesFound, QueryEnriched
from memoryapp.engine.memory import AtHand, Background, MessageContent, Where
from memoryapp.engine.parameters import Parameters
from memoryapp.engine.prompts.prompt import PromptBook
from memoryapp.engine.strategies.operators import TypedQuery, typed
from memoryapp.engine.strategies.strategy import StrategyRequest
from memoryapp.search.memory_index import UNKNOWN, IndexCache, Version
from memoryapp.search.retrieval import SearchCache


@dataclass(frozen=True, slots=True)
class Replayed:
    """What a fork takes from its parent. What is None or empty is computed again.

    ``baseline`` is the plain vector order of ``found``. The variables are sent unchanged, whatever has changed in the
    memory. The model's first answers are the ``replies``. ``rewrite`` is searched in place of what the enricher writes.
    ``as_of`` is the moment whose memory is searched."""

    query: QueryEnriched | None = None
    found: CandidatesFound | None = None
    baseline: tuple[str, ...] = ()
    enrich_variables: Mapping[str, str] = field(default_factory=dict)
    rerank_variables: Mapping[str, str] = field(default_factory=dict)
    replies: tuple[RecordedReply, ...] = ()
    rewrite: str = ""
    as_of: str = ""


@dataclass(frozen=True, slots=True)
class RecallRequest:
    """``parameters`` are those of the strategy.

    ``messages`` is the running conversation, None the active session; messages that the memory contains have their
    number there. ``replayed`` comes from the run ``parent``, of which this one is a fork; ``model`` is asked in place
    of the usual one. With a ``run_id`` the query's
    vector is stored. ``version`` is the state of the owner's memory when the run began."""

    owner_id: int
    query: str
    strategy: str
    parameters: Any
    today: date
    background: Background
    prompts: PromptBook
    run_id: UUID | None = None
    version: Version = UNKNOWN
    messages: tuple[MessageContent, ...] | None = None
    media: tuple[MediaContent, ...] = ()
    parent: str = ""
    replayed: Replayed = Replayed()
    model: str = ""

    @property
    def typed(self) -> TypedQuery:
        """The query without the filters that were typed into it, and those filters."""
        return typed(self.query)

    @property
    def where(self) -> Where:
        """The messages that the caller's parameters and the filters typed into the query permit, without what people
        decided never to recall; nothing of this run goes beyond."""
        topics, people = (self.background.numbers(kind, "never") for kind in ("Topic", "Person"))
        never = Where(never_topics=topics, never_people=people, as_of=self.replayed.as_of)
        return cast("Parameters", self.parameters).where.over(self.typed.where).over(never)

    @property
    def at_hand(self) -> AtHand:
        """The conversation that the caller sent along: what is in it need not be found again."""
        sent = self.messages or ()
        return AtHand(tuple(m.id for m in sent if m.id > 0), tuple(dict.fromkeys(m.text for m in sent)))

    @property
    def permitted(self) -> RecallRequest:
        """The request without what its filters do not permit: a summary speaks of all messages of its topic."""
        if not self.where.has_filters:
            return self
        return replace(self, background=replace(self.background, recent_topics=()))

    @property
    def for_strategy(self) -> StrategyRequest[Any]:
        """The part that the strategy receives."""
        return StrategyRequest(
            query=self.typed.text,
            parameters=self.parameters,
            today=self.today,
            background=self.background,
            prompts=self.prompts,
            media=self.media,
            variables=self.replayed.rerank_variables,
            where=self.where,
            unread=self.typed.unread,
        )


# The connections and models that a recall uses, and the caches of its searches.


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallClients:
    """For use in one event loop. ``enricher`` is None without a chat model, ``verifier`` unless answers are judged by
    another model than the one that writes them, ``cross_encoder`` when none is configured. ``index_cache`` keeps what
    searches have read, ``search_cache`` keeps their results."""

    chat: Chat
    enricher: Chat | None
    verifier: Chat | None = None
    embedder: Embedder
    profile_id: int
    pool: AsyncConnectionPool
    index_cache: IndexCache = field(default_factory=IndexCache)
    search_cache: SearchCache = field(default_factory=SearchCache)
    cross_encoder: CrossEncoder | None = None
