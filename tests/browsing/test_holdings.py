"""The counts of each memory, at a fixed number of queries."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import patch

import pytest
from django.utils import timezone

from memoryapp.insight.browsing.quality import Holdings, holdings, last_year
from memoryapp.models import ChatUser, Message
from tests.support.browsing import message_of


@pytest.fixture
def owners(anna: ChatUser, boris: ChatUser) -> list[ChatUser]:
    for text, age in (("Long ago.", timedelta(days=400)), ("Just now.", timedelta(0))):
        Message.objects.filter(pk=message_of(anna, text).pk).update(sent_at=timezone.now() - age)
    return [anna, boris]


def test_the_queries_do_not_grow_with_the_chat_users(owners: list[ChatUser], django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(7):
        found = holdings(owners)
    assert (found[owners[0].pk].messages, found[owners[0].pk].waiting) == (2, 2)
    assert found[owners[1].pk] == Holdings()


def test_months_are_counted_only_where_they_are_asked_for(
    owners: list[ChatUser], django_assert_num_queries: Any
) -> None:
    assert holdings(owners)[owners[0].pk].months == ()
    with django_assert_num_queries(8):
        found = holdings(owners, by_month=True)
    assert found[owners[0].pk].months == (*[0] * 11, 1)
    assert found[owners[1].pk].months == (0,) * 12


def test_a_message_belongs_to_the_month_of_the_readers_clock(anna: ChatUser) -> None:
    first = datetime(2027, 5, 1, 0, 30, tzinfo=UTC)
    Message.objects.filter(pk=message_of(anna, "At night.").pk).update(sent_at=first)
    with patch("django.utils.timezone.now", return_value=first + timedelta(days=9)):
        assert last_year([anna.pk])[anna.pk][-2:] == (0, 1)
        with timezone.override("America/New_York"):
            assert last_year([anna.pk])[anna.pk][-2:] == (1, 0)


def test_the_last_month_is_that_of_the_readers_clock(anna: ChatUser) -> None:
    """In Tokyo the first of May begins in the evening of UTC's April, in New York it is still April in UTC's May."""
    at = datetime(2027, 4, 30, 18, 30, tzinfo=UTC)
    Message.objects.filter(pk=message_of(anna, "At night.").pk).update(sent_at=at)
    for zone, now in (("Asia/Tokyo", at), ("America/New_York", at + timedelta(hours=8))):
        with patch("django.utils.timezone.now", return_value=now), timezone.override(zone):
            assert last_year([anna.pk])[anna.pk][-2:] == (0, 1), zone
