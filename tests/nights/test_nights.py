"""Golden sets of the night: begun when they are due, compared, and an alarm once for each drop."""

from __future__ import annotations

import runpy
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core import mail
from django.test import override_settings
from django.utils import timezone

from memoryapp.curation.suggestions.inbox import waiting_in
from memoryapp.insight.evaluation import judgements, nights
from memoryapp.insight.evaluation.nights import NightlyError
from memoryapp.models import ChatUser, Evaluation, GoldenAlarm, GoldenNight, NightlyRun, Run, WebhookDelivery
from memoryapp.platform import outgoing_settings
from memoryapp.upkeep import tasks
from tests.nights.mail_server import mail_server
from tests.webhooks.receiver import hooked

pytestmark = pytest.mark.django_db(transaction=True)
MAILED = {"EMAIL_URL": "smtp://mail.example:25"}


@pytest.fixture
def nightly(anna: ChatUser, boris: ChatUser) -> NightlyRun:
    for number in range(20):
        judgements.save((anna, boris)[number % 2], "garden", f"question {number}?", [], "ada")
    return nights.save(
        NightlyRun(collection="garden", strategy="vector", most=50, hour=3, zone="UTC", recipients="a@b.example")
    )


def night(nightly: NightlyRun, values: Sequence[float], *, outages: int = 0) -> GoldenNight:
    """A night whose questions had these figures; so many of its runs ended by an outage."""
    (begun,) = nights.begin_now(nightly)
    done = begun.evaluation
    assert done
    rows: list[dict[str, Any]] = []
    for place, value in enumerate(values):
        fallback = "llm_error" if place < outages else ""
        run = Run.objects.create(
            owner=ChatUser.objects.get(name="anna"),
            evaluation=done,
            query=f"{place}",
            strategy="vector",
            state="finished",
            fallback=fallback,
        )
        figures = dict.fromkeys(("recall@5", "recall@10", "f1", "citation_precision", "citation_coverage"), value)
        rows.append(
            {"qid": f"{place}", "answerable": True, "refused": False, "seconds": 1.0, "run": str(run.pk), **figures}
        )
    Evaluation.objects.filter(pk=done.pk).update(state="finished", report={"n": len(rows), "questions": rows})
    tasks.watch_nights()
    begun.refresh_from_db()
    return begun


GOOD, BAD, WORSE = [1.0] * 20, [1.0] * 14 + [0.0] * 6, [1.0] * 8 + [0.0] * 12


def kinds() -> list[str]:
    return list(WebhookDelivery.objects.values_list("kind", flat=True))


@override_settings(**MAILED)
def test_a_drop_alarms_once_and_again_when_it_is_worse_or_comes_back(nightly: NightlyRun, anna: ChatUser) -> None:
    hooked("http://127.0.0.1:9/", "golden_run.dropped")
    first = night(nightly, GOOD)
    assert (first.state, first.reason) == ("passed", "first")
    dropped = night(nightly, BAD)
    assert (dropped.state, dropped.is_alarm, dropped.against) == ("dropped", True, first.evaluation)
    assert {each["figure"] for each in dropped.regressions} >= {"recall@5", "f1"}
    assert all(each["high"] < 0 for each in dropped.regressions)
    assert (kinds(), waiting_in(anna).alarms, GoldenAlarm.objects.count()) == (["golden_run.dropped"], 1, 2)
    (letter,) = mail.outbox
    assert letter.to == ["a@b.example"]
    assert "recall@5 -0.300" in letter.subject
    dropped.refresh_from_db()
    assert dropped.mail == "sent"
    again = night(nightly, BAD)
    assert (again.state, again.is_alarm, again.against) == ("dropped", False, first.evaluation)
    assert night(nightly, WORSE).is_alarm
    assert not night(nightly, WORSE).is_alarm
    assert night(nightly, GOOD).state == "passed"
    assert night(nightly, BAD).is_alarm
    assert len(mail.outbox) == len(kinds()) == 3


def test_a_night_without_the_endpoint_is_no_drop_and_single_outages_are_left_out(nightly: NightlyRun) -> None:
    night(nightly, GOOD)
    down = night(nightly, [0.0] * 20, outages=20)
    assert (down.state, down.reason, down.failed, down.is_alarm) == ("failed", "outage", 20, False)
    some = night(nightly, [0.0] * 3 + [1.0] * 17, outages=3)
    assert (some.state, some.failed) == ("passed", 3)
    # A night that was stopped says nothing either, and the next one is asked as usual.
    (begun,) = nights.begin_now(nightly)
    Evaluation.objects.filter(pk=begun.evaluation_id).update(state="stopped")
    tasks.watch_nights()
    begun.refresh_from_db()
    assert (begun.state, begun.reason) == ("failed", "stopped")
    assert night(nightly, BAD).state == "dropped"


