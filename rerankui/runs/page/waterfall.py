"""The stages of a run on its time axis, to scale; the axis is also that of the scrubber."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import pgettext_lazy

from memoryapp.engine.candidates import Candidate, ItemCandidate
from memoryapp.engine.events import CandidatesFound, ModelReplied, RunFinished, TopicsRead
from memoryapp.models import ChatUser, Run
from memoryapp.runs import followers
from memoryapp.runs.followers import StoredEvent
from rerankui.runs.page.filter_chart import STAGE_WORDS

# Of the axis, so that a stage of no time is seen too.
LEAST = 0.004
# What lies between two stages has a name from this share of the axis on.
GAP = 0.02


@dataclass(frozen=True, slots=True)
class StageBar:
    """A stage from ``start`` over ``width``, in milliseconds of ``whole``; ``seconds`` is its wall time. ``is_gap``:
    the program worked between two stages that have seconds of their own."""

    seq: int
    stage: str
    turn: int
    start: int
    width: int
    seconds: float
    whole: int
    is_gap: bool = False

    @property
    def left_share(self) -> str:
        return f"{self.start / self.whole:.4%}"

    @property
    def share(self) -> str:
        return f"{self.width / self.whole:.4%}"

    @property
    def look(self) -> str:
        """The classes of its colour: turns alternate, gaps have none."""
        even = " is-even" if self.turn and self.turn % 2 == 0 else ""
        return f"stage-{self.stage}{even}{' is-gap' if self.is_gap else ''}"

    @property
    def room(self) -> str:
        """Whether a label fits: in a window (wide), only on a broad screen (narrow), or not."""
        share = self.width / self.whole
        return "wide" if share >= 0.3 else "narrow" if share >= 0.1 else ""


@dataclass(frozen=True, slots=True)
class WaterfallAxis:
    """Milliseconds from the first event to the last one, or until now; ``going`` is where the current stage began."""

    whole: int
    going: int
    bars: Sequence[StageBar]

    @property
    def going_width(self) -> int:
        return max(self.whole - self.going, 1)


def axis(stored: Sequence[StoredEvent], now: datetime) -> WaterfallAxis:
    """One bar for each stage that took time. An event is recorded when its stage ends."""
    if not stored:
        return WaterfallAxis(1, 0, ())
    began, last = stored[0].at, stored[-1]
    ended = last.at if isinstance(last.event, RunFinished) else max(now, last.at)
    whole = max(milliseconds(began, ended), 1)
    least = max(round(whole * LEAST), 1)
    return WaterfallAxis(whole, milliseconds(began, last.at), [*_bars(stored, began, whole, least)])


def milliseconds(began: datetime, at: datetime) -> int:
    return int((at - began).total_seconds() * 1000)


def _bars(stored: Sequence[StoredEvent], began: datetime, whole: int, least: int) -> Iterator[StageBar]:
    """The stages, and before each the gap since the one before."""
    done = 0
    for item in stored:
        end = milliseconds(began, item.at)
        event, name = item.event, item.event.ends
        # Reading does not measure itself: it took the time since the model had asked for it.
        seconds = getattr(event, "seconds", (end - done) / 1000) if name else 0.0
        width = max(min(round(seconds * 1000), end), least) if name and (seconds or name == "read") else 0
        # A stage that measured itself longer than there was room does not cover the one before.
        start = max(min(max(min(end, whole) - width, done), end - least), 0)
        width = min(width, max(end - start, least)) if width else 0
        if start - done >= whole * GAP and (gap := event.gap()):
            gap = "start" if name and not done else gap
            yield StageBar(item.seq, gap, 0, done, start - done, (start - done) / 1000, whole, is_gap=True)
            done = end
        if width:
            yield StageBar(item.seq, name, getattr(event, "turn", 0), start, width, seconds, whole)
            done = end


# What became of each candidate, in words: one in its row, and all of them counted above the rows.

AnyCandidate = Candidate | ItemCandidate

# By the last mark of ``marks``; a candidate without one was not opened.
WORDS: dict[str, str | Promise] = {
    "chosen": pgettext_lazy("candidate", "chosen"),
    "instead": pgettext_lazy("candidate", "used instead"),
    "read": pgettext_lazy("candidate", "read"),
    "requested": pgettext_lazy("candidate", "asked for"),
    "dropped": pgettext_lazy("candidate", "read, not chosen"),
    **STAGE_WORDS,
    "": pgettext_lazy("candidate", "not opened"),
}


def offered(found: CandidatesFound | None, finished: RunFinished | None) -> int:
    """How many topics could be chosen: those that were shown, and those that were chosen without being shown."""
    shown = {candidate.id for candidate in found.shown} if found else set()
    return len(shown | {selected.id for selected in finished.selected}) if finished else len(shown)


def counts(candidates: Sequence[AnyCandidate], states: Mapping[str, str]) -> list[tuple[str, str | Promise, int]]:
    """Every state, ``none`` without a mark, in words and with its number of shown candidates, zero too, in order."""
    found = Counter(states.get(candidate.id, "") for candidate in candidates if candidate.shown)
    return [(state or "none", words, found[state]) for state, words in WORDS.items()]


def rows(candidates: Sequence[AnyCandidate], by_similarity: bool = False) -> Iterator[tuple[AnyCandidate, str]]:
    """Those that the model was shown, best first; in the order of their similarity where that alone decides. Each with
    the ranks between it and the one above, which the model was not shown: ``12–26``."""
    if by_similarity:
        shown = (candidate for candidate in candidates if candidate.shown)
        yield from ((each, "") for each in sorted(shown, key=lambda each: each.vector_rank or each.rank))
        return
    before = 0
    for candidate in candidates:
        if candidate.shown:
            yield candidate, _gap_before(before + 1, candidate.rank - 1)
            before = candidate.rank


def _gap_before(first: int, last: int) -> str:
    return "" if last < first else str(first) if first == last else f"{first}–{last}"


# A run in a few lines, for the overview: what was asked, found, thought, read and chosen.

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


# The steps of each kind that shows any.
_PLAYED: Mapping[str, Callable[[Any], Sequence[PlayedStep]]] = {
    CandidatesFound.kind: lambda event: [PlayedStep("found", count=len(event.shown), seconds=event.seconds)],
    ModelReplied.kind: lambda event: (
        [PlayedStep("thought", event.reasoning, seconds=event.seconds)] if event.reasoning else []
    ),
    TopicsRead.kind: lambda event: [
        PlayedStep("read", ids=tuple(each.id for each in event.read[:MOST_READ]), count=len(event.read))
    ],
    RunFinished.kind: lambda event: [
        PlayedStep("chosen", each.reason, (each.id,), quote=next((piece.text for piece in each.excerpt), ""))
        for each in event.selected[:MOST_CHOSEN]
    ],
}


def played_run(owner: ChatUser) -> dict[str, Any] | None:
    """The latest run of this memory that chose topics, as steps; None if there is none, or if it cannot be read. No
    fork: what it replays from its parent took no time, and tells nothing of how long a run takes."""
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
    played = (_PLAYED[event.kind](event) for event in events if event.kind in _PLAYED)
    return {"run": run, "steps": tuple(step for steps in played for step in steps)}
