"""A run in a few lines, for the overview: what was asked, found, thought, read and chosen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from memoryapp.engine.events import CandidatesFound, Event, ModelReplied, RunFinished, Selected, TopicsRead
from memoryapp.models import ChatUser, Run
from memoryapp.runs import followers

MOST_CHOSEN = 2
MOST_READ = 5


@dataclass(frozen=True, slots=True)
class PlayedStep:
    """One line. ``kind`` is found, thought, read or chosen; ``ids`` are topics, ``seconds`` what the step took."""

    kind: str
    text: str = ""
    ids: tuple[str, ...] = ()
    count: int = 0
    seconds: float = 0.0
    quote: str = ""


@dataclass(frozen=True, slots=True)
class PlayedRun:
    run: Run
    steps: tuple[PlayedStep, ...]


def played_run(owner: ChatUser) -> PlayedRun | None:
    """The latest run of this memory that chose topics, as steps; None if there is none, or if it cannot be read.

    No fork: what it replays from its parent took no time, and tells nothing of how long a run takes.
    """
    runs = (
        Run.objects.of(owner)
        .by_hand()
        .made_here()
        .filter(state=Run.State.FINISHED, fallback="", selected_count__gt=0, parent=None)
    )
    run = runs.select_related("owner").order_by("-created_at", "-id").first()
    if run is None:
        return None
    try:
        events = [item.event for item in followers.stored(run.pk)]
    except ValueError:
        return None
    return PlayedRun(run, tuple(step for event in events for step in _steps(event)))


def _steps(event: Event) -> Iterator[PlayedStep]:
    if isinstance(event, CandidatesFound):
        yield PlayedStep("found", count=len(event.shown), seconds=event.seconds)
    elif isinstance(event, ModelReplied) and event.reasoning:
        yield PlayedStep("thought", event.reasoning, seconds=event.seconds)
    elif isinstance(event, TopicsRead):
        yield PlayedStep("read", ids=tuple(each.id for each in event.read[:MOST_READ]), count=len(event.read))
    elif isinstance(event, RunFinished):
        yield from map(_chosen, event.selected[:MOST_CHOSEN])


def _chosen(selected: Selected) -> PlayedStep:
    quote = next((piece.text for piece in selected.excerpt), "")
    return PlayedStep("chosen", selected.reason, (selected.id,), quote=quote)
