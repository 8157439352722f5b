"""What surrounds every page, in a browser: the phone's bar, and axe-core without a finding on every page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from pytest_django.live_server_helper import LiveServer

from memoryapp.models import Artifact, ChatUser, Fact, Operator, Person, Topic
from tests.browsing import PHONE, assert_accessible, grow
from tests.test_live import CHROMIUM
from tests.watched import watched

pytestmark = [pytest.mark.browser, pytest.mark.skipif(not CHROMIUM, reason="no chromium was found on this machine")]


@pytest.fixture
def page(
    transactional_db: None,
    anna: ChatUser,
    admin: Operator,
    live_server: LiveServer,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Page]:
    """Signed in as an admin, before a grown memory."""
    grow(anna, 4)
    with watched(admin, live_server, settings, monkeypatch, "status of 404") as page:
        yield page


def test_a_phone_has_five_sections_and_the_others_behind_more(page: Page, anna: ChatUser) -> None:
    page.set_viewport_size(PHONE)
    page.goto("/")
    rail = page.get_by_role("navigation", name="Sections")
    expect(rail.get_by_role("link")).to_have_text(
        ["Overview", "Recall", "Runs", "Topics", "Curate"], use_inner_text=True
    )
    rail.get_by_text("More").click()
    expect(rail.locator(".rail-more a")).to_have_text(
        ["Messages", "People", "Artifacts", "Facts", "History", "Prompts", "API tokens"]
    )
    rail.get_by_role("link", name="People").click()
    expect(page.locator("h1")).to_have_text("People")
    expect(rail.locator("summary[aria-current]")).to_have_text("More")


def test_pages_are_free_of_findings(page: Page, anna: ChatUser) -> None:
    memory = f"/memory/{anna.pk}"
    topic, person = Topic.objects.earliest("pk"), Person.objects.earliest("pk")
    fact, artifact = Fact.objects.earliest("pk"), Artifact.objects.earliest("pk")
    for address in (
        "/",
        f"{memory}/",
        f"{memory}/topics/",
        f"/topics/{topic.pk}/",
        f"{memory}/map/",
        f"{memory}/messages/",
        f"{memory}/people/",
        f"{memory}/people/{person.pk}/",
        f"{memory}/people/{person.pk}/edit/",
        f"{memory}/facts/",
        f"{memory}/facts/{fact.pk}/",
        f"{memory}/artifacts/",
        f"{memory}/artifacts/{artifact.pk}/",
        f"{memory}/queue/",
        f"{memory}/history/",
        f"{memory}/imports/",
        f"{memory}/recall/",
        "/runs/",
        "/prompts/",
        "/prompts/rerank/en/",
        "/tokens/",
        "/tokens/make/",
        "/nowhere/",
    ):
        assert_accessible(page, address)
