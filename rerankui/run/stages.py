"""What a run does after each of its events, in words: in a live run now, in a replay at that time."""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.translation import gettext as _

from memoryapp.engine.events import (
    CandidatesFound,
    Event,
    ModelReplied,
    QueryEnriched,
    Retried,
    RunFinished,
    RunStarted,
    TopicsRead,
    TurnStarted,
)
from memoryapp.engine.kinds.decisions import DecisionsApplied
from memoryapp.engine.kinds.filter import Filtered
from memoryapp.engine.kinds.react import Answered, StepStarted, ToolUsed
from memoryapp.engine.strategies import needs_model


@dataclass(frozen=True, slots=True)
class RunStage:
    """``name`` is wait, enrich, search, turn or read, and empty when the run is over."""

    name: str
    words: str


def stage_after(event: Event | None, turn: int = 0) -> RunStage:
    """The stage that begins with this event of that turn; before the first event the run waits for a process."""
    match event:
        case None:
            return RunStage("wait", _("Waiting for a process to begin this run…"))
        case RunStarted() if needs_model(event.strategy):
            return RunStage("enrich", _("Rewriting the query…"))
        case RunStarted() | QueryEnriched():
            return RunStage("search", _("Searching the memory…"))
        case CandidatesFound():
            return RunStage("turn", _("Asking the model…"))
        case Filtered():
            return RunStage("turn", _("Filtering…"))
        case Retried():
            return RunStage("turn", _("Turn %(n)d: trying again") % {"n": turn})
        case ModelReplied(tool_calls=()):
            return RunStage("turn", _("Checking the answer…"))
        case ModelReplied() | TopicsRead():
            return RunStage("read", _("Reading topics…"))
        case RunFinished():
            return RunStage("", "")
        case _:
            return _agents_stage(event, turn)


def _agents_stage(event: Event, turn: int) -> RunStage:
    match event:
        case StepStarted(phase="answer"):
            return RunStage("turn", _("Answering…"))
        case StepStarted(phase="plan"):
            return RunStage("turn", _("Planning…"))
        case DecisionsApplied():
            return RunStage("enrich", _("Rewriting the query…"))
        case Answered():
            return RunStage("turn", _("Locating the sources…"))
        case StepStarted() | ToolUsed():
            return RunStage("search", _("Working with tools…"))
        case _:
            return RunStage("turn", _("Turn %(n)d: thinking") % {"n": turn})


def turn_of(event: Event) -> int | None:
    """Returns the turn whose number the event has."""
    return event.turn if isinstance(event, TurnStarted | ModelReplied | TopicsRead) else None
