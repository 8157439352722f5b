"""Alarms: told once when something is late, once when it is over, and no more often, whatever the clock does."""

import os
import zipfile
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.core import mail
from django.test import Client, override_settings
from django.utils import timezone, translation

from memoryapp.intake.messages import add_messages
from memoryapp.models import (
    AgentCall,
    Alarm,
    ApiToken,
    ChatUser,
    GuardSpot,
    Heartbeat,
    Message,
    Rhythm,
    WebhookDelivery,
)
from memoryapp.platform import work
from memoryapp.platform.accounts import tokens
from memoryapp.platform.webhooks import sending
from memoryapp.upkeep import alarms, watches
from memoryapp.upkeep.watches import FAULTS, PROCESSES, WATCHES, Sign, Watch
from tests.conftest import record
from tests.platform.receiver import hooked, receiving

pytestmark = pytest.mark.django_db(transaction=True)
START = datetime(2030, 1, 7, 9, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
MAILED: dict[str, Any] = {"EMAIL_URL": "smtp://x", "ALARM_MAIL": ["ops@b.example"]}


def probe(found: list[Sign], **more: Any) -> Watch:
    words = {"label": "Probe", "trouble": "%(what)s since %(since)s", "advice": "", "route": "alarms"}
    return Watch(
        **{"name": "stage", "look": lambda now: list(found), "period": 1800, "counts_work": True, **words, **more}
    )


def minutes(watch: Watch, count: int, at: datetime, *more: Watch) -> datetime:
    """Looks once a minute, so often; returns the time afterwards."""
    for _ in range(count):
        alarms.look([watch, *more], at)
        at += MINUTE
    return at


def news() -> list[str]:
    return list(WebhookDelivery.objects.order_by("pk").values_list("kind", flat=True))


def test_a_stage_that_fails_in_silence_is_told_once_and_heals_once() -> None:
    hooked("http://127.0.0.1:9/", "alarm.raised", "alarm.healed")
    # Work that came after days without any is late only after its own time.
    found = [Sign("archive", good_at=START - timedelta(days=5), depth=5)]
    at = minutes(probe(found), 34, START)
    assert news() == []
    at = minutes(probe(found), 30, at)
    assert (news(), Alarm.objects.get().raised_at) == (["alarm.raised"], START + timedelta(minutes=35))
    # A second process that looks at the same moment tells nothing again.
    alarms.look([probe(found)], at - MINUTE)
    found[:] = [Sign("archive", depth=3)]
    at = minutes(probe(found), 2, at)
    assert news() == ["alarm.raised", "alarm.healed"]
    # What an outage lasted is no rhythm.
    assert Rhythm.objects.get().usual is None
    found[:] = [Sign("archive", is_due=False)]
    minutes(probe(found), 100, at)
    assert news() == ["alarm.raised", "alarm.healed"]


def test_a_long_stop_raises_no_storm_and_heals_nothing() -> None:
    found = [Sign(str(number), good_at=START) for number in range(40)]
    watch = probe(found, name="token", period=3600, counts_work=False)
    at = minutes(watch, 70, START)
    assert Alarm.objects.filter(healed_at=None).count() == 40
    Alarm.objects.filter(rhythm__subject__gt="0").delete()
    at = minutes(watch, 5, at + timedelta(days=3))
    # The grace begins anew, and the one that was told is not over.
    assert Alarm.objects.filter(healed_at=None).count() == 1
    minutes(watch, 2, at)
    assert Alarm.objects.filter(healed_at=None).count() == 40


def test_what_comes_and_goes_is_told_a_few_times_a_day() -> None:
    hooked("http://127.0.0.1:9/", "alarm.raised")
    watch, at = probe([], name="disk", period=0, counts_work=False), START
    for minute in range(24 * 60):
        object.__setattr__(watch, "look", lambda now, minute=minute: [Sign("", minute % 20 < 12)])
        alarms.look([watch], at)
        at += MINUTE
    assert 2 <= len(news()) <= 6


def test_a_rhythm_is_learnt_forgotten_and_set_by_hand() -> None:
    found = [Sign("7", good_at=START)]
    watch = probe(found, name="token", period=10_800, counts_work=False, needs_past=True)
    alarms.look([watch], START)
    for day in (1, 2, 3):
        at = minutes(watch, 2, START + timedelta(days=day) - MINUTE)
        found[:] = [Sign("7", good_at=START + timedelta(days=day))]
        alarms.look([watch], at)
    rhythm = Rhythm.objects.get()
    assert rhythm.usual == pytest.approx(86_400, rel=0.01)
    # Three days without it are late, after a grace.
    last = START + timedelta(days=3)
    minutes(watch, 30, last + timedelta(hours=23, minutes=50))
    assert not Alarm.objects.exists()
    Rhythm.objects.update(period=3600)
    minutes(watch, 30, last + timedelta(hours=24))
    assert Alarm.objects.count() == 1


def test_a_watch_that_fails_stops_no_other_and_is_told(caplog: pytest.LogCaptureFixture) -> None:
    def broken(now: datetime) -> Sequence[Sign]:
        raise ValueError("broken")

    at = minutes(probe([], name="token", look=broken), 7, START, probe([Sign("a")], name="disk", period=0), FAULTS)
    told = Alarm.objects.order_by("rhythm__watch").values_list("rhythm__watch", "rhythm__subject")
    assert list(told) == [("disk", "a"), ("watch", "token")]
    minutes(FAULTS, 1, at)
    assert Alarm.objects.get(rhythm__watch="watch").healed_at is not None


@override_settings(**MAILED)
def test_a_receiver_and_people_get_one_message_each_for_both_ends() -> None:
    found = [Sign("archive", good_at=START, depth=5)]
    with receiving() as receiver:
        _hook, secret = hooked(receiver.url, "alarm.raised", "alarm.healed")
        at = START
        for sign in (found[0], Sign("archive", is_due=False)):
            found[:] = [sign]
            at = minutes(probe(found), 60, at)
            for _again in range(2):
                alarms.send_mail_due()
                async_to_sync(sending.send_due)()
        bodies = [receiver.verified(secret, place) for place in range(2)]
    assert [body["type"] for body in bodies] == ["alarm.raised", "alarm.healed"]
    data = bodies[0]["data"]
    assert (data["watch"], data["subject"], data["waiting"], data["healed_at"]) == ("stage", "archive", 5, None)
    assert len(receiver.ids) == len(mail.outbox) == 2
    assert [letter.to for letter in mail.outbox] == [MAILED["ALARM_MAIL"]] * 2
    assert mail.outbox[0].subject.startswith("Trouble: “Archive” has not succeeded since 2030-01-07")
    assert mail.outbox[1].subject == "Over: Stages of the pipeline: Archive"


def signs(name: str, now: datetime | None = None) -> dict[str, Sign]:
    return {sign.subject: sign for sign in WATCHES[name].signs(now or timezone.now())}


def test_what_the_watches_see(anna: ChatUser, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not any(sign.is_due for name, watch in WATCHES.items() if name != "process" for sign in watch.signs(START))
    # Work waits, and is paused.
    add_messages(anna, [record(1, "hello", at=datetime(2020, 1, 1, tzinfo=UTC))])
    assert signs("stage")["archive"].is_due
    for whose in (None, anna):
        work.pause(work.ARCHIVE, "ada", whose)
        assert not signs("stage")["archive"].is_due
        work.resume(work.ARCHIVE, whose)
    GuardSpot.objects.create(owner=anna, message=Message.objects.get(), kind="keys", state="held")
    assert signs("inbox")["held"].is_due
    # Three answers in a row that did not come, and one that did.
    for _n in range(3):
        AgentCall.objects.create(owner=anna, agent="splitter", outcome="llm_error")
    assert signs("endpoint")["chat"].is_due
    AgentCall.objects.create(owner=anna, agent="splitter")
    assert not signs("endpoint")["chat"].is_due
    token, _text = tokens.make("bot", [ApiToken.Scope.INGEST], [anna])
    tokens.captured(token)
    assert str(token.pk) in signs("token")
    assert WATCHES["token"].names_of([str(token.pk)]) == {str(token.pk): "bot"}
    # A backup that does not read is none.
    settings.BACKUP_DIR = str(tmp_path)
    (tmp_path / "half.backup").write_bytes(b"PK half")
    assert signs("backup")[""].good_at is None
    with zipfile.ZipFile(tmp_path / "whole.backup", "w") as archive:
        archive.writestr("manifest.json", '{"format": 1, "at": "x", "migrations": [], "files": 0}')
        archive.writestr("database.dump", "x")
    os.utime(tmp_path / "whole.backup", (1_000_000_000, 1_000_000_000))
    assert signs("backup")[""].good_at == datetime.fromtimestamp(1_000_000_000, UTC)
    settings.PUBLIC_URL = "https://memory.example.com"
    monkeypatch.setattr(watches, "_end_of", lambda host, port, hour: START)
    for days, ends_soon in ((13, True), (15, False)):
        assert signs("certificate", START - timedelta(days=days))["memory.example.com"].is_due == ends_soon
    settings.DISK_RESERVE_BYTES = 10**18
    assert signs("disk")[""].is_due


def test_the_web_process_tells_of_a_silent_worker() -> None:
    for process in ("worker", "beat"):
        Heartbeat.objects.create(process=process, at=timezone.now() - timedelta(hours=1))
    minutes(PROCESSES, 4, START)
    assert Alarm.objects.count() == 2
    assert alarms._are_silent()
    Heartbeat.objects.update(at=timezone.now())
    assert not alarms._are_silent()


def test_words_exist_in_both_languages_and_a_reader_sees_what_names_nobody(
    as_viewer: Client, as_admin: Client, anna: ChatUser
) -> None:
    for name, subject in (("cap", "all"), ("cap", str(anna.pk)), ("token", "1"), ("stage", "archive"), ("disk", "")):
        rhythm = Rhythm.objects.create(watch=name, subject=subject)
        Alarm.objects.create(rhythm=rhythm, raised_at=START)
    for language in ("en", "ru"):
        with translation.override(language):
            assert len({each.sentence for each in alarms.told(Alarm.objects.all())}) == 5
    for page in ("/", "/pipeline/", "/pipeline/alarms/"):
        seen, all_seen = (client.get(page).content.decode() for client in (as_viewer, as_admin))
        assert ("used to send messages" in seen, "used to send messages" in all_seen) == (False, True)
        assert "The disk of the data folder is nearly full" in seen
    assert "Анна" in as_admin.get("/pipeline/alarms/").content.decode()
    assert as_viewer.post("/pipeline/alarms/", {}).status_code == 403
    rhythm = Rhythm.objects.get(watch="token")
    as_admin.post("/pipeline/alarms/", {"rhythm": rhythm.pk, "period": "6h", "hours": "24"})
    rhythm.refresh_from_db()
    assert (rhythm.period, rhythm.silent_until is not None) == (21_600, True)
    assert "used to send messages" not in as_admin.get("/").content.decode()
    as_admin.post("/pipeline/alarms/", {"rhythm": rhythm.pk, "period": "soon"})
    rhythm.refresh_from_db()
    assert rhythm.period == 21_600
