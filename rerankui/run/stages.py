"""What a run does after each of its events, in words: live it is what goes on, in a replay what went on then."""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.translation import gettext as _

from memoryapp.engine.events import (
    CandidatesFound,
    Event,
    Filtered,
    ModelReplied,
    QueryEnriched,
    Retried,
    RunFinished,
    RunStarted,
    TopicsRead,
    TurnStarted,
)
from memoryapp.engine.kinds.react import Answered, StepStarted, ToolUsed
from memoryapp.engine.strategies import needs_model


@dataclass(frozen=True, slots=True)
class Stage:
    """``name`` is wait, enrich, search, turn or read, and empty when the run is over."""

    name: str
    words: str


def stage_after(event: Event | None, turn: int = 0) -> Stage:
    """The stage that begins with this event of that turn; before the first event a process is waited for."""
    match event:
        case None:
            return Stage("wait", _("Waiting for a process to begin this run…"))
        case RunStarted() if needs_model(event.strategy):
            return Stage("enrich", _("Rewriting the query…"))
        case RunStarted() | QueryEnriched():
            return Stage("search", _("Searching the memory…"))
        case CandidatesFound():
            return Stage("turn", _("Asking the model…"))
        case Filtered():
            return Stage("turn", _("Filtering…"))
        case Retried():
            return Stage("turn", _("Turn %(n)d: trying again") % {"n": turn})
        case ModelReplied(tool_calls=()):
            return Stage("turn", _("Checking the answer…"))
        case ModelReplied() | TopicsRead():
            return Stage("read", _("Reading topics…"))
        case RunFinished():
            return Stage("", "")
        case _:
            return _agents_stage(event, turn)


def _agents_stage(event: Event, turn: int) -> Stage:
    match event:
        case StepStarted(phase="answer"):
            return Stage("turn", _("Answering…"))
        case StepStarted(phase="plan"):
            return Stage("turn", _("Planning…"))
        case Answered():
            return Stage("turn", _("Locating the sources…"))
        case StepStarted() | ToolUsed():
            return Stage("search", _("Working with tools…"))
        case _:
            return Stage("turn", _("Turn %(n)d: thinking") % {"n": turn})


def turn_of(event: Event) -> int | None:
    """The turn that the event tells the number of."""
    return event.turn if isinstance(event, TurnStarted | ModelReplied | TopicsRead) else None
