"""The memory of another day, blame and causes in a real browser: by keys and by mouse, on a desk and on a phone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect
from pytest_django.live_server_helper import LiveServer

from memoryapp.curation import plan_merge, put_in, swap
from memoryapp.engine.events import Event
from memoryapp.models import ChatUser, Operator, Topic, TopicEdit
from tests.browser.conftest import Browse
from tests.compare.test_compare_pages import events, stored
from tests.support.browsing import PHONE, accessibility_faults, assert_fits, press, settle, topic_of

__all__ = ["events"]


@pytest.fixture
def party(anna: ChatUser) -> Topic:
    topics = [topic_of(anna, name, [name, "and more"], day=day) for day, name in enumerate(("Cake", "Tea"))]
    plan = plan_merge(anna, [topic.pk for topic in topics])
    return put_in(swap(anna, plan, kind=TopicEdit.Kind.MERGE, actor="cora", reason="one party"))[0]


@pytest.fixture
def page(admin: Operator, browse: Browse, live_server: LiveServer) -> Iterator[Page]:
    with browse(admin, "404") as page:
        yield page


def test_a_day_is_chosen_in_the_head_and_left_by_the_rule(anna: ChatUser, party: Topic, page: Page) -> None:
    page.goto(f"/memory/{anna.pk}/topics/")
    page.locator(".moment > summary").click()
    page.get_by_label("Day and time").fill("2020-03-02T10:00")
    page.locator(".moment-form button").click()
    expect(page.locator(".past-rule")).to_contain_text("2 Mar 2020, 10:00")
    expect(page.locator("#list")).to_contain_text("No topics then")
    assert accessibility_faults(page) == []
    page.get_by_role("link", name="People").first.click()
    expect(page.locator(".past-rule")).to_contain_text("2 Mar 2020, 10:00")
    page.set_viewport_size(PHONE)
    assert_fits(page, page.locator(".past-rule"))
    assert accessibility_faults(page) == []
    page.locator(".past-rule .button").click()
    expect(page.locator(".past-rule")).to_have_count(0)
    assert "as_of" not in page.url


def test_blame_is_a_key_away_and_leads_back(party: Topic, page: Page) -> None:
    page.goto(f"/topics/{party.pk}/")
    settle(page)
    press(page, "b")
    expect(page.locator(".blame-group")).to_have_count(2)
    expect(page.locator(".blame-group").nth(1)).to_contain_text("one party")
    assert accessibility_faults(page) == []
    page.set_viewport_size(PHONE)
    assert_fits(page, page.locator(".blame"))
    press(page, "b")
    page.wait_for_url(f"**/topics/{party.pk}/")


def test_the_table_of_causes_fits_a_desk_and_a_phone(anna: ChatUser, events: list[Event], page: Page) -> None:
    run = stored(anna, events)
    page.goto(f"/runs/{run.pk}/causes/")
    settle(page)
    assert accessibility_faults(page) == []
    page.set_viewport_size(PHONE)
    assert_fits(page, page.locator(".cause-table"))
    assert accessibility_faults(page) == []
