"""Times as people read them: in their own time zone, and with the date where the time alone would mislead."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from django.utils import timezone

from memoryapp.models import ChatUser, Topic
from rerankui.text.time_axis import marks
from rerankui.text.words import coming
from tests.conftest import talk


def test_a_time_of_today_stands_alone_and_that_of_another_day_has_its_date() -> None:
    noon = timezone.localtime().replace(hour=12, minute=5)
    assert coming(noon) == "12:05"
    tomorrow = noon + timedelta(days=1)
    assert coming(tomorrow) == f"{tomorrow.day} {tomorrow:%B %Y}, 12:05 UTC"


def test_today_is_the_readers() -> None:
    here = timezone.now().astimezone(ZoneInfo("Pacific/Kiritimati"))
    late = here.replace(hour=23, minute=30)
    with timezone.override(here.tzinfo):
        assert coming(late.astimezone(UTC)) == "23:30"
        assert str((late + timedelta(hours=1)).day) in coming(late.astimezone(UTC) + timedelta(hours=1))


@pytest.mark.django_db
def test_the_strip_of_a_topic_names_its_messages_by_the_readers_clock(anna: ChatUser) -> None:
    [topic] = talk(anna, ("Tea", ["green?", "yes"]))
    began: datetime = Topic.objects.get(pk=topic.pk).started_at
    with timezone.override("Asia/Tokyo"):
        here = timezone.localtime(began)
        assert f"{here:%H:%M}" in marks(topic, ())[0].label
