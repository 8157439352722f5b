"""What a least certainty trades is looked at, set and taken back in a real browser; the next question obeys."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from memoryapp.models import ChatUser, Operator
from tests.browser.conftest import Browse
from tests.browser.test_miss_browser import aside
from tests.evaluation.test_threshold import ANSWERED, UNANSWERED, asked, memory
from tests.support.browsing import assert_accessible, assert_fits

__all__ = ["memory"]


@pytest.fixture
def page(memory: ChatUser, admin: Operator, browse: Browse) -> Iterator[Page]:
    with browse(admin) as page:
        yield page


def chosen(memory: ChatUser, question: str) -> list[str]:
    """The topics that are chosen for a question that is asked now."""
    found: list[str] = []
    aside(lambda: found.extend(asked(memory, question)))
    return found


def test_the_point_is_moved_by_keys_the_next_question_obeys_and_the_usual_one_comes_back(
    page: Page, memory: ChatUser
) -> None:
    assert chosen(memory, ANSWERED) != []
    assert chosen(memory, UNANSWERED) == []
    page.goto("/evaluations/")
    page.get_by_role("link", name="Threshold").first.click()
    picture, at = page.get_by_role("img", name="Answered rightly"), page.locator(".trade-at")
    expect(picture.locator("polyline")).to_have_count(2)
    for line in picture.locator("polyline").all():
        assert len((line.get_attribute("points") or "").split()) == 21
    expect(at).to_have_attribute("x1", "50.0")
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(21)
    expect(page.locator("tbody tr[aria-current]")).to_contain_text("in force")

    page.get_by_role("button", name="Use 100 %").press("Enter")
    expect(page.get_by_text("Vera: chosen from 100 % on.")).to_be_visible()
    expect(page.get_by_text("In force here: 100 % (elsewhere 50 %).")).to_be_visible()
    expect(at).to_have_attribute("x1", "100.0")
    expect(page.locator("tbody tr[aria-current]")).to_contain_text("100 %")
    assert chosen(memory, ANSWERED) == []

    page.get_by_role("button", name="Use the usual value again").click()
    expect(page.get_by_text("Vera uses the usual value.")).to_be_visible()
    expect(page.get_by_text("In force: 50 %, as for everybody.")).to_be_visible()
    expect(page.get_by_role("button", name="Use the usual value again")).to_have_count(0)
    assert chosen(memory, ANSWERED) != []


def test_the_threshold_fits_a_phone_and_readers(page: Page, memory: ChatUser) -> None:
    chosen(memory, ANSWERED)
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"/evaluations/threshold/?owner={memory.pk}")
    assert_fits(page, page.get_by_role("button", name="Use 100 %"))
    assert_accessible(page, f"/evaluations/threshold/?owner={memory.pk}")
