"""Rows to HTML, for page and socket alike.

``run_section`` is the only maker of a run's HTML: the page shows it, the socket's first frame is it, and
later frames append the same event partials to its lanes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Any
from uuid import UUID

from django.template.loader import render_to_string
from django.utils import timezone, translation

from memoryapp.engine.candidates import Candidate, ItemCandidate
from memoryapp.engine.events import CandidatesFound, Event, ModelReplied, RunFinished, TurnStarted
from memoryapp.engine.outline import Outline
from memoryapp.engine.strategies import STRATEGIES
from memoryapp.engine.strategies.strategy import NEAREST
from memoryapp.models import Message, Run, RunEvent, RunProgress
from memoryapp.runs import following
from memoryapp.runs.following import StoredEvent
from memoryapp.runs.recall_document import handed_over
from memoryapp.runs.recording import totals_of
from rerankui.run.activity import RunActivity, activity_after, turn_of
from rerankui.run.context_parts import context_parts
from rerankui.run.delivered import delivered_view
from rerankui.run.foreign import missing
from rerankui.run.fork import NO_FORKS, forks_of
from rerankui.run.legend import offered
from rerankui.run.outcomes import outcome
from rerankui.run.result import result_of
from rerankui.run.waterfall import axis, milliseconds


@dataclass(frozen=True, slots=True)
class Seen:
    """What a viewer already has: events up to ``last`` (-1: not even the section), and the model's words up to
    ``spoken_at``."""

    last: int = -1
    spoken_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class SocketFrame:
    """What the socket sends: HTML (empty when there is nothing new), after which the viewer has ``seen``."""

    html: str
    seen: Seen
    finished: bool


@dataclass(frozen=True, slots=True)
class EventView:
    """One event as its partial shows it. ``offset_ms`` counts from the run's first event, ``activity`` begins with it.

    ``is_ahead`` means that the shown step is before this event, ``is_current`` that the shown step is this event and
    not the last one.
    """

    seq: int
    at: datetime
    offset_ms: int
    event: Event
    marks: Mapping[str, str]
    activity: RunActivity
    is_ahead: bool = False
    is_current: bool = False

    @property
    def kind(self) -> str:
        return self.event.kind

    @property
    def lane(self) -> str:
        return self.event.lane

    @property
    def look(self) -> str:
        return self.event.look

    @property
    def is_failed(self) -> bool:
        return isinstance(self.event, ModelReplied) and bool(self.event.error)

    @property
    def turn(self) -> int | None:
        return turn_of(self.event)

    @property
    def template(self) -> str:
        return f"partials/events/{self.kind}.html"

    @property
    def marks_json(self) -> str:
        return json.dumps(self.marks)


def event_views(stored: Sequence[StoredEvent], step: int | None = None) -> list[EventView]:
    """The run as it was after the event ``step``; without it, as it is now."""
    last = stored[-1].seq if stored else 0
    step = last if step is None else step
    views, turn = [], 0
    for item in stored:
        turn = turn_of(item.event) or turn
        views.append(
            EventView(
                seq=item.seq,
                at=item.at,
                offset_ms=milliseconds(stored[0].at, item.at),
                event=item.event,
                marks=item.event.marks(),
                activity=activity_after(item.event, turn),
                is_ahead=item.seq > step,
                is_current=item.seq == step < last,
            )
        )
    return views


def by_similarity(run: Run) -> bool:
    """Whether similarity alone decides in a run of this strategy, so that its candidates are shown by it."""
    strategy = STRATEGIES.get(run.strategy)
    return strategy is not None and strategy.ranking is NEAREST


def step_of(given: str) -> int | None:
    """The step that an address names, or None."""
    return int(given) if given.isdecimal() and len(given) < 9 else None


def states(views: Iterable[EventView]) -> dict[str, str]:
    """Every topic's state after these events: the last mark wins."""
    folded: dict[str, str] = {}
    for view in views:
        folded.update(view.marks)
    return folded


