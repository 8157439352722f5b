"""A question on its page in a real browser: asked, answered while the page is open, opened at its source, judged."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from memoryapp.engine.events import RunFinished, RunStarted, Selected
from memoryapp.models import ChatUser, Judgement, Operator, Run, Topic
from tests.browser.conftest import Browse
from tests.conftest import talk
from tests.support.answering import QUERY, answer_of, record
from tests.support.browsing import assert_accessible, assert_fits

QUOTE = "A honey cake keeps for two days"


@pytest.fixture
def topic(transactional_db: None, anna: ChatUser) -> Topic:
    return talk(anna, ("Honey cake", ["Which cake keeps?", QUOTE, "Oh"]))[0]


@pytest.fixture
def page(topic: Topic, admin: Operator, browse: Browse) -> Iterator[Page]:
    # This server has no sockets, which the console reports; the page polls instead.
    with browse(admin, "WebSocket", "ws:", "[object Event]") as page:
        yield page


def ended(run: Run, topic: Topic) -> None:
    """Ends the run with its answer, as a worker would write it."""
    answer = answer_of(topic, "Which cake keeps?", QUOTE)
    selected = (Selected(f"Topic:{topic.pk}", 1, "", 0.5, 1),)
    record(run, RunStarted(run.strategy, QUERY, {}, "", "", "p"), answer, RunFinished(selected, (), ""))
    Run.objects.filter(pk=run.pk).update(state=Run.State.FINISHED)


def test_a_question_is_answered_while_one_looks_and_its_source_opens(page: Page, topic: Topic, anna: ChatUser) -> None:
    page.goto(f"/memory/{anna.pk}/ask/")
    expect(page.get_by_role("searchbox", name="Question")).to_be_focused()
    page.keyboard.type(QUERY)
    choices = page.locator("[data-choices]")
    expect(choices.get_by_role("checkbox", name="plain")).to_be_hidden()
    choices.locator("summary").click()
    page.get_by_role("checkbox", name="plain").focus()
    page.keyboard.press("Space")
    expect(choices.locator("summary")).to_contain_text(
        "answered by react, plain · memories chosen by flash · usual limits"
    )
    page.get_by_role("searchbox", name="Question").press("Enter")
    expect(page.locator(".answer[aria-busy=true]")).to_have_count(2)
    for run in Run.objects.all():
        ended(run, topic)
    expect(page.locator(".answer[aria-busy=true]")).to_have_count(0)
    first = page.locator(".answer").first
    expect(first.locator(".answer-text")).to_contain_text(QUOTE)
    first.locator(".answer-text .cite", has_text="2").click()
    expect(page.locator("#peek mark")).to_have_text(QUOTE)
    page.keyboard.press("Escape")
    expect(page.locator("#peek")).to_be_empty()
    first.get_by_role("button", name="A good answer").click()
    expect(first.get_by_role("button", name="A good answer")).to_have_attribute("aria-pressed", "true")
    expect(first.get_by_role("button", name="A good answer")).to_be_focused()
    assert Judgement.objects.get().is_good
    asked = page.url
    first.locator(".sources .cite", has_text="2").click()
    page.locator("#peek").get_by_role("link", name="Open in its topic").click()
    expect(page.locator(".message.is-here")).to_contain_text(QUOTE)
    assert_accessible(page, asked)
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(asked)
    assert_fits(page, first)
