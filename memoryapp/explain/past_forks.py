"""Forks of a run as experiments that were made already: what each change led to, for one candidate."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from memoryapp.engine.events import RunFinished
from memoryapp.models import Run, RunEvent
from memoryapp.runs.replays import changes_in_words

# The newest ones.
MOST = 100


@dataclass(frozen=True, slots=True)
class TriedFork:
    """Forks with the same ``changes`` at the same ``turn``, and how many of them chose the candidate."""

    turn: int | None
    changes: Mapping[str, Any]
    chosen: int
    forks: int

    @property
    def words(self) -> str:
        return " · ".join(changes_in_words(self.changes))


def from_forks(run: Run, id: str) -> list[TriedFork]:
    """The kinds of forks of the run that chose the candidate, the surest first; two statements."""
    made = Run.objects.of(run.owner_id).filter(parent=run, state=Run.State.FINISHED, fallback="").exclude(changes={})
    forks = {each.pk: each for each in made.only("pk", "turn", "changes").order_by("-created_at")[:MOST]}
    if not forks:
        return []
    ends = RunEvent.objects.filter(owner=run.owner_id, run__in=list(forks), kind=RunFinished.kind)
    columns = ("payload__selected", "payload__people", "payload__artifacts")
    chose = {
        pk: {item["id"] for each in lists for item in each or ()} for pk, *lists in ends.values_list("run", *columns)
    }
    keys = {pk: json.dumps([fork.turn, fork.changes], sort_keys=True) for pk, fork in forks.items()}
    every = Counter(keys.values())
    chosen = Counter(key for pk, key in keys.items() if id in chose.get(pk, ()))
    tried = [(*json.loads(key), count, every[key]) for key, count in chosen.items()]
    return sorted((TriedFork(*each) for each in tried), key=lambda each: -each.chosen / each.forks)
