"""Times are shown in the reader's time zone, and days begin at the reader's midnight."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from django.test import Client
from django.utils import timezone

from memoryapp.models import ChatUser, Run
from rerankui.runs import fragments
from rerankui.runs.fragments import Seen
from rerankui.templatetags.memory import clock, span_of
from rerankui.text.words import absolute
from rerankui.web.pages import COOKIE, reader_zone, zone_names
from tests.support.browsing import get, message_of, topic_of

EVENING = datetime(2026, 3, 2, 22, 30, tzinfo=UTC)


def test_only_zones_of_places_are_chosen_from() -> None:
    names = zone_names()
    assert names[0] == "UTC"
    assert {"Europe/Berlin", "Asia/Tokyo", "America/Argentina/Buenos_Aires"} < set(names)
    assert not {"localtime", "Factory", "GB", "Etc/GMT+4", "EST5EDT", "posixrules"} & set(names)
    assert 300 < len(names) < 550


@pytest.mark.parametrize(
    ("name", "offset"),
    [("Asia/Tokyo", 9), ("America%2FNew_York", -5), ("", 0), ("Nowhere/Land", 0), ("America", 0), ("../etc/passwd", 0)],
)
def test_a_zone_is_taken_from_the_cookie_and_nothing_else_is_one(name: str, offset: int) -> None:
    assert EVENING.astimezone(reader_zone({COOKIE: name})).utcoffset() == timedelta(hours=offset)


def test_moments_are_written_on_the_readers_clock_with_its_zone() -> None:
    with timezone.override(ZoneInfo("Asia/Tokyo")):
        assert (absolute(EVENING), clock(EVENING)) == ("3 March 2026, 07:30 JST", "07:30")
        assert span_of(EVENING - timedelta(hours=8), EVENING) == "2 Mar 2026 – 3 Mar 2026"
    with timezone.override(ZoneInfo("America/Sao_Paulo")):
        assert absolute(EVENING) == "2 March 2026, 19:30 UTC-03"
    assert absolute(EVENING) == "2 March 2026, 22:30 UTC"


def test_a_day_of_the_talk_begins_at_the_readers_midnight(as_viewer: Client, anna: ChatUser) -> None:
    """Nine and three o'clock in London are one day; in Tokyo midnight is between them."""
    topic_of(anna, "One day", ["Good morning"])
    message_of(anna, "Good afternoon", minutes=360)
    address = f"/memory/{anna.pk}/messages/"
    assert re.findall(r'class="day"><span>([^<]+)', get(as_viewer, address)) == ["Monday, 2 March 2026"]
    as_viewer.cookies[COOKIE] = "Asia/Tokyo"
    there = get(as_viewer, address)
    assert re.findall(r'class="day"><span>([^<]+)', there) == ["Monday, 2 March 2026", "Tuesday, 3 March 2026"]
    assert "18:00" in there
    assert "00:00" in there


def test_a_frame_of_a_live_run_is_on_the_readers_clock(anna: ChatUser) -> None:
    run = Run.objects.create(owner=anna, query="vllm?", strategy="flash")
    Run.objects.filter(pk=run.pk).update(created_at=EVENING)
    html = fragments.frame(run.pk, seen=Seen(), language="en", zone=ZoneInfo("Asia/Tokyo")).html
    assert "3 March 2026, 07:30 JST" in html