def run_context(
    run: Run,
    stored: Sequence[StoredEvent],
    *,
    step: int | None = None,
    progress: RunProgress | None = None,
    talk: Mapping[int, Message] | None = None,
) -> dict[str, Any]:
    """Everything the run's partials need, in the reader's language.

    ``step`` shows the run as it was after that event, and ``at`` or ``and_at`` ends the addresses of its parts;
    ``progress`` is what the model has said since the last one.
    A run of a file has its messages in ``talk``; then nothing is read from the database.
    ``has_asked`` tells that a model was asked, so that there are turns and tokens to speak of.
    """
    last = stored[-1].seq if stored else 0
    step = min(max(step, 1), last) if step is not None and last else last
    views = event_views(stored, step)
    shown = next((view for view in reversed(views) if view.seq <= step), None)
    events = [item.event for item in stored]
    outline = Outline.of(events)
    found, finished = outline.found, outline.finished
    candidates = _by_id(found)
    totals = totals_of(events)
    return {
        "run": run,
        "views": views,
        "lanes": {lane: [view for view in views if view.lane == lane] for lane in ("candidates", "turns", "result")},
        "last": last,
        "step": step,
        "at": f"?step={step}" if step < last else "",
        "by_similarity": by_similarity(run),
        "and_at": f"&step={step}" if step < last else "",
        "states": states(view for view in views if not view.is_ahead),
        "candidates": candidates,
        "found": found,
        "finished": finished,
        "offered": offered(found, finished),
        "result": result_of(run, finished, candidates, _items(found), talk),
        "outcome": outcome(events),
        "context_parts": context_parts(finished, handed_over(run)),
        "delivered": delivered_view(run, finished) if talk is None else None,
        "progress": progress if progress and _is_going_on(progress, events) else None,
        "missing": missing(run, events),
        "forks": forks_of(run) if talk is None else NO_FORKS,
        "totals": totals,
        "has_asked": totals.input_tokens > 0 or any(isinstance(event, TurnStarted | ModelReplied) for event in events),
        "model": outline.started.model if outline.started else "",
        "axis": axis(stored, timezone.now()),
        "activity": shown.activity if shown else activity_after(None),
        "playhead": shown.offset_ms if shown else 0,
        "is_live": finished is None,
        "opened": "result" if finished and step == last else "turns",
        **{event.kind: event for event in events if event.kind in ("run_started", "query_enriched")},
    }


def _by_id(found: CandidatesFound | None) -> dict[str, Candidate]:
    return {candidate.id: candidate for candidate in found.candidates} if found else {}


def _items(found: CandidatesFound | None) -> dict[str, ItemCandidate]:
    return {item.id: item for item in (*found.people, *found.artifacts)} if found else {}


def _is_going_on(progress: RunProgress, events: Sequence[Event]) -> bool:
    """Whether the turn has not ended yet: the row exists until the next turn begins to speak."""
    if any(isinstance(event, RunFinished) for event in events[-1:]):
        return False
    return progress.turn > max((event.turn for event in events if isinstance(event, ModelReplied)), default=0)


def run_section(context: Mapping[str, Any], *, swapped: bool = False) -> str:
    """The whole run; ``swapped`` marks it to replace the one on the page."""
    return render_to_string("partials/runs/run.html", {**context, "swapped": swapped})


def progress_of(run_id: UUID) -> RunProgress | None:
    """Returns the text that the model has sent so far in the current turn."""
    return RunProgress.objects.filter(pk=run_id).first()


def frame(run_id: UUID, *, seen: Seen, language: str, zone: tzinfo = UTC) -> SocketFrame:
    """What is new to a viewer who has ``seen`` this much, in the reader's language and time zone."""
    newest = look(run_id, seen)
    if newest.seen == seen:
        return SocketFrame("", seen, newest.is_over)
    with translation.override(language), timezone.override(zone):
        if newest.seen.last == seen.last:
            spoken = {"progress": newest.progress, "swapped": True}
            return SocketFrame(render_to_string("partials/runs/run_speaking.html", spoken), newest.seen, finished=False)
        run = Run.objects.select_related("owner").get(pk=run_id)
        context = run_context(run, following.stored(run_id), progress=newest.progress)
        # Late spans of another program change the events before them, too.
        is_whole = seen.last < 0 or run.is_foreign
        html = run_section(context, swapped=True) if is_whole else _appended(context, seen.last)
    return SocketFrame(html, Seen(context["last"], newest.seen.spoken_at), not context["is_live"])


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest state of a run: what a viewer has ``seen`` after looking now, and what its model is saying."""

    seen: Seen
    progress: RunProgress | None
    is_over: bool


def look(run_id: UUID, seen: Seen) -> Newest:
    """How far the run has come since a viewer had ``seen`` this much."""
    newest = RunEvent.objects.filter(run_id=run_id).order_by("-seq").values_list("seq", "kind").first()
    last, kind = newest or (0, "")
    progress = progress_of(run_id)
    now = Seen(max(last, seen.last), progress.at if progress else seen.spoken_at)
    return Newest(now, progress, kind == RunFinished.kind)


def _appended(context: Mapping[str, Any], after: int) -> str:
    new = [view for view in context["views"] if view.seq > after]
    return render_to_string("partials/runs/run_frame.html", {**context, "new": new})
