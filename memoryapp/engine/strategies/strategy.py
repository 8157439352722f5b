"""A strategy as a value: its name, what can be set on it, the prompts it fills, and the generator of its events."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal

from memoryapp.engine.candidates import BASELINE, RANKED
from memoryapp.engine.context import TopicsText, topics_text
from memoryapp.engine.events import Event, ModelProgress
from memoryapp.engine.outline import Outline
from memoryapp.engine.strategies.ports import Own, Ports, StrategyRequest


@dataclass(frozen=True, slots=True)
class Ranking:
    """The order of topics that a strategy is measured by, and how many of them a run records."""

    most: int
    ids: Callable[[Outline], Sequence[str]]


def _fused(outline: Outline) -> Sequence[str]:
    return [candidate.id for candidate in outline.found.ranked()] if outline.found else ()


def _nearest(outline: Outline) -> Sequence[str]:
    return outline.finished.baseline if outline.finished else ()


FUSED = Ranking(RANKED, _fused)
NEAREST = Ranking(BASELINE, _nearest)


@dataclass(frozen=True, slots=True)
class Strategy(Generic[Own]):
    """``recall`` yields the events behind ``RunStarted`` up to ``RunFinished``, which comes last.

    It leaves the context and the totals of ``RunFinished`` empty: the run adds them. A run is labelled with the first
    of its ``prompts``. A strategy that ``needs_model`` is stood in for by the nearest topics while models are
    switched off. ``context`` makes the text of the chosen topics that the chat model is handed.
    One that ``answers`` ends in words; one that ``plans`` chooses its own steps, which a program may switch off.
    ``calibrated`` holds the defaults of parameters that are others with an embedding profile, by its name.
    """

    name: str
    recall: Callable[[StrategyRequest[Own], Ports], AsyncIterator[Event | ModelProgress]]
    parameters: type[Own]
    prompts: tuple[Literal["rerank", "enrich", "plan", "answer", "expand"], ...] = ()
    needs_model: bool = False
    answers: bool = False
    plans: bool = False
    ranking: Ranking = FUSED
    context: TopicsText = topics_text
    calibrated: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


AnyStrategy = Strategy[Any]