def test_a_baseline_stays_and_a_set_without_questions_is_said(nightly: NightlyRun, anna: ChatUser) -> None:
    fixed = night(nightly, GOOD).evaluation
    NightlyRun.objects.update(baseline=fixed)
    nightly.refresh_from_db()
    small = [1.0] * 19 + [0.0]
    assert night(nightly, small).state == "passed"
    assert night(nightly, BAD).against == fixed
    anna.goldenquestion_set.all().delete()
    ChatUser.objects.get(name="boris").goldenquestion_set.all().delete()
    (empty,) = nights.begin_now(nightly)
    assert (empty.state, empty.reason) == ("failed", "no_questions")


def test_a_night_begins_at_its_hour_once_and_a_missed_one_is_made_up_for(nightly: NightlyRun) -> None:
    spring = datetime(2026, 3, 28, 20, tzinfo=UTC)
    assert nights.next_night(3, "Europe/Berlin", spring) == datetime(2026, 3, 29, 1, tzinfo=UTC)
    assert nights.next_night(3, "Asia/Tokyo", spring) == datetime(2026, 3, 29, 18, tzinfo=UTC)
    assert nights.next_night(21, "no such zone", spring) == datetime(2026, 3, 28, 21, tzinfo=UTC)
    assert nightly.next_at > timezone.now()
    assert nights.begin_due() == []
    NightlyRun.objects.update(next_at=timezone.now() - timedelta(days=3))
    (begun,) = nights.begin_due()
    assert nights.begin_due() == []
    assert begun.evaluation
    assert len(begun.evaluation.questions) == 20
    assert nights.begin_now(nightly) == []
    assert nights.judge_ended() == []
    NightlyRun.objects.update(next_at=timezone.now() - timedelta(days=3), is_on=False)
    assert nights.begin_due() == []


def test_what_cannot_be_scheduled_is_refused(nightly: NightlyRun) -> None:
    for wrong in (
        {"collection": "no such"},
        {"strategy": "no such"},
        {"hour": 24},
        {"most": 0},
        {"recipients": "not an address"},
        {"recipients": "a@b.example," * 3 + "\n".join(f"a{n}@b.example" for n in range(12))},
    ):
        row = NightlyRun.objects.get(pk=nightly.pk)
        for name, value in wrong.items():
            setattr(row, name, value)
        with pytest.raises(NightlyError):
            nights.save(row)


def test_mail_is_tried_again_when_the_server_refused(nightly: NightlyRun, monkeypatch: pytest.MonkeyPatch) -> None:
    with mail_server() as server:
        monkeypatch.setenv("EMAIL_URL", f"smtp://127.0.0.1:{server.port}")
        monkeypatch.setenv("EMAIL_FROM", "memory@example.com")
        read = runpy.run_path(str(outgoing_settings.__file__))
        found = {name: read[name] for name in read["__all__"]}
        with override_settings(EMAIL_BACKEND="django.core.mail.backends.smtp.EmailBackend", **found):
            server.refuses = True
            night(nightly, GOOD)
            dropped = night(nightly, BAD)
            assert (dropped.mail, dropped.mail_tries) == ("waiting", 1)
            assert any("451" in sentence for sentence in nights.try_alarm(nightly))
            server.refuses = False
            nights.send_mail_due()
            assert server.letters == []
            GoldenNight.objects.update(mail_at=timezone.now())
            nights.send_mail_due()
            nights.send_mail_due()
    (letter,) = server.letters
    assert "From: memory@example.com" in letter
    assert "To: a@b.example" in letter
    dropped.refresh_from_db()
    assert (dropped.mail, dropped.mail_tries) == ("sent", 2)


def test_an_alarm_can_be_tried_and_says_what_is_missing(nightly: NightlyRun) -> None:
    assert list(nights.try_alarm(nightly)) == [
        "No webhook is for dropped golden runs.",
        "No mail can be sent: EMAIL_URL is not set.",
    ]
    hooked("http://127.0.0.1:9/", "golden_run.dropped")
    with override_settings(**MAILED):
        assert len(nights.try_alarm(nightly)) == 2
    assert (kinds(), len(mail.outbox)) == (["webhook.test"], 1)
