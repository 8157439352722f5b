"""The input of a run: one query to the memory of a chat user, with all that is known before a model is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any
from uuid import UUID

from memoryapp.engine.chat.media import MediaContent
from memoryapp.engine.events import CandidatesFound, QueryEnriched
from memoryapp.engine.memory import Background, MessageContent
from memoryapp.engine.prompts import PromptBook
from memoryapp.engine.strategies.ports import StrategyRequest
from memoryapp.search.index_cache import Edit


@dataclass(frozen=True, slots=True)
class Replayed:
    """What a run takes from the run it tries again. What is None or empty is computed again.

    ``baseline`` is the plain vector order of ``found``. The variables are sent unchanged, whatever has changed in the
    memory.
    """

    query: QueryEnriched | None = None
    found: CandidatesFound | None = None
    baseline: tuple[str, ...] = ()
    enrich_variables: Mapping[str, str] = field(default_factory=dict)
    rerank_variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RecallRequest:
    """``parameters`` are those of the strategy.

    ``messages`` is the running conversation, None the active session; messages that the memory contains have their
    number there. ``replayed`` comes from the run ``parent``, which this one tries again. With a ``run_id`` the query's
    vector is stored. ``edit`` is the last edit of the owner's topics, None when it is not known.
    """

    owner_id: int
    query: str
    strategy: str
    parameters: Any
    today: date
    background: Background
    prompts: PromptBook
    run_id: UUID | None = None
    edit: Edit = None
    messages: tuple[MessageContent, ...] | None = None
    media: tuple[MediaContent, ...] = ()
    parent: str = ""
    replayed: Replayed = Replayed()

    @property
    def for_strategy(self) -> StrategyRequest[Any]:
        """The part that the strategy receives."""
        return StrategyRequest(
            query=self.query,
            parameters=self.parameters,
            today=self.today,
            background=self.background,
            prompts=self.prompts,
            media=self.media,
            variables=self.replayed.rerank_variables,
        )
