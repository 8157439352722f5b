"""Runs of one memory side by side: topics by what became of them in each run, and the first difference."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from uuid import UUID

from django.utils.translation import gettext as _

from memoryapp.compare.divergence import Divergence, Side, first_divergence
from memoryapp.compare.lineages import Matter, lineages
from memoryapp.compare.states import ABSENT, USED, RunStates, best, is_listed, states_of_runs
from memoryapp.engine.events import from_payload
from memoryapp.models import Run, RunEvent
from memoryapp.runs.followers import StoredEvent

MOST_RUNS = 200
MOST_TOPICS = 500


class CompareError(ValueError):
    """Runs that cannot be compared; the text is a sentence for people."""


@dataclass(frozen=True, slots=True)
class ComparedTopic:
    """A topic in every run: its state and, where the run ranked it, its rank. ``met_as`` are the ids under which a run
    met it, where they are others."""

    lineage: Matter
    states: Mapping[UUID, str]
    ranks: Mapping[UUID, int]
    met_as: Mapping[UUID, tuple[str, ...]] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return self.lineage.id

    @property
    def times_chosen(self) -> int:
        return sum(state in USED for state in self.states.values())

    @property
    def differs(self) -> bool:
        """Whether not the same became of it in all runs."""
        return len(set(self.states.values())) > 1


@dataclass
class RunComparison:
    """``runs`` in the order in which they were given, ``topics`` those that any of them listed: of two runs in the
    order of the first one, then of the other; of more runs the ones that were chosen most often first. ``left_out``
    counts topics beyond the most that are compared."""

    runs: Sequence[Run]
    topics: Sequence[ComparedTopic]
    same: Mapping[str, str]
    left_out: int = 0

    @cached_property
    def stored(self) -> Mapping[UUID, Sequence[StoredEvent]]:
        """The events of the first two runs, in one statement."""
        rows: dict[UUID, list[StoredEvent]] = {run.pk: [] for run in self.runs[:2]}
        found = RunEvent.objects.filter(owner=self.runs[0].owner_id, run__in=list(rows)).order_by("run", "seq")
        for run, seq, at, kind, payload in found.values_list("run", "seq", "at", "kind", "payload"):
            rows[run].append(StoredEvent(seq, at, from_payload(kind, payload)))
        return rows

    @cached_property
    def divergence(self) -> Divergence:
        """The first difference between the first two runs, A and B."""
        taken_out = frozenset(id for run in self.runs[:2] for id in run.changes.get("without", ()))
        a, b = (
            Side(run.query, [item.event for item in self.stored[run.pk]], self.same, taken_out) for run in self.runs[:2]
        )
        return first_divergence(a, b)


def compare(runs: Sequence[Run]) -> RunComparison:
    """Raises CompareError for fewer than two or too many runs, for runs of several memories, and while one goes on."""
    distinct = list({run.pk: run for run in runs}.values())
    _check(distinct)
    return lined_up(distinct)


def lined_up(runs: Sequence[Run]) -> RunComparison:
    """The topics of different runs of one memory, also of a single run, which have all ended."""
    owner = runs[0].owner_id
    known = states_of_runs(owner, [run.pk for run in runs])
    ids = dict.fromkeys(id for each in known.values() for id in each.states)
    sessions = {id: listed for each in known.values() for id, listed in each.sessions.items() if id in ids}
    titles = {id: title for each in known.values() for id, title in each.titles.items()}
    found = lineages(owner, ids, sessions)
    groups = [replace(group, summary=titles.get(group.id, group.summary)) for group in found]
    compared = [_compared(group, known) for group in groups]
    topics = [topic for topic in compared if any(map(is_listed, topic.states.values()))]
    ordered = _in_order(topics, runs)
    same = {id: group.id for group in groups for id in group.ids}
    return RunComparison(runs, ordered[:MOST_TOPICS], same, max(len(ordered) - MOST_TOPICS, 0))


def _check(runs: Sequence[Run]) -> None:
    if len(runs) < 2:
        raise CompareError(_("Give at least two different runs."))
    if len(runs) > MOST_RUNS:
        raise CompareError(_("At most %(most)d runs can be compared at once.") % {"most": MOST_RUNS})
    if len({run.owner_id for run in runs}) > 1:
        raise CompareError(_("These runs are of several memories, so they have no topic in common."))
    if open_runs := [run for run in runs if not run.is_finished]:
        raise CompareError(_("Run %(run)s has not ended; compare it then.") % {"run": open_runs[0].short_id})


def _compared(lineage: Matter, known: Mapping[UUID, RunStates]) -> ComparedTopic:
    states, ranks, met_as = {}, {}, {}
    for run, each in known.items():
        met = [id for id in lineage.ids if id in each.states]
        states[run] = best(each.states[id] for id in met)
        if ranked := [each.ranks[id] for id in met if id in each.ranks]:
            ranks[run] = min(ranked)
        if met and lineage.id not in met:
            met_as[run] = tuple(met)
    return ComparedTopic(lineage, states, ranks, met_as)


def _in_order(topics: Sequence[ComparedTopic], runs: Sequence[Run]) -> list[ComparedTopic]:
    if len(runs) == 2:
        last = len(topics) + 1_000
        return sorted(topics, key=lambda each: [each.ranks.get(run.pk, last) for run in runs])
    return sorted(topics, key=lambda each: (-each.times_chosen, min(each.ranks.values(), default=0), each.id))


def always_together(topics: Iterable[ComparedTopic]) -> list[tuple[ComparedTopic, ...]]:
    """Groups of topics that were chosen in exactly the same runs, in two of them or more, the largest first."""
    by_runs: dict[frozenset[UUID], list[ComparedTopic]] = defaultdict(list)
    for topic in topics:
        by_runs[frozenset(run for run, state in topic.states.items() if state in USED)].append(topic)
    found = [tuple(group) for runs, group in by_runs.items() if len(runs) > 1 and len(group) > 1]
    return sorted(found, key=len, reverse=True)


__all__ = ["ABSENT", "CompareError", "ComparedTopic", "RunComparison", "always_together", "compare"]
