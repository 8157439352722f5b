"""The assistant forgot the dentist: from the pasted chat to the kept repair in a real browser, by mouse and by keys."""

import threading
from collections.abc import Callable, Iterator

import pytest
from django.db import connections
from playwright.sync_api import Page, expect

from memoryapp.models import ChatUser, Miss, Operator
from tests.browser.conftest import Browse
from tests.misses.forgetful import DENTIST, QUESTION, ended, forgetful
from tests.support.browsing import assert_accessible, assert_fits


def aside(act: Callable[..., object], *arguments: object) -> None:
    """Does it in a thread of its own, because the browser's loop is in this one."""

    def done_with() -> None:
        act(*arguments)
        connections.close_all()

    thread = threading.Thread(target=done_with)
    thread.start()
    thread.join()


@pytest.fixture
def owner(transactional_db: None) -> ChatUser:
    aside(forgetful)
    return ChatUser.objects.get()


@pytest.fixture
def page(owner: ChatUser, admin: Operator, browse: Browse) -> Iterator[Page]:
    with browse(admin) as page:
        yield page


def test_the_forgotten_dentist_is_found_put_right_and_kept(page: Page, owner: ChatUser) -> None:
    page.goto("/")
    page.get_by_text("The assistant forgot something?").click()
    page.get_by_label("Paste the chat, the answer or the question").fill(f"You said:\n{QUESTION}\nChatGPT said:\nNone.")
    page.get_by_label("What should it have known?").fill(DENTIST)
    page.get_by_role("button", name="Find out why").click()
    expect(page.get_by_text("asked again as at that moment")).to_be_visible()
    aside(ended, Miss.objects.select_related("run").get().run)
    expect(page.locator(".miss-sentence")).to_contain_text("did not keep it")
    numbers = page.locator(".miss-numbers", has_text="The numbers")
    expect(numbers.locator("dl")).to_be_hidden()
    numbers.locator("summary").press("Enter")
    expect(numbers.locator("dl")).to_contain_text("rank")
    pin = page.locator(".miss-offer", has_text="Pin it")
    expect(pin.get_by_role("checkbox")).to_be_checked()
    assert_fits(page, pin)
    pin.get_by_role("button", name="Pin it").press("Enter")
    expect(page.get_by_text("The question is asked once more")).to_be_visible()
    aside(ended, Miss.objects.select_related("again").get().again)
    expect(page.get_by_text("Asked again: found")).to_be_visible()
    expect(page.get_by_text("It is asked every night")).to_be_visible()
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".miss-offer", has_text="Pin it")).to_be_visible()
    assert Miss.objects.get().state == Miss.State.OPEN


def test_misses_fit_a_phone_and_their_days_have_a_table(page: Page, owner: ChatUser) -> None:
    Miss.objects.create(owner=owner, question=QUESTION, stage="not_chosen", moment=owner.created_at, reported_by="ada")
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"/memory/{owner.pk}/misses/")
    page.locator("summary", has_text="As numbers").click()
    expect(page.get_by_role("cell", name="read, not chosen").first).to_be_visible()
    assert_fits(page, page.get_by_role("heading", name="Misses", exact=True))
    assert_accessible(page, f"/memory/{owner.pk}/misses/{Miss.objects.get().pk}/")
