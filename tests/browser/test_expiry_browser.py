"""A curator makes a rule, rehearses it, the worker applies it, the overview tells of it, and one button undoes it."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from memoryapp.models import ChatUser, Message, Operator
from memoryapp.upkeep import tasks
from tests.browser.conftest import Browse
from tests.browser.test_miss_browser import aside
from tests.conftest import talk
from tests.support.browsing import assert_accessible, assert_fits

SAID = "The old boat was sold in spring"


@pytest.fixture
def owner(transactional_db: None) -> ChatUser:
    owner = ChatUser.objects.create(name="anna")
    talk(owner, ("Boats", [SAID, "And the oars?"]), ("Tea", ["Never milk first"]))
    Message.objects.filter(text=SAID).update(author="Olga")
    return owner


@pytest.fixture
def page(owner: ChatUser, admin: Operator, browse: Browse) -> Iterator[Page]:
    with browse(admin) as page:
        yield page


def test_a_rule_is_rehearsed_applied_noticed_and_undone(page: Page, owner: ChatUser) -> None:
    page.goto(f"/memory/{owner.pk}/expiry/")
    page.get_by_label("What", exact=True).select_option("message")
    page.get_by_label("Kind").fill("Olga")
    page.get_by_label("Older than, days").fill("100")
    page.get_by_role("button", name="Rehearse it").press("Enter")
    rehearsal = page.locator("#rehearsal")
    expect(rehearsal).to_contain_text("1 row would go now")
    expect(rehearsal.get_by_role("link", name=SAID)).to_be_visible()
    rehearsal.get_by_role("button", name="Switch the rule on").click()
    expect(page.get_by_text("The rule is on")).to_be_visible()
    aside(tasks.expire_due)
    page.goto(f"/memory/{owner.pk}/messages/")
    expect(page.locator(".message", has_text=SAID).get_by_role("link", name="goes on")).to_be_visible()
    page.goto("/")
    page.set_viewport_size({"width": 390, "height": 844})
    page.locator("#expiring").get_by_role("link").click()
    undo = page.get_by_role("button", name="Undo: keep them all")
    assert_fits(page, undo)
    undo.click()
    expect(page.get_by_text("1 row is back")).to_be_visible()
    assert Message.objects.get(text=SAID).topic is not None
    for address in (f"/memory/{owner.pk}/expiry/", f"/memory/{owner.pk}/contradictions/"):
        assert_accessible(page, address)
