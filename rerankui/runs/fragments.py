"""Rows to HTML, for page and socket alike. ``run_section`` is the only maker of a run's HTML: the page shows it, the
socket's first frame is it, and later frames append the same event partials to its lanes."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Any
from uuid import UUID

from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser
from django.template.loader import render_to_string
from django.utils import timezone, translation

from memoryapp.engine.candidates import Candidate, ItemCandidate
from memoryapp.engine.events import (
    CandidatesFound,
    Event,
    ModelReplied,
    QueryEnriched,
    RunFinished,
    RunStarted,
    TurnStarted,
)
from memoryapp.engine.kinds.kind import Totals
from memoryapp.engine.outline import Outline, answered_from, with_read
from memoryapp.engine.strategies import STRATEGIES
from memoryapp.engine.strategies.strategy import NEAREST
from memoryapp.models import Message, Run, RunEvent, RunProgress
from memoryapp.runs import followers
from memoryapp.runs.followers import StoredEvent
from memoryapp.runs.journal import totals_of
from memoryapp.runs.recall_document import handed_over
from rerankui.frame.pages import PageContext
from rerankui.runs.page.answer_view import ShownPassage, answer_context, unsure
from rerankui.runs.page.fork import NO_FORKS, Forks, forks_of
from rerankui.runs.page.outcomes import Outcome, RunActivity, activity_after, missing, outcome, turn_of
from rerankui.runs.page.result import Result, context_parts, delivered_view, result_of
from rerankui.runs.page.waterfall import WaterfallAxis, axis, milliseconds, offered

_LANES = ("candidates", "turns", "result")


@dataclass(frozen=True, slots=True)
class Seen:
    """What a viewer has: events up to ``last`` (-1: not even the section), the model's words up to ``spoken_at``."""

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
    not the last one."""

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
    views, turn, read = [], 0, answered_from([item.event for item in stored])
    for item in stored:
        turn = turn_of(item.event) or turn
        views.append(
            EventView(
                seq=item.seq,
                at=item.at,
                offset_ms=milliseconds(stored[0].at, item.at),
                event=with_read(item.event, read) if isinstance(item.event, CandidatesFound) else item.event,
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
    return int(given) if given.isdecimal() and len(given) < 9 else None


def states(views: Iterable[EventView]) -> dict[str, str]:
    """Every topic's state after these events: the last mark wins."""
    folded: dict[str, str] = {}
    for view in views:
        folded.update(view.marks)
    return folded


@dataclass(frozen=True, slots=True)
class RunPage(PageContext):
    """What a run's page and its parts show, in the reader's language, as the run was after the event ``step``. ``at``
    or ``and_at`` ends the addresses of its parts, ``progress`` is what the model has said since the last event.
    ``has_asked`` tells that a model was asked, so that there are turns and tokens to speak of."""

    run: Run
    views: Sequence[EventView]
    lanes: Mapping[str, Sequence[EventView]]
    last: int
    step: int
    at: str
    and_at: str
    by_similarity: bool
    states: Mapping[str, str]
    candidates: Mapping[str, Candidate]
    found: CandidatesFound | None
    finished: RunFinished | None
    offered: int
    result: Result | None
    unsure: Sequence[ShownPassage]
    outcome: Outcome | None
    context_parts: dict[str, Any] | None
    delivered: dict[str, Any] | None
    progress: RunProgress | None
    missing: Sequence[str]
    forks: Forks
    totals: Totals
    has_asked: bool
    model: str
    axis: WaterfallAxis
    activity: RunActivity
    playhead: int
    is_live: bool
    opened: str
    run_started: RunStarted | None
    query_enriched: QueryEnriched | None


