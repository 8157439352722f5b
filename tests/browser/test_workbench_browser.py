"""The workbench in a real browser, by keys and by mouse, on a desk and on a phone: why not, forks, and comparisons."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect
from pytest_django.live_server_helper import LiveServer

from memoryapp.engine.events import Event
from memoryapp.models import ChatUser, Operator, Run
from tests.browser.conftest import Browse
from tests.browser.test_run_browser import NO_SOCKET, events
from tests.runs.stored_events import store
from tests.support.browsing import accessibility_faults, assert_fits, settle

__all__ = ["events"]


@pytest.fixture
def run(events: list[Event], anna: ChatUser) -> Run:
    made = Run.objects.create(owner=anna, query="vllm?", strategy="flash", state=Run.State.FINISHED)
    store(made, events)
    return made


@pytest.fixture
def page(run: Run, debugger: Operator, browse: Browse, live_server: LiveServer) -> Iterator[Page]:
    with browse(debugger, *NO_SOCKET) as page:
        page.goto(f"/runs/{run.pk}/")
        settle(page)
        yield page


def test_a_question_is_typed_and_the_stage_that_lost_it_is_marked(page: Page) -> None:
    page.keyboard.press("w")
    expect(page.locator("#why-not-text")).to_be_focused()
    page.keyboard.type("which cake?")
    page.keyboard.press("Enter")
    expect(page.locator(".why")).to_have_attribute("data-stage", "not_chosen")
    expect(page.locator(".stage-key.is-lost")).to_have_count(1)
    assert accessibility_faults(page) == []
    page.locator("[data-closes-why]").click()
    expect(page.locator(".why")).to_have_count(0)
    expect(page.locator(".is-lost")).to_have_count(0)


@pytest.mark.parametrize("width", [1440, 390])
def test_the_word_of_a_candidate_is_a_link_to_why(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    if width == 390:
        page.locator("[data-tab=candidates]").click()
    page.locator(".below summary").click()
    page.locator(".below .candidate-state").click()
    expect(page.locator(".why .is-lost")).to_be_visible()
    assert page.locator("#peek:visible").count() == 0 or width == 1440
    assert_fits(page, page.locator(".why"))
    assert accessibility_faults(page) == []


def test_a_fork_is_edited_by_its_key_and_filled_in_by_an_address(page: Page, run: Run) -> None:
    page.keyboard.press("f")
    editor = page.locator(".fork")
    expect(editor).to_be_visible()
    assert editor.evaluate("form => form.contains(document.activeElement)")
    page.goto(f"/runs/{run.pk}/fork/?turn=1&p_candidates=75")
    expect(page.locator("[name=p_candidates]")).to_have_value("75")
    expect(page.locator("[name=p_candidates]")).to_be_visible()
    expect(page).to_have_title(re.compile("Fork"))


def test_a_run_is_compared_by_its_keys_and_the_two_are_swapped(page: Page, run: Run, events: list[Event]) -> None:
    other = Run.objects.create(owner=run.owner, query="vllm?", strategy="flash", state=Run.State.FINISHED)
    store(other, events[:-2] + events[-1:])
    page.keyboard.press("c")
    page.wait_for_url("**/compare/")
    settle(page)
    page.keyboard.press("Enter")
    page.wait_for_url("**/compare/?run=*")
    expect(page.locator(".compared-headline")).to_be_visible()
    settle(page)
    assert accessibility_faults(page) == []
    page.locator(".compared-list .compared-row").first.hover()
    expect(page.locator(".compared-row.is-lit")).to_have_count(2)
    page.locator(".compared-list .compared-name").first.click()
    expect(page.locator("#peek [data-peeked]")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("x")
    page.wait_for_url(f"**/compare/?run={run.pk}&run={other.pk}")


@pytest.mark.parametrize("width", [1440, 390])
def test_ticked_runs_lead_to_a_matrix_that_fits(page: Page, run: Run, events: list[Event], width: int) -> None:
    for _more in range(11):
        store(Run.objects.create(owner=run.owner, query="vllm?", strategy="flash", state=Run.State.FINISHED), events)
    page.set_viewport_size({"width": width, "height": 800})
    page.goto("/runs/")
    settle(page)
    for box in page.locator("input[form=picked]").all():
        box.check()
    expect(page.locator("[data-picked-count]")).to_have_text("12")
    page.locator("[data-compare-picked]").click()
    page.wait_for_url("**/compare/?run=*")
    expect(page.locator("#matrix canvas")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert accessibility_faults(page) == []
    assert_fits(page, page.locator("#compared"))


def test_candidates_are_judged_by_keys_and_by_clicks(page: Page) -> None:
    strip = page.locator("#grade-strip")
    expect(strip).to_contain_text("0 of")
    page.keyboard.press("j")
    page.keyboard.press("a")
    first = page.locator(".candidate").first
    expect(first.locator(".grade-button.is-2")).to_have_attribute("aria-pressed", "true")
    expect(strip).to_contain_text("1 of")
    page.locator(".chosen .grade-button.is-1").first.click()
    expect(page.locator(".chosen .grade-button.is-1").first).to_have_attribute("aria-pressed", "true")
    assert accessibility_faults(page) == []
    page.locator("#grade-strip [name=collection]").fill("by keys")
    page.keyboard.press("Enter")
    expect(strip.locator("a[href*=golden]")).to_be_visible()
    page.keyboard.press("Escape")
    page.locator(".chosen .grade-button.is-1").first.click()
    expect(page.locator(".chosen .grade-button.is-1").first).to_have_attribute("aria-pressed", "false")


@pytest.mark.parametrize("width", [1440, 390])
def test_candidates_are_judged_blind_on_a_page_that_fits(page: Page, run: Run, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(f"/runs/{run.pk}/grades/?blind=1")
    settle(page)
    page.keyboard.press("j")
    page.keyboard.press("d")
    expect(page.locator(".graded .grade-button.is-0").first).to_have_attribute("aria-pressed", "true")
    assert accessibility_faults(page) == []
    assert_fits(page, page.locator(".graded-list"))


@pytest.mark.parametrize("width", [1440, 390])
def test_the_lab_tells_its_cost_and_fits(page: Page, run: Run, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(f"/runs/{run.pk}/lab/")
    settle(page)
    page.locator("[value=shuffled]").check()
    expect(page.locator("#lab-cost")).to_contain_text("5 runs")
    assert accessibility_faults(page) == []
    assert_fits(page, page.locator(".lab-form"))
