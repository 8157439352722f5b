"""The events of a run at a glance: those that there is one of, the replies of its model, and what they cost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from memoryapp.engine.budget import Usage
from memoryapp.engine.candidates import Candidate, ItemCandidate
from memoryapp.engine.events import (
    CandidatesFound,
    Event,
    ModelReplied,
    QueryEnriched,
    RunFinished,
    RunStarted,
    Selected,
    TopicsRead,
    Totals,
    TurnStarted,
)

_Kind = TypeVar("_Kind", RunStarted, QueryEnriched, CandidatesFound, TurnStarted)


@dataclass(frozen=True, slots=True)
class Outline:
    """Each event is None where the run did not come to it; ``turn`` is the first turn.

    A run whose events were lost may lack any of them, also those before others that are there.
    """

    started: RunStarted | None = None
    enriched: QueryEnriched | None = None
    found: CandidatesFound | None = None
    turn: TurnStarted | None = None
    replies: tuple[ModelReplied, ...] = ()
    finished: RunFinished | None = None

    @classmethod
    def of(cls, events: Sequence[Event]) -> Outline:
        last = events[-1] if events else None
        return cls(
            started=_first(events, RunStarted),
            enriched=_first(events, QueryEnriched),
            found=_first(events, CandidatesFound),
            turn=_first(events, TurnStarted),
            replies=tuple(event for event in events if isinstance(event, ModelReplied)),
            finished=last if isinstance(last, RunFinished) else None,
        )

    def topic(self, id: str) -> Candidate | None:
        """The topic of that id as it was found."""
        return next((each for each in (self.found.ranked() if self.found else ()) if each.id == id), None)

    def item(self, id: str) -> ItemCandidate | None:
        """The person or artifact of that id as it was found."""
        found = (*self.found.people, *self.found.artifacts) if self.found else ()
        return next((each for each in found if each.id == id), None)

    def selected(self, id: str) -> Selected | None:
        """The topic, person or artifact of that id as it was chosen, or used instead of a choice."""
        ended = self.finished
        chosen = (*ended.selected, *ended.people, *ended.artifacts) if ended else ()
        return next((each for each in chosen if each.id == id), None)


def _first(events: Iterable[Event], kind: type[_Kind]) -> _Kind | None:
    return next((event for event in events if isinstance(event, kind)), None)


def read_in(events: Iterable[Event]) -> set[str]:
    """The ids of the topics that a model read in a run."""
    return {topic.id for event in events if isinstance(event, TopicsRead) for topic in event.read}


def summarise(events: Iterable[Event]) -> Totals:
    """Totals over a run's events; seconds are those the stages report."""
    spent, turns, tool_calls, seconds = Usage(), 0, 0, 0.0
    for event in events:
        if isinstance(event, QueryEnriched | ModelReplied):
            spent += event.usage
        if isinstance(event, ModelReplied):
            turns += 1
            tool_calls += len(event.tool_calls)
        if isinstance(event, QueryEnriched | ModelReplied | CandidatesFound):
            seconds += event.seconds
    return Totals(spent.input_tokens, spent.output_tokens, spent.cost_usd, seconds, turns, tool_calls)
