"""What surrounds every page, in a browser: the phone's bar, and axe-core without a finding on every page."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from memoryapp import curation
from memoryapp.curation import knowledge
from memoryapp.models import Artifact, ChatUser, Erasure, Fact, ImportBatch, Operator, Person, Topic, TopicEdit
from tests.browser.conftest import Browse
from tests.support.browsing import PHONE, assert_accessible, grow, message_of, topic_of
from tests.support.evaluations import score, stored, unanswerable

# Of the pages that are looked through, with the names of ``numbers``.
ADDRESSES = (
    "/",
    "/{memory}/",
    "/{memory}/topics/",
    "/topics/{topic}/",
    "/{memory}/map/",
    "/{memory}/messages/",
    "/{memory}/people/",
    "/{memory}/people/{person}/",
    "/{memory}/people/{person}/edit/",
    "/{memory}/facts/",
    "/{memory}/facts/{fact}/",
    "/{memory}/artifacts/",
    "/{memory}/artifacts/{artifact}/",
    "/{memory}/queue/",
    "/{memory}/review/",
    "/{memory}/extraction/",
    "/{memory}/history/",
    "/{memory}/imports/",
    "/{memory}/history/edits/{made}/",
    "/{memory}/history/edits/{first}/",
    "/{memory}/history/changes/{renamed}/",
    "/{memory}/history/range/?by=ada",
    "/{memory}/imports/{batch}/withdraw/",
    "/{memory}/work/",
    "/work/",
    "/{memory}/erase/",
    "/erasures/{erased}/",
    "/account/",
    "/account/password/",
    "/{memory}/ask/",
    "/{memory}/recall/",
    "/{memory}/inbox/",
    "/{memory}/inbox/clusters/",
    "/{memory}/inbox/failures/",
    "/{memory}/misses/",
    "/{memory}/misses/report/",
    "/{memory}/quality/",
    "/{memory}/bulk/",
    "/quality/",
    "/runs/",
    "/evaluations/",
    "/evaluations/{flash}/",
    "/prompts/",
    "/prompts/rerank/en/",
    "/tokens/",
    "/tokens/make/",
    "/operators/",
    "/operators/new/",
    "/memory/new/",
    "/{memory}/settings/",
    "/erasures/",
    "/find/?q=a",
    "/nowhere/",
)
PARTS = 5


@pytest.fixture
def page(anna: ChatUser, admin: Operator, browse: Browse) -> Iterator[Page]:
    """Signed in as an admin, before a grown memory."""
    grow(anna, 4)
    # one page is missing, and one test goes offline
    with browse(admin, "status of 404", "ERR_INTERNET_DISCONNECTED") as page:
        yield page


def test_two_strategies_of_an_evaluation_fit_a_phone(page: Page, anna: ChatUser) -> None:
    flash = stored(anna, [score(qid=str(n), covered=n % 3) for n in range(9)])
    stored(anna, [score(qid=str(n), hits=0) for n in range(9)], "vector", flash)
    page.set_viewport_size(PHONE)
    page.goto(f"/evaluations/{flash.pk}/")
    expect(page.locator(".evaluation-change").first).to_be_visible()
    over = "all => all.map(table => table.scrollWidth - table.clientWidth)"
    assert page.locator(".evaluation-scroll").evaluate_all(over) == [0, 0]


def test_a_phone_has_five_sections_and_the_others_behind_more(page: Page, anna: ChatUser) -> None:
    page.set_viewport_size(PHONE)
    page.goto("/")
    rail = page.get_by_role("navigation", name="Sections")
    expect(rail.get_by_role("link")).to_have_text(["Overview", "Ask", "Runs", "Topics", "Inbox"], use_inner_text=True)
    rail.get_by_text("More").click()
    of_a_memory = ["Messages", "People", "Facts", "Artifacts", "Quality", "Import", "History"]
    others = ["Pipeline", "Prompts", "Access", "Webhooks", "Settings"]
    expect(rail.locator(".rail-more a")).to_have_text(["Evaluate", *of_a_memory, *others], use_inner_text=True)
    rail.get_by_role("link", name="People").click()
    expect(page.locator("h1")).to_have_text("People")
    expect(rail.locator("summary[aria-current]")).to_have_text("More")


def test_a_closed_group_of_the_navigation_stays_closed(page: Page, anna: ChatUser) -> None:
    page.goto("/")
    rail = page.get_by_role("navigation", name="Sections")
    rail.locator("summary", has_text="System").click()
    expect(rail.get_by_role("link", name="Pipeline")).to_be_hidden()
    page.wait_for_function("document.cookie.includes('closed_groups=system')")
    page.goto(f"/memory/{anna.pk}/topics/")
    expect(rail.get_by_role("link", name="Facts", exact=True)).to_be_visible()
    expect(rail.get_by_role("link", name="Pipeline")).to_be_hidden()


def test_the_palette_acts_by_a_key(page: Page, anna: ChatUser) -> None:
    page.goto(f"/memory/{anna.pk}/topics/")
    page.keyboard.press("Control+k")
    page.keyboard.type("dark")
    expect(page.locator("#palette-found button")).to_have_text([re.compile("Theme: dark"), re.compile("“dark”")])
    page.keyboard.press("Enter")
    expect(page.locator("html")).to_have_attribute("data-bs-theme", "dark")
    assert page.url.endswith(f"/memory/{anna.pk}/topics/")


def test_a_page_says_when_the_server_is_out_of_reach_and_takes_it_back(page: Page, anna: ChatUser) -> None:
    page.goto(f"/memory/{anna.pk}/people/")
    page.wait_for_load_state()
    page.context.set_offline(True)
    expect(page.get_by_role("alert")).to_contain_text("The server does not answer")
    page.context.set_offline(False)
    expect(page.locator("#trouble")).to_be_hidden()


@pytest.mark.parametrize(
    ("status", "sentence"), [(503, "The server does not answer"), (500, "The server refused this")]
)
def test_a_page_says_when_an_answer_is_refused_until_one_comes(
    anna: ChatUser, viewer: Operator, browse: Browse, status: int, sentence: str
) -> None:
    with browse(viewer, f"status of {status}", f"Status Error Code {status}") as page:
        page.goto(f"/memory/{anna.pk}/topics/")
        page.route("**/topics/?q=*", lambda route: route.fulfill(status=status))
        page.get_by_role("searchbox").first.fill("cake")
        expect(page.get_by_role("alert")).to_contain_text(sentence)
        page.unroute("**/topics/?q=*")
        page.get_by_role("searchbox").first.fill("cakes")
        expect(page.locator("#trouble")).to_be_hidden()


def test_a_browser_names_its_zone_on_the_first_page_it_opens(anna: ChatUser, viewer: Operator, browse: Browse) -> None:
    topic_of(anna, "One day", ["Good morning"])
    with browse(viewer, timezone_id="Asia/Tokyo") as page:
        page.goto("/")
        page.goto(f"/memory/{anna.pk}/messages/")
        expect(page.locator(".message-side a")).to_have_attribute("title", "2 March 2026, 18:00 JST")


@pytest.fixture
def numbers(page: Page, anna: ChatUser) -> dict[str, object]:
    """What the names in ``ADDRESSES`` stand for, in a memory with a row of each kind."""
    topic, person = Topic.objects.earliest("pk"), Person.objects.earliest("pk")
    fact, artifact = Fact.objects.earliest("pk"), Artifact.objects.earliest("pk")
    change = curation.plan_edit(anna, topic.pk, "A summary of one's own")
    made = curation.swap(anna, change, kind="edit", actor="ada")
    renamed = knowledge.edit(anna, person, {"bio": "A vet."}, actor="ada")
    batch = ImportBatch.objects.create(owner=anna, source="chat.jsonl")
    message_of(anna, "Imported", minutes=9_000, batch=batch)
    erased = Erasure.objects.create(owner_number=9_000, actor="ada", counts={"message": 12, "topic": 3})
    flash = stored(anna, [score(covered=2), unanswerable(qid="u")])
    stored(anna, [score(), unanswerable(qid="u", refused=True)], "vector", flash)
    return {
        "memory": f"memory/{anna.pk}",
        "topic": topic.pk,
        "person": person.pk,
        "fact": fact.pk,
        "artifact": artifact.pk,
        "made": made.pk,
        "first": TopicEdit.objects.earliest("pk").pk,
        "renamed": renamed.pk,
        "batch": batch.pk,
        "erased": erased.pk,
        "flash": flash.pk,
    }


# In parts, so that no process is busy with one test for long while the others have none left.
@pytest.mark.parametrize("part", range(PARTS))
def test_pages_are_free_of_findings(page: Page, numbers: dict[str, object], part: int) -> None:
    for address in ADDRESSES[part::PARTS]:
        assert_accessible(page, address.format(**numbers))
