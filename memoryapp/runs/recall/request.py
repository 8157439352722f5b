"""What a run is asked: one question to one chat user's memory, with everything that is known before a model is."""

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
    """What a run takes from the one it tries again. What is None or empty is made anew.

    ``baseline`` is the plain vector order of ``found``; the variables are sent as they were, whatever has changed.
    """

    query: QueryEnriched | None = None
    found: CandidatesFound | None = None
    baseline: tuple[str, ...] = ()
    enrich_variables: Mapping[str, str] = field(default_factory=dict)
    rerank_variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RecallRequest:
    """``parameters`` are those of the strategy.

    ``messages`` are the running conversation, None is the active session; those the memory holds have their number
    there. ``replayed`` is taken from the run ``parent``, which this one tries again. With ``run_id`` the query's
    vector is kept. ``edit`` is the last one of the owner's topics, None where it is not known.
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
        """The part that a strategy is handed."""
        return StrategyRequest(
            query=self.query,
            parameters=self.parameters,
            today=self.today,
            background=self.background,
            prompts=self.prompts,
            media=self.media,
            variables=self.replayed.rerank_variables,
        )
