"""A strategy as a value: its name, its parameters, its prompts, and the function that recalls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic

from memoryapp.engine.candidates import BASELINE, RANKED
from memoryapp.engine.context import TopicsText, passages_text, topics_text
from memoryapp.engine.emit import Emit
from memoryapp.engine.events import RunFinished
from memoryapp.engine.outline import Outline
from memoryapp.engine.prompts.prompt import BuiltInPrompt
from memoryapp.engine.strategies.ports import Own, Ports, StrategyRequest


@dataclass(frozen=True, slots=True)
class Ranking:
    """The order of topics by which a strategy is measured, and how many of them a run records."""

    most: int
    ids: Callable[[Outline], Sequence[str]]


def _fused(outline: Outline) -> Sequence[str]:
    return [candidate.id for candidate in outline.found.candidates] if outline.found else ()


def _nearest(outline: Outline) -> Sequence[str]:
    return outline.finished.baseline if outline.finished else ()


FUSED = Ranking(RANKED, _fused)
NEAREST = Ranking(BASELINE, _nearest)


@dataclass(frozen=True, slots=True)
class Strategy(Generic[Own]):
    """``recall`` emits the events after ``RunStarted``, and returns the last event of the run.

    It leaves the context and the totals of ``RunFinished`` empty; the run adds them and emits it. A run is labelled
    with the first of its ``prompts``. When models are switched off, a strategy that ``needs_model`` is replaced by the
    nearest topics. ``context`` makes the text of the selected topics for the chat model, ``passages`` that of their
    passages. A strategy that ``answers`` ends with words. One that ``plans`` chooses its own steps; a setting can
    switch it off. ``calibrated`` holds, by the name of an embedding profile, defaults of parameters that differ for
    that profile.
    """

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
