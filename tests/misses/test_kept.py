"""The nights of what was put right: one that falls is an alarm, and Evaluate says which and what changed since."""

from typing import Any

import pytest
from django.test import Client

from memoryapp.insight.evaluation import nights
from memoryapp.insight.misses import keeping, misses
from memoryapp.models import (
    ChatUser,
    Evaluation,
    GoldenAlarm,
    GoldenNight,
    GoldenQuestion,
    Message,
    Miss,
    NightlyRun,
    Run,
    WebhookDelivery,
)
from memoryapp.upkeep import tasks
from tests.conftest import BEGAN, talk
from tests.platform.receiver import hooked

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def kept(anna: ChatUser) -> list[Miss]:
    """Three misses whose questions are kept."""
    talk(anna, ("Dentist", ["On Thursday", "At nine"]))
    number = Message.objects.values_list("pk", flat=True)[0]
    made = [
        Miss.objects.create(owner=anna, question=f"question {n}?", moment=BEGAN, evidence=[number], reported_by="ada")
        for n in range(3)
    ]
    return [keeping.keep(miss, "ada") for miss in made]


def night(kept: list[Miss], right: tuple[bool, ...]) -> GoldenNight:
    (begun,) = nights.begin_now(NightlyRun.objects.get())
    assert begun.evaluation
    rows: list[dict[str, Any]] = []
    for miss, is_right in zip(kept, right, strict=True):
        asked = {"evaluation": begun.evaluation, "query": miss.question, "strategy": "flash", "state": "finished"}
        run = Run.objects.create(owner=miss.owner, **asked)
        figures = dict.fromkeys(
            ("recall@5", "recall@10", "f1", "citation_precision", "citation_coverage"), float(is_right)
        )
        told = {"answerable": True, "refused": False, "seconds": 1.0, "run": str(run.pk)}
        rows.append({"qid": str(miss.golden_id), **told, **figures})
    report = {"n": len(rows), "questions": rows}
    Evaluation.objects.filter(pk=begun.evaluation.pk).update(state="finished", report=report)
    tasks.watch_nights()
    begun.refresh_from_db()
    return begun


def test_one_that_falls_is_an_alarm_and_another_one_is_news(kept: list[Miss], anna: ChatUser, as_admin: Client) -> None:
    hooked("golden_run.dropped")
    assert night(kept, (True, True, True)).state == GoldenNight.State.PASSED
    fell = night(kept, (True, True, False))
    assert (fell.state, fell.is_alarm) == (GoldenNight.State.DROPPED, True)
    assert [each["questions"] for each in fell.regressions if each["figure"] == "kept"] == [[str(kept[2].golden_id)]]
    assert not night(kept, (True, True, False)).is_alarm
    assert night(kept, (True, False, False)).is_alarm
    assert GoldenAlarm.objects.filter(owner=anna).count() == 2
    assert WebhookDelivery.objects.count() == 2
    found = keeping.standing(ChatUser.objects.all())
    assert (found.kept, found.total, found.waiting) == (1, 3, 0)
    assert {each.miss for each in found.fallen} == {kept[1], kept[2]}
    assert all(each.good and each.since for each in found.fallen)
    page = as_admin.get("/evaluations/").content.decode()
    assert "Kept right: 1 of 3" in page
    assert kept[2].question in page
    assert "question 0?" not in page


def test_one_that_was_never_right_is_no_fall(kept: list[Miss]) -> None:
    night(kept, (True, True, False))
    assert night(kept, (True, True, False)).state == GoldenNight.State.PASSED
    (each,) = keeping.standing(ChatUser.objects.all()).fallen
    assert (each.miss, each.good) == (kept[2], "")


def test_what_is_no_miss_is_not_asked(kept: list[Miss]) -> None:
    misses.dismiss(kept[0])
    assert GoldenQuestion.objects.count() == 2
