"""The usage of the last days' recalls, and which of them need attention."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from django.test import Client

from memoryapp.insight.browsing.usage import usage, worst_runs
from memoryapp.models import ChatUser, Evaluation, Run
from tests.support.browsing import get

NOW = datetime(2026, 3, 31, 12, 0, tzinfo=UTC)


def asked(owner: ChatUser, *, days_ago: float = 0, **columns: object) -> Run:
    run = Run.objects.create(owner=owner, query="vllm?", strategy="flash", **{"state": "finished", **columns})
    Run.objects.filter(pk=run.pk).update(created_at=NOW - timedelta(days=days_ago))
    return run


def test_recalls_are_counted_timed_and_priced(anna: ChatUser, boris: ChatUser) -> None:
    for seconds in (1, 2, 3):
        asked(anna, seconds=seconds, cost_usd=0.5)
    asked(anna, seconds=9, fallback="timeout", days_ago=29)
    asked(anna, seconds=4, fallback="disabled")
    asked(anna, state="running")
    asked(anna, seconds=70, days_ago=31)
    asked(anna, seconds=70, evaluation=Evaluation.objects.create(source="golden"))
    asked(boris, seconds=70)

    found = usage(ChatUser.objects.filter(pk=anna.pk), now=NOW, zone=UTC)

    assert (found.recalls, found.fallbacks, found.fallback_percent, found.cost_usd) == (6, 1, 17, 1.5)
    assert (found.median_seconds, found.p95_seconds) == pytest.approx((3, 8))
    assert [(day.day.isoformat(), day.recalls, day.fallbacks) for day in found.days if day.recalls] == [
        ("2026-03-02", 1, 1),
        ("2026-03-31", 5, 0),
    ]
    assert len(found.days) == 30


def test_nothing_asked_is_thirty_days_of_nothing(anna: ChatUser) -> None:
    found = usage(ChatUser.objects.all(), now=NOW, zone=UTC)
    assert (found.recalls, found.median_seconds, found.fallback_percent, len(found.days)) == (0, None, 0, 30)


def test_a_day_is_one_of_the_reader(anna: ChatUser) -> None:
    asked(anna, days_ago=0.25)
    tokyo = usage(ChatUser.objects.all(), now=NOW, zone=ZoneInfo("Asia/Tokyo"))
    honolulu = usage(ChatUser.objects.all(), now=NOW, zone=ZoneInfo("Pacific/Honolulu"))
    assert [day.day.day for found in (tokyo, honolulu) for day in found.days if day.recalls] == [31, 30]


def test_runs_that_fell_back_come_before_slow_ones(anna: ChatUser) -> None:
    quick, slow = asked(anna, seconds=1), asked(anna, seconds=8)
    fell_back = asked(anna, seconds=2, fallback="llm_error")
    asked(anna, state="running")
    assert list(worst_runs(ChatUser.objects.all(), now=NOW, zone=UTC)) == [fell_back, slow, quick]


def test_the_overview_tells_of_the_memories_one_may_see(as_viewer: Client, anna: ChatUser, boris: ChatUser) -> None:
    for owner, seconds in ((anna, 1.5), (anna, 2.5), (boris, 600.0)):
        Run.objects.create(owner=owner, query=f"{owner}?", strategy="flash", state="finished", seconds=seconds)
    page = get(as_viewer, "/")
    assert "2.00 s" in page
    # Times, tokens and ids of runs have these digits now and then, but only in attributes or beside others.
    assert not re.search(r"\b600\b", re.sub(r"<[^>]*>", " ", page))
    assert "Boris" not in page
