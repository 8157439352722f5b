"""The file of a run in a real browser that is offline."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Page, expect

from memoryapp.engine.events import Event
from memoryapp.models import Run
from tests.browser.test_run_browser import events, page, run
from tests.runs.stored_events import store
from tests.support.browsing import accessibility_faults, assert_fits, press

__all__ = ["events", "page", "run"]


def test_its_file_replays_without_a_server(page: Page, run: Run, events: list[Event], tmp_path: Path) -> None:
    store(run, events)
    page.goto(f"/runs/{run.pk}/")
    page.locator(".copy-menu > summary").click()
    with page.expect_download() as downloaded:
        page.get_by_role("link", name="One HTML file", exact=True).click()
    kept = tmp_path / "run.html"
    downloaded.value.save_as(kept)
    page.context.set_offline(True)
    page.goto(f"{kept.as_uri()}?step=3")
    step = page.locator("[data-step-label]")
    expect(step).to_have_text("3 / 11")
    press(page, "End")
    expect(step).to_have_text("11 / 11")
    expect(page.locator(".excerpt mark.is-exact")).to_have_text("vLLM ")
    page.locator(".chosen .chip").first.click()
    expect(page.locator(".capsule-talk:target mark")).to_have_text("vLLM ")
    page.locator(".capsule-talk:target .capsule-close").click()
    expect(page.locator(".capsule-talk:target")).to_have_count(0)
    for width in (1440, 390):
        page.set_viewport_size({"width": width, "height": 900})
        assert_fits(page, page.locator(".run"))
    assert accessibility_faults(page) == []
