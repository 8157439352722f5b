"""A debugging story from a question to its cause, as docs/workbench.md tells it, walked on the demo memory. With
``STORY_PICTURES=docs/pictures`` the tests also take the pictures of that page and of the README (``pictures``)."""

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.pictures import filmed, picture
from tests.support.browsing import settle
from tests.support.stack import Stack, wait_for
from tests.support.watched import patient_context

QUESTION = "When is mum's second eye operation?"
ANSWER = "Left eye in May"
# A recorded run that chose well.
PLAYED = "How did we get the nightly job back on time?"
_TALK = re.compile(r"Topic:\d+")


@pytest.fixture(scope="module")
def story() -> Iterator[Stack]:
    with tempfile.TemporaryDirectory(prefix="story ") as base:
        Path(base).chmod(0o711)
        folder = Path(base) / "data"
        folder.mkdir()
        made = Stack(folder)
        try:
            yield made
            assert made.complaints() == []
        finally:
            assert made.stop() == 0


@pytest.fixture
def page(browser: Browser, story: Stack) -> Iterator[Page]:
    faults: list[str] = []
    size = {"width": 1280, "height": 800}
    with patient_context(browser, viewport=size, color_scheme="dark", reduced_motion="reduce") as context:
        page = context.new_page()
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto(f"{story.url}/login/")
        page.fill("input[name=username]", "demo")
        page.fill("input[name=password]", "demo-demo-1")
        page.keyboard.press("Enter")
        page.wait_for_url(f"{story.url}/")
        yield page
    assert faults == []


def open_question(page: Page, url: str) -> str:
    """Opens the recorded run of the question from the list of runs; returns its address."""
    page.goto(f"{url}/runs/?q=mum")
    page.get_by_role("link", name=QUESTION).first.click()
    expect(page.locator("#run-summary")).to_contain_text("nothing chosen")
    return page.url.split("?")[0]


def test_a_wrong_silence_is_traced_to_its_cause_and_becomes_a_golden_question(page: Page, story: Stack) -> None:
    run = open_question(page, story.url)
    picture(page, "1-nothing-chosen")

    settle(page)
    page.keyboard.press("w")
    expect(page.locator("#why-not-text")).to_be_focused()
    page.keyboard.type(ANSWER)
    page.keyboard.press("Enter")
    why = page.locator(".why")
    expect(why).to_have_attribute("data-stage", "not_requested")
    talk = _TALK.search(why.inner_text())
    assert talk is not None
    picture(page, "2-why-not")

    page.goto(f"{run}?step=5")
    expect(page.locator("#lane-turns")).to_contain_text("Turn 1")
    picture(page, "3-what-it-asked-for")

    page.goto(run)
    page.locator(".event", has_text="Turn 1").get_by_role("link", name="Fork").first.click()
    expect(page.locator(".fork [aria-current=page]")).to_have_text("Turn 1")
    picture(page, "4-fork")
    page.locator(".fork button.button-primary").click()
    page.wait_for_url(re.compile(rf"/runs/(?!{run.split('/')[-2]})[0-9a-f-]+/"))
    fork = page.url.split("?")[0]
    expect(page.locator(".run-chosen")).to_contain_text("chosen")
    expect(page.locator("#lane-result")).to_contain_text(talk[0])
    picture(page, "5-fork-finished")

    page.goto(f"{story.url}/compare/?run={run.split('/')[-2]}&run={fork.split('/')[-2]}")
    expect(page.locator(".compared-headline")).to_contain_text(talk[0])
    picture(page, "6-compare")

    page.goto(f"{fork}charts/")
    expect(page.locator(".river-line.is-kept", has_text=talk[0])).to_have_count(1)
    picture(page, "7-rank-river")

    page.goto(f"{fork}lab/?kind=shuffled&times=4")
    expect(page.locator("#lab-cost")).to_contain_text("4 runs")
    page.locator(".lab-form button.button-primary").click()
    expect(page.locator(".lab-sums")).to_contain_text("each time")
    expect(page.locator(".lab-going")).to_have_count(0)
    page.locator(".lab-sums").scroll_into_view_if_needed()
    picture(page, "8-lab")

    page.goto(fork)
    row = page.locator(".candidate", has_text=talk[0]).first
    row.locator("[data-grade='2']").click()
    expect(page.locator(".grade-ndcg")).to_be_visible()
    picture(page, "9-judged")
    page.get_by_role("button", name="Save as a golden question").click()
    page.locator("#grade-strip [role=status] a").click()
    expect(page.locator("main")).to_contain_text(QUESTION)
    picture(page, "10-golden-question")


def test_a_recorded_run_is_played_as_it_happened(page: Page, story: Stack) -> None:
    page.goto(f"{story.url}/runs/?q=nightly")
    page.locator("a[href^='/runs/']", has_text=PLAYED).first.click()
    expect(page.locator(".run-chosen")).to_contain_text("chosen")
    # A key that comes before the page's scripts is nobody's.
    wait_for(lambda: page.keyboard.press("Home") or page.locator("[data-event].is-ahead").count())
    page.keyboard.press("Space")
    playing = page.locator("[data-transport].is-playing")
    expect(playing).to_be_attached()
    with filmed(page, "0-played") as shoot:
        while playing.count():
            shoot()
    expect(page.locator("[data-event].is-ahead")).to_have_count(0)