def run_page(
    run: Run,
    stored: Sequence[StoredEvent],
    *,
    step: int | None = None,
    progress: RunProgress | None = None,
    talk: Mapping[int, Message] | None = None,
) -> RunPage:
    """The run as it was after the event ``step``; without it, as it is now. A run of a file has its messages in
    ``talk``; then nothing is read from the database."""
    last = stored[-1].seq if stored else 0
    step = min(max(step, 1), last) if step is not None and last else last
    views = event_views(stored, step)
    shown = next((view for view in reversed(views) if view.seq <= step), None)
    events = [item.event for item in stored]
    outline = Outline.of([view.event for view in views])
    found, finished = outline.found, outline.finished
    candidates, totals = _by_id(found), totals_of(events)
    return RunPage(
        run=run,
        views=views,
        lanes={lane: [view for view in views if view.lane == lane] for lane in _LANES},
        last=last,
        step=step,
        at=f"?step={step}" if step < last else "",
        and_at=f"&step={step}" if step < last else "",
        by_similarity=by_similarity(run),
        states=states(view for view in views if not view.is_ahead),
        candidates=candidates,
        found=found,
        finished=finished,
        offered=offered(found, finished),
        result=result_of(run, finished, candidates, _items(found), talk),
        unsure=unsure(run, outline) if talk is None else (),
        outcome=outcome(events),
        context_parts=context_parts(finished, handed_over(run)),
        delivered=delivered_view(run, finished) if talk is None else None,
        progress=progress if progress and _is_going_on(progress, events) else None,
        missing=missing(run, events),
        forks=forks_of(run) if talk is None else NO_FORKS,
        totals=totals,
        has_asked=totals.input_tokens > 0 or any(isinstance(event, TurnStarted | ModelReplied) for event in events),
        model=outline.started.model if outline.started else "",
        axis=axis(stored, timezone.now()),
        activity=shown.activity if shown else activity_after(None),
        playhead=shown.offset_ms if shown else 0,
        is_live=finished is None,
        opened="result" if finished and step == last else "turns",
        run_started=outline.started,
        query_enriched=outline.enriched,
    )


def _by_id(found: CandidatesFound | None) -> dict[str, Candidate]:
    return {candidate.id: candidate for candidate in found.candidates} if found else {}


def _items(found: CandidatesFound | None) -> dict[str, ItemCandidate]:
    return {item.id: item for item in (*found.people, *found.artifacts)} if found else {}


def _is_going_on(progress: RunProgress, events: Sequence[Event]) -> bool:
    """Whether the turn has not ended yet: the row exists until the next turn begins to speak."""
    if any(isinstance(event, RunFinished) for event in events[-1:]):
        return False
    return progress.turn > max((event.turn for event in events if isinstance(event, ModelReplied)), default=0)


def run_section(page: RunPage, *, swapped: bool = False) -> str:
    """The whole run; ``swapped`` marks it to replace the one on the page."""
    return render_to_string("partials/runs/run.html", page.names(swapped=swapped))


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
        page = run_page(run, followers.stored(run_id), progress=newest.progress)
        # Late spans of another program change the events before them, too.
        is_whole = seen.last < 0 or run.is_foreign
        html = run_section(page, swapped=True) if is_whole else _appended(page, seen.last)
    return SocketFrame(html, Seen(page.last, newest.seen.spoken_at), not page.is_live)


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


def _appended(page: RunPage, after: int) -> str:
    new = [view for view in page.views if view.seq > after]
    return render_to_string("partials/runs/run_frame.html", page.names(new=new))


# An answer as HTML, for the page and its socket; always the whole answer, because it is short.


def answer_frame(
    run_id: UUID, *, seen: Seen, language: str, user: AbstractBaseUser | AnonymousUser, zone: tzinfo = UTC
) -> SocketFrame:
    """The answer as it is now; empty when nothing is new to a viewer who has ``seen`` this much."""
    newest = look(run_id, seen)
    if newest.seen == seen:
        return SocketFrame("", seen, newest.is_over)
    with translation.override(language), timezone.override(zone):
        run = Run.objects.select_related("owner").get(pk=run_id)
        context = answer_context(run, followers.stored(run_id), user, progress=newest.progress)
        html = render_to_string("partials/ask/answer.html", {**context, "swapped": True})
    return SocketFrame(html, newest.seen, not context["is_live"])
