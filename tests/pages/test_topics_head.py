"""The head of a topic's page: a short title, the messages over time, and a link to each of them."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from memoryapp.models import ChatUser
from rerankui.text.markdown import beyond, headline
from rerankui.text.time_axis import marks
from tests.support.browsing import get, rows, topic_of

GEORGIA = "Plan of the trip to Georgia from 30 April to 10 May 2026: five nights in Sololaki, then the hills. Tickets."


@pytest.mark.parametrize(
    ("summary", "title"),
    [
        ("", ""),
        ("Honey cake", "Honey cake"),
        ("Honey cake. The oven was hot.", "Honey cake"),
        ("Honey cake · The oven was hot", "Honey cake"),
        (GEORGIA, "Plan of the trip to Georgia from 30 April to 10 May 2026"),
        ("Врач сказал: колено. Потом МРТ", "Врач сказал: колено"),
        ("see v1.5 of example.com for more", "see v1.5 of example.com for more"),
        ("word " * 30, "word " * 15 + "word…"),
        ("x" * 200, "x" * 24 + "…"),
    ],
)
def test_a_title_is_what_the_summary_begins_with(summary: str, title: str) -> None:
    assert headline(summary) == title


@pytest.mark.parametrize(
    "summary", ["Oven, cake — Masha: When? (5 May 2026)", "Honey cake (5 May 2026)", "Торт (5 мая 2026)"]
)
def test_a_summary_that_adds_only_its_day_is_not_repeated(anna: ChatUser, as_viewer: Client, summary: str) -> None:
    topic = topic_of(anna, summary, ["When?"])
    assert "topic-summary" not in get(as_viewer, f"/topics/{topic.pk}/")


@pytest.mark.parametrize(
    ("summary", "more"),
    [
        ("Honey cake", ""),
        ("Honey cake. The oven was hot.", "The oven was hot."),
        ("Honey cake · the oven was hot", "The oven was hot"),
        ("word " * 30, ("word " * 30).strip()),
    ],
)
def test_what_a_title_says_is_not_said_again_below_it(summary: str, more: str) -> None:
    """Unless it is cut: then the whole summary follows."""
    assert beyond(summary, headline(summary)) == more


def test_a_topic_has_a_short_title_with_the_rest_of_its_summary_below(anna: ChatUser, as_viewer: Client) -> None:
    long, short = topic_of(anna, GEORGIA, ["When?", "In May"]), topic_of(anna, "Honey cake.", ["Which?"], day=1)
    page = get(as_viewer, f"/topics/{long.pk}/")
    assert '<h1 class="topic-title">Plan of the trip to Georgia from 30 April to 10 May 2026</h1>' in page
    assert '<p dir="auto" class="topic-summary">Five nights in Sololaki, then the hills. Tickets.</p>' in page
    assert "topic-summary" not in get(as_viewer, f"/topics/{short.pk}/")


@pytest.mark.slow
def test_the_strip_leads_to_messages_of_this_page_and_of_others(anna: ChatUser, as_viewer: Client) -> None:
    topic = topic_of(anna, "Long", [f"message {n}" for n in range(220)])
    page = get(as_viewer, f"/topics/{topic.pk}/")
    links = re.findall(r'<a href="([^"]*)" class="minimap-user', page)
    assert len(links) == 220
    assert links[0] == f"#message-{rows(page, 'message')[0]}"
    last = topic.message_set.latest("pk").pk
    assert links[-1] == f"?at={last}#message-{last}"
    around = get(as_viewer, f"/topics/{topic.pk}/?at={last}")
    assert re.search(rf'is-here[^>]*id="message-{last}"', around)
    assert rows(around, "message")[-1] == last


@pytest.mark.slow
def test_a_very_long_topic_has_as_many_bars_as_can_be_distinguished(anna: ChatUser) -> None:
    topic = topic_of(anna, "Long", ["x"] * 700)
    found = marks(topic, [])
    assert 200 <= len(found) <= 300
    assert all(mark.left >= 0 and mark.left + mark.width <= 100.001 for mark in found)
    assert marks(topic_of(anna, "One", ["x"], day=1), []) == []
