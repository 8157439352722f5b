"""What surrounds every page, in a browser: the phone's bar, and axe-core without a finding on every page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from memoryapp import curation, knowledge
from memoryapp.models import Artifact, ChatUser, Erasure, Fact, ImportBatch, Operator, Person, Topic, TopicEdit
from tests.browser.conftest import Browse
from tests.support.browsing import PHONE, assert_accessible, grow, message_of, topic_of
from tests.support.evaluations import score, stored, unanswerable


@pytest.fixture
def page(anna: ChatUser, admin: Operator, browse: Browse) -> Iterator[Page]:
    """Signed in as an admin, before a grown memory."""
    grow(anna, 4)
    # one page is missing, and one test goes offline
    with browse(admin, "status of 404", "ERR_INTERNET_DISCONNECTED") as page:
        yield page


def test_a_phone_has_five_sections_and_the_others_behind_more(page: Page, anna: ChatUser) -> None:
    page.set_viewport_size(PHONE)
    page.goto("/")
    rail = page.get_by_role("navigation", name="Sections")
    expect(rail.get_by_role("link")).to_have_text(
        ["Overview", "Recall", "Runs", "Topics", "Curate"], use_inner_text=True
    )
    rail.get_by_text("More").click()
    of_a_memory = ["Ask", "Messages", "People", "Artifacts", "Facts", "Review", "History"]
    others = ["Pipeline", "Agents", "Prompts", "Embedding", "API tokens"]
    expect(rail.locator(".rail-more a")).to_have_text([*of_a_memory, *others], use_inner_text=True)
    rail.get_by_role("link", name="People").click()
    expect(page.locator("h1")).to_have_text("People")
    expect(rail.locator("summary[aria-current]")).to_have_text("More")


def test_a_page_says_when_the_server_is_out_of_reach_and_takes_it_back(page: Page, anna: ChatUser) -> None:
    page.goto(f"/memory/{anna.pk}/people/")
    page.wait_for_load_state()
    page.context.set_offline(True)
    expect(page.get_by_role("alert")).to_contain_text("The server does not answer")
    page.context.set_offline(False)
    expect(page.locator("#trouble")).to_be_hidden()


def test_a_browser_names_its_zone_on_the_first_page_it_opens(anna: ChatUser, viewer: Operator, browse: Browse) -> None:
    topic_of(anna, "One day", ["Good morning"])
    with browse(viewer, timezone_id="Asia/Tokyo") as page:
        page.goto("/")
        page.goto(f"/memory/{anna.pk}/messages/")
        expect(page.locator(".message-side a")).to_have_attribute("title", "2 March 2026, 18:00 JST")


def test_pages_are_free_of_findings(page: Page, anna: ChatUser) -> None:
    memory = f"/memory/{anna.pk}"
    topic, person = Topic.objects.earliest("pk"), Person.objects.earliest("pk")
    fact, artifact = Fact.objects.earliest("pk"), Artifact.objects.earliest("pk")
    change = curation.plan_edit(anna, topic.pk, "A summary of one's own")
    made = curation.swap(anna, change, kind=TopicEdit.Kind.EDIT, actor="ada")
    renamed = knowledge.edit(anna, person, {"bio": "A vet."}, actor="ada")
    batch = ImportBatch.objects.create(owner=anna, source="chat.jsonl")
    message_of(anna, "Imported", minutes=9_000, batch=batch)
    erased = Erasure.objects.create(owner_number=9_000, actor="ada", counts={"message": 12, "topic": 3})
    flash = stored(anna, [score(covered=2), unanswerable(qid="u")])
    stored(anna, [score(), unanswerable(qid="u", refused=True)], "vector", flash)
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
        f"{memory}/review/",
        f"{memory}/extraction/",
        f"{memory}/history/",
        f"{memory}/imports/",
        f"{memory}/history/edits/{made.pk}/",
        f"{memory}/history/edits/{TopicEdit.objects.earliest('pk').pk}/",
        f"{memory}/history/changes/{renamed.pk}/",
        f"{memory}/history/range/?by=ada",
        f"{memory}/imports/{batch.pk}/withdraw/",
        f"{memory}/work/",
        "/work/",
        f"{memory}/erase/",
        f"/erasures/{erased.pk}/",
        "/account/",
        "/account/password/",
        f"{memory}/ask/",
        f"{memory}/recall/",
        "/runs/",
        "/evaluations/",
        f"/evaluations/{flash.pk}/",
        "/prompts/",
        "/prompts/rerank/en/",
        "/tokens/",
        "/tokens/make/",
        "/nowhere/",
    ):
        assert_accessible(page, address)
