"""Prompts in a real browser: edited, compared, tried on a past run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from memoryapp.models import ChatUser, Operator, Run
from tests.browser.conftest import Browse
from tests.conftest import talk
from tests.curation.test_prompts import PAGE, events_of
from tests.runs.stored_events import store
from tests.support.browsing import assert_fits, settle

# messages of the browser and of htmx for a refused socket
NO_SOCKET = ("/ws/runs/", "[object Event]")


@pytest.fixture
def parent(transactional_db: None, anna: ChatUser) -> Run:
    topic = talk(anna, ("vLLM crash", ["vLLM dies with OOM", "Lower it"]))[0]
    run = Run.objects.create(owner=anna, query="vllm?", strategy="flash")
    store(run, events_of(topic))
    return run


@pytest.fixture
def page(parent: Run, debugger: Operator, browse: Browse) -> Iterator[Page]:
    """Signed in as somebody who may try prompts; this server has no socket for the new run."""
    with browse(debugger, *NO_SOCKET) as page:
        yield page


def replace_in(page: Page, label: str, old: str, new: str) -> None:
    field = page.get_by_label(label)
    text = field.input_value()
    assert old in text
    field.fill(text.replace(old, new))


def test_an_edit_is_looked_at_kept_and_tried_on_a_run(page: Page, parent: Run) -> None:
    page.goto(PAGE)
    replace_in(page, "System message", "Fewer is better than padding.", "Three are plenty.")
    page.get_by_role("button", name="Show changes").click()
    changes = page.locator("#changes")
    expect(changes.locator("del").first).to_be_visible()
    expect(changes.locator("ins")).to_contain_text(["Three are plenty"])
    page.get_by_label("What changed", exact=True).fill("shorter")
    page.get_by_role("button", name="Save as a draft").click()
    expect(page.locator("h1")).to_contain_text("version 1")
    page.get_by_role("link", name="Compare with the one in force").click()
    expect(page.locator(".diff-changed")).to_have_count(1)
    page.goto(PAGE)
    page.get_by_role("link", name="vllm?").click()
    page.wait_for_url("**/runs/*/prompt/**")
    replace_in(page, "User message", "Today: $today", "It is $today now")
    page.get_by_role("button", name="Preview").click()
    expect(page.locator("#changes ins").first).to_have_text("It is")
    page.get_by_role("button", name="Try on this run").click()
    page.wait_for_url("**/runs/*/")
    assert str(parent.pk) not in page.url
    page.goto(PAGE)
    versions = page.locator(".rows li", has_text="rerank-en-2")
    expect(versions).to_contain_text(f"tried on run {parent.short_id}")
    expect(page.locator(".page-actions")).to_contain_text("built in")


def test_the_editor_is_as_long_as_its_text_and_a_long_line_stays_inside(page: Page) -> None:
    page.goto(PAGE)
    settle(page)
    field = page.get_by_label("System message")
    assert field.evaluate("field => field.scrollHeight <= field.clientHeight + 1")
    field.fill(f"{field.input_value()}\n{'word ' * 400}\n{'x' * 900}")
    assert field.evaluate("field => field.scrollHeight <= field.clientHeight + 1")
    page.get_by_role("button", name="Show changes").click()
    assert_fits(page, page.locator("#changes"))


def test_on_a_phone_the_old_line_stands_above_the_new_one(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(PAGE)
    replace_in(page, "System message", "Fewer is better than padding.", "Three are plenty.")
    page.get_by_role("button", name="Show changes").click()
    row = page.locator(".diff-changed")
    assert_fits(page, row)
    old, new = (row.locator(f".diff-text.{side}").bounding_box() for side in ("diff-old", "diff-new"))
    assert old
    assert new
    assert new["y"] >= old["y"] + old["height"] - 1
