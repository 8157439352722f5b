"""Golden sets of the night: begun when due, compared, an alarm once for each drop, and their pages."""

import runpy
import socketserver
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.messages import get_messages
from django.core import mail
from django.test import Client, override_settings
from django.utils import timezone

from memoryapp.curation.suggestions.inbox import waiting_in
from memoryapp.insight.evaluation import judgements, nights
from memoryapp.insight.evaluation.nights import NightlyError
from memoryapp.models import ChatUser, Evaluation, GoldenAlarm, GoldenNight, NightlyRun, Role, Run, WebhookDelivery
from memoryapp.platform import outgoing_settings
from memoryapp.upkeep import tasks
from tests.conftest import operator, signed_in
from tests.platform.receiver import hooked

pytestmark = pytest.mark.django_db(transaction=True)


@dataclass
class MailServer:
    port: int = 0
    refuses: bool = False
    letters: list[str] = field(default_factory=list)


@contextmanager
def mail_server() -> Iterator[MailServer]:
    made = MailServer()

    class Talk(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self._say("220 here")
            for line in self.rfile:
                verb = line.decode().strip().upper()
                if verb.startswith("MAIL") and made.refuses:
                    self._say("451 come back later")
                elif verb == "DATA":
                    self._say("354 go on")
                    made.letters.append(self._letter())
                    self._say("250 taken")
                elif verb == "QUIT":
                    self._say("221 bye")
                    return
                else:
                    self._say("250 ok")

        def _letter(self) -> str:
            lines = []
            for line in self.rfile:
                if line == b".\r\n":
                    break
                lines.append(line.decode())
            return "".join(lines)

        def _say(self, words: str) -> None:
            self.wfile.write(f"{words}\r\n".encode())

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Talk) as server:
        server.daemon_threads = True
        made.port = server.server_address[1]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield made
        server.shutdown()


# Golden sets of the night: begun when they are due, compared, and an alarm once for each drop.


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
    # Three alarms, and one letter that the first drop was over.
    assert (len(mail.outbox), len(kinds())) == (4, 3)


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


# The pages of golden sets of the night, and an alarm in the inbox.


WORSE_NIGHT = {"figure": "recall@5", "mean": -0.3, "low": -0.5, "high": -0.1, "n": 20}


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
        state="dropped", is_alarm=True, regressions=[WORSE_NIGHT, {**WORSE_NIGHT, "figure": "of a later version"}]
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
    night = GoldenNight.objects.create(nightly=nightly, state="dropped", regressions=[WORSE_NIGHT])
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


@override_settings(**MAILED)
def test_the_end_of_a_drop_is_told_once(nightly: NightlyRun, as_admin: Client) -> None:
    hook, _secret = hooked("http://127.0.0.1:9/", "golden_run.dropped", "golden_run.recovered")
    for values in (GOOD, GOOD, BAD, BAD, GOOD, GOOD):
        night(nightly, values)
    assert kinds() == ["golden_run.recovered", "golden_run.dropped"]
    _fell, over = mail.outbox
    assert "as good as before again" in over.subject
    assert f"/nights/{nightly.pk}/" in over.body
    # Each message leads to the nights that it is about.
    log = as_admin.get(f"/webhooks/{hook.pk}/").content.decode()
    assert log.count(f'href="/nights/{nightly.pk}/"') == 2
    assert 'href="/evaluations/' not in log.split("<main")[1]


@override_settings(**MAILED)
def test_figures_that_were_accepted_as_a_baseline_are_no_recovery(nightly: NightlyRun) -> None:
    night(nightly, GOOD)
    nightly.baseline = night(nightly, BAD).evaluation
    nightly.save()
    assert night(nightly, BAD).state == "passed"
    assert len(mail.outbox) == 1


def test_a_slow_fall_is_told_too(nightly: NightlyRun) -> None:
    hooked("http://127.0.0.1:9/", "golden_run.dropped")
    fallen = [night(nightly, [1.0] * (20 - lost) + [0.0] * lost).state for lost in range(0, 6)]
    assert fallen == ["passed", "passed", "passed", "dropped", "dropped", "dropped"]
    # Further by a twentieth is news, as with any drop.
    assert set(kinds()) == {"golden_run.dropped"}
