"""What became of each candidate, in words: one in its row, and all of them counted above the rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from django.utils.functional import Promise
from django.utils.translation import pgettext_lazy

from memoryapp.engine.candidates import Candidate, ItemCandidate
from memoryapp.engine.events import CandidatesFound, RunFinished
from rerankui.runs.page.filter_words import STAGE_WORDS

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


@dataclass(frozen=True, slots=True)
class Count:
    """How many candidates are in a state; ``name`` is ``none`` where they have no mark."""

    name: str
    words: str | Promise
    count: int


@dataclass(frozen=True, slots=True)
class LegendRow:
    """A candidate; ``gap`` are the ranks between it and the row above, which the model was not shown: ``12–26``."""

    candidate: AnyCandidate
    gap: str


def counts(candidates: Sequence[AnyCandidate], states: Mapping[str, str]) -> list[Count]:
    """Every state with how many of the shown candidates are in it, zero too, in the order of a run's end."""
    found = Counter(states.get(candidate.id, "") for candidate in candidates if candidate.shown)
    return [Count(state or "none", words, found[state]) for state, words in WORDS.items()]


def rows(candidates: Sequence[AnyCandidate], by_similarity: bool = False) -> Iterator[LegendRow]:
    """Those that the model was shown, best first; in the order of their similarity where that alone decides."""
    if by_similarity:
        shown = (candidate for candidate in candidates if candidate.shown)
        yield from (LegendRow(each, "") for each in sorted(shown, key=lambda each: each.vector_rank or each.rank))
        return
    before = 0
    for candidate in candidates:
        if candidate.shown:
            yield LegendRow(candidate, _gap(before + 1, candidate.rank - 1))
            before = candidate.rank


def _gap(first: int, last: int) -> str:
    return "" if last < first else str(first) if first == last else f"{first}–{last}"
