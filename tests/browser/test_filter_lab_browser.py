"""The filter lab in a real browser: thresholds moved by keyboard and mouse, saved as a preset, applied to past runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from memoryapp.models import ChatUser, EmbeddingProfile, FilterPreset, Role, Run, RunEvent
from tests.browser.conftest import Browse
from tests.conftest import operator, talk
from tests.support.answering import COSINES, compared_run
from tests.support.browsing import assert_accessible, assert_fits


@pytest.fixture
def run(transactional_db: None, anna: ChatUser) -> Run:
    EmbeddingProfile.objects.create(provider="some", model="model", dimensions=3, threshold=0.1)
    topics = talk(anna, *((f"Matter {number}", ["Which?", "This"]) for number in range(len(COSINES))))
    compared_run(anna, topics, 1)
    return compared_run(anna, topics, 0, 3)


@pytest.fixture
def page(browse: Browse, run: Run, anna: ChatUser) -> Iterator[Page]:
    # The console reports the refused name.
    with browse(operator("dora", Role.DEBUGGER, anna), "422") as page:
        page.goto(f"/runs/{run.pk}/filter/")
        yield page


def kept(page: Page) -> Locator:
    return page.locator(".filter-number.is-kept b")


def test_a_cut_moves_what_is_kept_at_once_and_nothing_is_searched(page: Page, run: Run) -> None:
    expect(kept(page)).to_have_text("3")
    expect(page.locator(".cliff-name")).to_have_text("0.85 → 0.67")
    gap = page.get_by_role("slider", name="Cut at a drop above")
    gap.focus()
    gap.press("End")
    expect(page.locator("#cut-score_gap-value")).to_have_text(f"{float(gap.get_attribute('max') or 0):.2f}")
    expect(page.locator(".cliff")).to_have_count(0)
    expect(page.locator(".filter-number.is-after_gap b")).to_have_text("0")
    threshold = page.get_by_role("slider", name="Similarity at least", exact=True)
    threshold.fill("0.9")
    expect(kept(page)).to_have_text("1")
    expect(page.locator(".similarity.is-kept")).to_have_count(1)
    expect(page.locator(".filter-row.is-kept")).to_contain_text("Matter 0")
    threshold.press("ArrowLeft")
    expect(page.locator("#cut-threshold-value")).to_have_text("0.89")
    threshold.press("ArrowLeft")
    expect(kept(page)).to_have_text("2")
    expect(threshold).to_be_focused()
    numbers = page.locator(".filter-number b").all_inner_texts()
    assert sum(map(int, numbers)) == len(COSINES)
    assert (Run.objects.count(), RunEvent.objects.filter(run=run).count()) == (2, 3)
    page.reload()
    expect(kept(page)).to_have_text("2")


def test_cuts_are_kept_as_a_preset_and_applied_to_past_runs(page: Page) -> None:
    page.get_by_role("slider", name="Similarity at least", exact=True).fill("0.9")
    expect(kept(page)).to_have_text("1")
    page.get_by_role("link", name="Apply to the last 100 runs").click()
    figures = page.locator(".filter-figures tbody tr").first
    expect(figures.locator("td").nth(1)).to_have_text("0.33 → 0.50")
    expect(figures.locator("td").nth(3)).to_have_text("3.0 → 1.0")
    page.get_by_role("button", name="Save as preset").click()
    expect(page.get_by_role("alert")).to_be_visible()
    expect(page.get_by_role("textbox", name="Name of the preset")).to_be_focused()
    expect(kept(page)).to_have_text("1")
    page.get_by_role("textbox", name="Name of the preset").fill("Strict")
    page.get_by_role("textbox", name="Name of the preset").press("Enter")
    preset = page.get_by_role("link", name="Strict")
    expect(preset).to_have_attribute("aria-current", "true")
    expect(preset).to_be_focused()
    assert FilterPreset.objects.get().threshold == 0.9
    page.get_by_role("link", name="Balanced").click()
    expect(kept(page)).to_have_text("3")
    preset.click()
    expect(kept(page)).to_have_text("1")


def test_it_fits_a_phone_and_is_accessible(page: Page, run: Run) -> None:
    assert_accessible(page, f"/runs/{run.pk}/filter/")
    page.set_viewport_size({"width": 390, "height": 844})
    assert_fits(page, kept(page))
    # At this width, a topic's outcome takes two lines.
    page.set_viewport_size({"width": 320, "height": 844})
    assert_fits(page, kept(page))


def test_without_scripts_a_button_shows_the_cuts(browse: Browse, run: Run, anna: ChatUser) -> None:
    with browse(operator("dora", Role.DEBUGGER, anna), java_script_enabled=False) as page:
        page.goto(f"/runs/{run.pk}/filter/")
        page.get_by_role("slider", name="Similarity at least", exact=True).fill("0.9")
        page.get_by_role("button", name="Show", exact=True).click()
        expect(kept(page)).to_have_text("1")
