"""How long each stage of the last runs took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db.models import FloatField, QuerySet, Sum
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast

from memoryapp.models import Run, RunEvent

MOST_RUNS = 200
# By the event that ends it. The rest is what a run took beside them: waiting, reading topics, checking the answer.
_ENDED_BY: Mapping[str, str] = {"query_enriched": "enrich", "candidates_found": "search", "model_replied": "turn"}
REST, WHOLE = "rest", "whole"
STAGES = (*_ENDED_BY.values(), REST, WHOLE)


@dataclass(frozen=True, slots=True)
class RunTimes:
    """A finished run with the seconds of its stages; a stage that it did not have is missing."""

    run: Run
    seconds: Mapping[str, float]


def stage_times(runs: QuerySet[Run], most: int = MOST_RUNS) -> Sequence[RunTimes]:
    """The newest finished ones of ``runs``, newest first. Two queries."""
    listed = list(runs.filter(state=Run.State.FINISHED).order_by("-created_at", "-id")[:most])
    of_stage = _by_stage([run.pk for run in listed])
    return [RunTimes(run, _with_rest(of_stage.get(run.pk, {}), run.seconds)) for run in listed]


def _by_stage(runs: Sequence[UUID]) -> dict[UUID, dict[str, float]]:
    ended = RunEvent.objects.filter(run__in=runs, kind__in=_ENDED_BY).order_by().values_list("run", "kind")
    seconds = Cast(KeyTextTransform("seconds", "payload"), FloatField())
    found: dict[UUID, dict[str, float]] = {}
    for run, kind, taken in ended.annotate(taken=Sum(seconds)):
        found.setdefault(run, {})[_ENDED_BY[kind]] = taken or 0.0
    return found


def _with_rest(stages: Mapping[str, float], whole: float) -> dict[str, float]:
    return {**stages, REST: max(whole - sum(stages.values()), 0.0), WHOLE: whole}
