"""What a run does after each of its events, in words: in a live run now, in a replay at that time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from memoryapp.engine.events import Event, RunStarted
from memoryapp.engine.kinds.kind import Activity
from memoryapp.engine.strategies import needs_model

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

# The part of the page that shows it, and its words.
_DOES: Mapping[Activity, tuple[str, StrOrPromise]] = {
    "enrich": ("enrich", gettext_lazy("Rewriting the query…")),
    "search": ("search", gettext_lazy("Searching the memory…")),
    "tools": ("search", gettext_lazy("Working with tools…")),
    "read": ("read", gettext_lazy("Reading topics…")),
    "turn": ("turn", gettext_lazy("Turn %(n)d: thinking")),
    "ask": ("turn", gettext_lazy("Asking the model…")),
    "retry": ("turn", gettext_lazy("Turn %(n)d: trying again")),
    "filter": ("turn", gettext_lazy("Filtering…")),
    "plan": ("turn", gettext_lazy("Planning…")),
    "check": ("turn", gettext_lazy("Checking the answer…")),
    "answer": ("turn", gettext_lazy("Answering…")),
    "locate": ("turn", gettext_lazy("Locating the sources…")),
    "": ("", ""),
}


@dataclass(frozen=True, slots=True)
class RunActivity:
    """``name`` is wait, enrich, search, turn or read, and empty when the run is over."""

    name: str
    words: str


def activity_after(event: Event | None, turn: int = 0) -> RunActivity:
    """The activity that begins with this event of that turn; before the first event the run waits for a process."""
    if event is None:
        return RunActivity("wait", _("Waiting for a process to begin this run…"))
    is_searched_as_typed = isinstance(event, RunStarted) and not needs_model(event.strategy)
    name, words = _DOES["search" if is_searched_as_typed else event.activity()]
    return RunActivity(name, str(words) % {"n": turn})


def turn_of(event: Event) -> int | None:
    """Returns the turn whose number the event has, if it belongs to one."""
    return getattr(event, "turn", None)
