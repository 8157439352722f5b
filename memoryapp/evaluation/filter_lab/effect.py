"""How well cuts find what is known to be relevant, over stored runs; no search is repeated.

The relevant topics of a run are those with its evidence messages, for a golden question, and otherwise those that a
model selected. Runs of another embedding profile are left out, because their cosines have another scale.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from memoryapp.engine.events import CandidatesFound, RunFinished, RunStarted, from_payload
from memoryapp.engine.memory import topic_id
from memoryapp.engine.strategies import needs_model
from memoryapp.engine.strategies.cuts import Cuts, apply_cuts
from memoryapp.engine.strategies.filter import similarities
from memoryapp.models import ChatUser, Run, RunEvent, TopicMessage

MOST = 100
_KINDS = (RunStarted.kind, CandidatesFound.kind, RunFinished.kind)
# How many runs are read together; the events of each have about 60 kB.
_BATCH = 20


@dataclass(frozen=True, slots=True)
class Figures:
    """Means over runs, from 0 to 1, and how many topics were kept; an empty selection has precision and recall 0."""

    precision: float
    recall: float
    kept: float


@dataclass(frozen=True, slots=True)
class CutComparison:
    """The same ``runs`` under the cuts before and after."""

    runs: int
    before: Figures
    after: Figures


@dataclass(frozen=True, slots=True)
class _Case:
    similarities: Mapping[str, float]
    relevant: frozenset[str]


def on_choices(owner: ChatUser, profile: str, before: Cuts, after: Cuts) -> CutComparison | None:
    """Compares the cuts with what models selected in the owner's latest runs; returns None if there are none."""
    runs = Run.objects.of(owner).by_hand().made_here().filter(fallback="", selected_count__gt=0)
    models = [strategy for strategy in runs.values_list("strategy", flat=True).distinct() if needs_model(strategy)]
    return _compared(_cases(runs.filter(strategy__in=models), profile), before, after)


def on_golden_questions(owner: ChatUser, profile: str, before: Cuts, after: Cuts) -> CutComparison | None:
    """Compares the cuts with the evidence of the owner's latest golden questions; returns None if there are none."""
    return _compared(_cases(Run.objects.of(owner).exclude(evidence=[]), profile), before, after)


def _cases(runs: Any, profile: str) -> list[_Case]:
    """The latest runs of the profile that found anything and have something relevant."""
    latest = list(runs.filter(state=Run.State.FINISHED).order_by("-created_at", "-id")[:MOST])
    batches = (latest[at : at + _BATCH] for at in range(0, len(latest), _BATCH))
    return [case for batch in batches for case in _of_batch(batch, profile)]


def _of_batch(runs: Sequence[Run], profile: str) -> Iterable[_Case]:
    events: dict[UUID, dict[str, Any]] = defaultdict(dict)
    rows = RunEvent.objects.filter(run__in=runs, kind__in=_KINDS)
    for run_id, kind, payload in rows.values_list("run_id", "kind", "payload"):
        events[run_id][kind] = from_payload(kind, payload)
    holders = _holders(runs)
    for run in runs:
        stored = events[run.pk]
        started, found = stored.get(RunStarted.kind), stored.get(CandidatesFound.kind)
        if not started or not found or started.profile != profile or found.by_words_alone:
            continue
        finished: RunFinished | None = stored.get(RunFinished.kind)
        chosen = {selected.id for selected in finished.selected} if finished else set()
        relevant = {holder for number in run.evidence for holder in holders.get(number, ())} or chosen
        if relevant:
            yield _Case(similarities(found), frozenset(relevant))


def _holders(runs: Sequence[Run]) -> Mapping[int, set[str]]:
    """Every topic that ever contained an evidence message, by the message's number."""
    evidence = {number for run in runs for number in run.evidence}
    holders: dict[int, set[str]] = defaultdict(set)
    for message, topic in TopicMessage.objects.filter(message__in=evidence).values_list("message", "topic"):
        holders[message].add(topic_id(topic))
    return holders


def _compared(cases: Sequence[_Case], before: Cuts, after: Cuts) -> CutComparison | None:
    return CutComparison(len(cases), _figures(cases, before), _figures(cases, after)) if cases else None


def _figures(cases: Sequence[_Case], cuts: Cuts) -> Figures:
    kept = [{item.id for item in apply_cuts(case.similarities, cuts).kept} for case in cases]
    hits = [len(ids & _findable(case)) for ids, case in zip(kept, cases, strict=True)]
    wanted = [len(_findable(case)) or 1 for case in cases]
    return Figures(
        precision=statistics.fmean(hit / len(ids) if ids else 0.0 for hit, ids in zip(hits, kept, strict=True)),
        recall=statistics.fmean(hit / most for hit, most in zip(hits, wanted, strict=True)),
        kept=statistics.fmean(map(len, kept)),
    )


def _findable(case: _Case) -> set[str]:
    """Returns the relevant topics among the candidates, in their versions of that time; if none, all relevant ones."""
    return set(case.relevant & case.similarities.keys()) or set(case.relevant)
