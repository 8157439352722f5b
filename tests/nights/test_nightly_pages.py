"""The pages of golden sets of the night, and an alarm in the inbox."""

from __future__ import annotations

import pytest
from django.contrib.messages import get_messages
from django.test import Client, override_settings

from memoryapp.insight.evaluation import judgements
from memoryapp.models import ChatUser, Evaluation, GoldenAlarm, GoldenNight, NightlyRun, Role, Run
from tests.conftest import operator, signed_in

pytestmark = pytest.mark.django_db(transaction=True)
WORSE = {"figure": "recall@5", "mean": -0.3, "low": -0.5, "high": -0.1, "n": 20}


def test_a_set_is_scheduled_asked_paused_and_removed(as_admin: Client, as_debugger: Client, anna: ChatUser) -> None:
    judgements.save(anna, "mine", "which cake?", [], "ada")
    Run.objects.create(owner=anna, query="?", strategy="vector", state="finished", seconds=2, cost_usd=0.5)
    sent = {"set": "mine", "strategy": "vector", "limit": "10", "hour": "4", "recipients": "a@b.example, c@d.example"}
    forecast = as_admin.get("/nights/new/", sent, headers={"HX-Request": "true"}).content.decode()
    assert all(words in forecast for words in ("1 run", "$0.5000"))
    as_admin.cookies["timezone"] = "Europe/Berlin"
    assert as_debugger.post("/nights/new/", sent).status_code == 403
    for wrong in ({"set": "none"}, {"strategy": "x"}, {"hour": "99"}, {"recipients": "nobody"}):
        assert as_admin.post("/nights/new/", {**sent, **wrong}).status_code == 422
    assert as_admin.post("/nights/new/", sent).status_code == 302
    row = NightlyRun.objects.get()
    assert (row.hour, row.zone, row.recipients) == (4, "Europe/Berlin", "a@b.example\nc@d.example")
    page = f"/nights/{row.pk}/"
    as_admin.post(f"{page}act/", {"do": "now"})
    assert "disabled" in as_admin.get(page).content.decode()
    done = Evaluation.objects.get()
    assert done.questions == [anna.goldenquestion_set.get().pk]
    report = {"n": 1, "candidates": {"recall@5": 0.75}, "selection": {"f1": None}, "questions": []}
    Evaluation.objects.update(state="finished", report=report)
    GoldenNight.objects.update(
        state="dropped", is_alarm=True, regressions=[WORSE, {**WORSE, "figure": "of a later version"}]
    )
    shown = as_admin.get(page).content.decode()
    assert all(words in shown for words in ("0.750", "−0.300 (−0.500 to −0.100)", "dropped", "<polyline"))
    as_admin.post(f"{page}act/", {"do": "baseline", "night": str(GoldenNight.objects.get().pk)})
    assert NightlyRun.objects.get().baseline == done
    as_admin.post(f"{page}act/", {"do": "baseline", "night": "9" * 30})
    assert NightlyRun.objects.get().baseline == done
    as_admin.post(f"{page}act/", {"do": "baseline"})
    assert NightlyRun.objects.get().baseline is None
    as_admin.post(f"{page}act/", {"do": "pause"})
    assert not NightlyRun.objects.get().is_on
    with override_settings(EMAIL_URL=""):
        answer = as_admin.post(f"{page}act/", {"do": "test"})
    assert "No mail can be sent: EMAIL_URL is not set." in [str(each) for each in get_messages(answer.wsgi_request)]
    assert "mine" in as_admin.get("/nights/").content.decode()
    assert as_admin.get(f"{page}remove/").status_code == 200
    as_admin.post(f"{page}remove/")
    assert not NightlyRun.objects.exists()
    assert Evaluation.objects.exists()


def test_an_alarm_waits_in_the_inbox_until_a_curator_has_seen_it(
    as_viewer: Client, as_stranger: Client, anna: ChatUser
) -> None:
    as_curator = signed_in(operator("cora", Role.CURATOR, anna))
    nightly = NightlyRun.objects.create(
        collection="mine", strategy="vector", most=9, hour=3, zone="UTC", next_at="2027-01-01T00:00:00Z", made_by="ada"
    )
    night = GoldenNight.objects.create(nightly=nightly, state="dropped", regressions=[WORSE])
    alarm = GoldenAlarm.objects.create(owner=anna, night=night)
    inbox = f"/memory/{anna.pk}/inbox/"
    for client in (as_viewer, as_curator):
        shown = client.get(inbox).content.decode()
        assert "−0.300" in shown
        assert f"/nights/{nightly.pk}/" not in shown
    assert as_viewer.post(inbox, {"seen": str(alarm.pk)}).status_code == 403
    assert as_stranger.post(inbox, {"seen": str(alarm.pk)}).status_code == 404
    as_curator.post(inbox, {"seen": "x"})
    assert GoldenAlarm.objects.exists()
    as_curator.post(inbox, {"seen": str(alarm.pk)})
    assert not GoldenAlarm.objects.exists()
