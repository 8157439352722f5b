"""What a run does after each of its events, in words: in a live run now, in a replay at that time."""

from __future__ import annotations

from dataclasses import dataclass, replace

from django.utils.translation import gettext as _

from memoryapp.engine.events import CandidatesFound, Event, ModelReplied, Retried, RunStarted
from memoryapp.engine.kinds.filter import Filtered
from memoryapp.engine.kinds.kind import Activity
from memoryapp.engine.kinds.react import Answered, StepStarted, ToolUsed
from memoryapp.engine.strategies import needs_model


@dataclass(frozen=True, slots=True)
class RunActivity:
    """``name`` is wait, enrich, search, turn or read, and empty when the run is over."""

    name: str
    words: str


def activity_after(event: Event | None, turn: int = 0) -> RunActivity:
    """The activity that begins with this event of that turn; before the first event the run waits for a process."""
    if event is None:
        return RunActivity("wait", _("Waiting for a process to begin this run…"))
    match event:
        case RunStarted() if not needs_model(event.strategy):
            return _activity("search", turn)
        case ModelReplied(tool_calls=()):
            return RunActivity("turn", _("Checking the answer…"))
        case StepStarted(phase="answer"):
            return RunActivity("turn", _("Answering…"))
        case StepStarted(phase="plan"):
            return RunActivity("turn", _("Planning…"))
        case _:
            doing = _activity(event.then, turn)
            return replace(doing, words=_words(event, turn) or doing.words)


def _words(event: Event, turn: int) -> str:
    """What happens after this event, where that is more than its activity."""
    match event:
        case CandidatesFound():
            return _("Asking the model…")
        case Filtered():
            return _("Filtering…")
        case Retried():
            return _("Turn %(n)d: trying again") % {"n": turn}
        case Answered():
            return _("Locating the sources…")
        case StepStarted() | ToolUsed():
            return _("Working with tools…")
        case _:
            return ""


def _activity(name: Activity, turn: int) -> RunActivity:
    words = {
        "enrich": _("Rewriting the query…"),
        "search": _("Searching the memory…"),
        "read": _("Reading topics…"),
        "turn": _("Turn %(n)d: thinking") % {"n": turn},
    }
    return RunActivity(name, words.get(name, ""))


def turn_of(event: Event) -> int | None:
    """Returns the turn whose number the event has, if it belongs to one."""
    return getattr(event, "turn", None)
