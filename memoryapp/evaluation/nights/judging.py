"""What came of a night: compared with the baseline, or with the last night that did not drop.

A question whose run ended by an outage says nothing about the program, and is left out. Where a fifth of them did, the
night could not be asked, which is no drop.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from django.db import transaction

from memoryapp.evaluation import comparison
from memoryapp.evaluation.nights import alarms
from memoryapp.evaluation.passes import OPEN
from memoryapp.models import Evaluation, GoldenNight, Run
from memoryapp.operations.outages import others_go_on

# Ends of runs that tell of the endpoint or of this machine, not of the answers.
OUTAGES = ("llm_error", "timeout", "turn_timeout", "no_vectors", "abandoned", "crashed", "stopped")
# From this share of its questions on a night could not be asked.
TOO_MANY = 0.2

State = GoldenNight.State


def judge_ended() -> list[GoldenNight]:
    """Judges every night whose evaluation has ended."""
    rows = GoldenNight.objects.filter(state=State.RUNNING).exclude(evaluation__state__in=OPEN).order_by("pk")
    ended = []
    for number in list(rows.values_list("pk", flat=True)):
        with others_go_on("Night %s could not be judged.", number, partial(_fail, number)):
            ended.append(_judged(number))
    return [night for night in ended if night]


def _fail(number: int, error: Exception) -> None:
    GoldenNight.objects.filter(pk=number, state=State.RUNNING).update(state=State.FAILED, reason="stopped")


@transaction.atomic
def _judged(number: int) -> GoldenNight | None:
    """The night with its verdict and, if it needs one, its alarm, in one transaction."""
    rows = GoldenNight.objects.select_for_update(skip_locked=True, of=("self",)).select_related("nightly")
    night = rows.filter(pk=number, state=State.RUNNING).first()
    if night is None:
        return None
    done = night.evaluation
    if done is None or done.state != Evaluation.State.FINISHED or not done.report.get("n"):
        night.state, night.reason = State.FAILED, "stopped"
    else:
        _compare(night, done)
    if night.state == State.DROPPED and alarms.is_news(night):
        alarms.raise_alarm(night)
    night.save()
    return night


def _compare(night: GoldenNight, done: Evaluation) -> None:
    out = _interrupted(done)
    night.failed = len(out)
    if night.failed >= max(1, TOO_MANY * done.report["n"]):
        night.state, night.reason = State.FAILED, "outage"
        return
    night.against = night.nightly.baseline or _last_good(night)
    night.state = State.PASSED
    if night.against is None:
        night.reason = "first"
        return
    out |= _interrupted(night.against)
    before, after = _without(night.against.report, out), _without(done.report, out)
    if not comparison.pairs(before, after):
        night.reason = "nothing_shared"
        return
    night.regressions = [
        {"figure": each.name, "n": each.difference.n, **_rounded(each.difference)}
        for each in comparison.regressions(before, after)
    ]
    if night.regressions:
        night.state = State.DROPPED


def _last_good(night: GoldenNight) -> Evaluation | None:
    """The evaluation of the last night before this one that did not drop, by the same strategy."""
    good = GoldenNight.objects.filter(nightly=night.nightly_id, state=State.PASSED, pk__lt=night.pk)
    rows = good.filter(evaluation__isnull=False, evaluation__strategy=night.nightly.strategy)
    last = rows.select_related("evaluation").order_by("-pk").first()
    return last.evaluation if last else None


def _interrupted(evaluation: Evaluation) -> set[str]:
    """The questions whose run ended by an outage; of runs that are gone nothing is known."""
    runs = Run.objects.filter(evaluation=evaluation, fallback__in=OUTAGES).values_list("pk", flat=True)
    numbers = {str(pk) for pk in runs}
    return {row["qid"] for row in evaluation.report.get("questions", ()) if row["run"] in numbers}


def _without(report: Mapping[str, Any], out: set[str]) -> dict[str, Any]:
    return {**report, "questions": [row for row in report.get("questions", ()) if row["qid"] not in out]}


def _rounded(difference: Any) -> dict[str, float]:
    return {name: round(getattr(difference, name), 4) for name in ("mean", "low", "high")}
