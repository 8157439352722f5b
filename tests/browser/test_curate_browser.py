"""The merge view, the map and the queue in a real browser, with the mouse and with the keyboard alone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from memoryapp.models import ChatUser, Role, Suggestion, Topic, TopicEdit
from tests.browser.conftest import Browse
from tests.browsing.test_topic_map import placed
from tests.conftest import operator, talk
from tests.curation.test_merge_proposal import SUMMARY, Proposing, proposing
from tests.pages.test_curation_queue import pairs
from tests.support.browsing import at_rest, press, settle, style_by_script
from tests.support.clock import PATIENCE

PAIRS = 30
MERGE = "**/merge/?**"
SPOT = """id => {
  const canvas = document.querySelector("[data-canvas]").getBoundingClientRect();
  const [x, y] = document.getElementById("map").mapOf(id);
  return [canvas.x + x, canvas.y + y];
}"""


@pytest.fixture
def model(settings: Any) -> Iterator[Proposing]:
    with proposing(settings) as peer:
        yield peer


@pytest.fixture
def topics(transactional_db: None, anna: ChatUser) -> list[Topic]:
    """Oldest first; the first two are close to each other on the map, the third is far away."""
    made = talk(
        anna,
        ("Honey cake", ["Which cake for Marina?", "Honey"]),
        ("Oven", ["Hot? The cake burnt once", "Very"]),
        ("vLLM crash", ["OOM", "Lower it"]),
    )
    placed(anna, made, np.array([[1, 0, 0.1], [1, 0.1, 0], [0, 1, 0]], np.float32))
    return made


@pytest.fixture
def page(topics: list[Topic], anna: ChatUser, browse: Browse) -> Iterator[Page]:
    """Signed in as a curator."""
    with browse(operator("cora", Role.CURATOR, anna)) as page:
        yield page


def live() -> set[str]:
    return set(Topic.objects.live().values_list("summary", flat=True))


def spot(page: Page, topic: Topic) -> tuple[float, float]:
    """Returns the position of the topic's dot in the window, from the left and from the upper edge."""
    x, y = page.evaluate(SPOT, topic.pk)
    return x, y


def test_topics_are_picked_and_merged_by_keys_alone(page: Page, anna: ChatUser) -> None:
    page.goto(f"/memory/{anna.pk}/topics/")
    press(page, "j")
    press(page, "x")
    press(page, "j")
    press(page, "j")
    press(page, "Shift+X")
    expect(page.locator("[data-picked-count]")).to_have_text("3")
    press(page, "m")
    page.wait_for_url(MERGE)
    expect(page.locator("[data-column]")).to_have_count(3)
    press(page, "3")
    expect(page.locator("#merge-result")).to_contain_text("2 topics with 4 messages")
    press(page, "x")
    expect(page.locator("[data-merged-summary]")).to_have_value("Honey cake")
    press(page, "ArrowRight")
    expect(page.locator("[data-merged-summary]")).to_have_value("Oven")
    press(page, "m")
    expect(page.locator("[data-toast]")).to_contain_text("Merged 2 topics, 4 messages")
    assert live() == {"Oven", "vLLM crash"}
    press(page, "u")
    expect(page.locator("[data-toast]")).to_contain_text("Undone")
    assert live() == {"Honey cake", "Oven", "vLLM crash"}


def test_a_model_is_asked_for_a_summary_which_a_person_edits_and_commits(
    page: Page, topics: list[Topic], anna: ChatUser, model: Proposing
) -> None:
    model.close()
    page.goto(f"/memory/{anna.pk}/merge/?topics={','.join(str(topic.pk) for topic in topics)}")
    page.locator("input[name=reason]").fill("all one day")
    page.get_by_role("heading", name="Merge topics").click()
    press(page, "p")
    assert model.reached["asks"].wait(PATIENCE)
    expect(page.get_by_text("acme/merger reads the topics")).to_be_visible()
    expect(page.locator("[data-propose]")).to_be_disabled()
    model.open()
    field = page.locator("[data-merged-summary]")
    expect(field).to_have_value(SUMMARY)
    expect(page.locator("input[name=reason]")).to_have_value("all one day")
    page.set_viewport_size({"width": 390, "height": 800})
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size({"width": 1440, "height": 900})
    press(page, "x")
    expect(field).to_have_value("Honey cake")
    page.get_by_label("as the model proposed").check()
    press(page, "3")
    expect(page.locator("#merge-result")).to_contain_text("2 topics with 4 messages")
    expect(field).to_have_value(SUMMARY)
    field.fill(f"{SUMMARY}, and the oven")
    page.locator("input[name=reason]").press("Enter")
    expect(page.locator("[data-toast]")).to_contain_text("Merged 2 topics")
    assert live() == {f"{SUMMARY}, and the oven", "vLLM crash"}
    assert TopicEdit.objects.latest("pk").reason == "all one day"


def test_topics_are_picked_and_merged_with_the_mouse(page: Page, topics: list[Topic], anna: ChatUser) -> None:
    page.goto(f"/memory/{anna.pk}/topics/")
    page.get_by_label(f"Topic:{topics[0].pk}", exact=False).first.check()
    page.get_by_label(f"Topic:{topics[2].pk}", exact=False).first.check()
    page.get_by_role("button", name="Merge…").click()
    page.wait_for_url(MERGE)
    page.locator(f'[data-column="{topics[2].pk}"] input[name=from]').check()
    expect(page.locator("[data-merged-summary]")).to_have_value("vLLM crash")
    page.locator("[data-merged-summary]").fill("Cake beside a crash")
    page.locator("[data-commit]").click()
    expect(page.locator("[data-toast]")).to_contain_text("Merged 2 topics")
    assert live() == {"Cake beside a crash", "Oven"}


def test_what_one_writes_stays_when_a_topic_is_left_out(page: Page, topics: list[Topic], anna: ChatUser) -> None:
    page.goto(f"/memory/{anna.pk}/merge/?topics={','.join(str(topic.pk) for topic in topics)}")
    press(page, "e")
    page.keyboard.type("Mine")
    press(page, "Escape")
    press(page, "1")
    expect(page.locator("#merge-result")).to_contain_text("2 topics with 4 messages")
    expect(page.locator("[data-merged-summary]")).to_have_value("Mine")


def test_a_box_on_the_map_picks_what_lies_in_it(page: Page, topics: list[Topic], anna: ChatUser) -> None:
    page.goto(f"/memory/{anna.pk}/map/")
    page.locator("#map[data-ready]").wait_for()
    press(page, "b")
    xs, ys = zip(*(spot(page, topic) for topic in topics[:2]), strict=True)
    page.mouse.move(min(xs) - 15, min(ys) - 15)
    page.mouse.down()
    page.mouse.move(max(xs) + 15, max(ys) + 15, steps=6)
    page.mouse.up()
    expect(page.locator("[data-picked-count]")).to_have_text("2")
    page.get_by_role("button", name="Open as a list").click()
    expect(page.locator("#list [data-row]")).to_have_count(2)
    expect(page.locator(".facet-words", has_text="in the area drawn")).to_be_visible()
    page.go_back()
    page.locator("#map[data-ready]").wait_for()
    press(page, "v")
    page.mouse.click(*spot(page, topics[0]))
    expect(page.locator("#peek h2")).to_have_text("Honey cake")


def test_rows_below_the_map_are_picked_by_keys(page: Page, anna: ChatUser) -> None:
    placed(anna, talk(anna, ("A long summary of an oven " * 20, ["Hot?", "Very"])), np.array([[0, 1, 1]], np.float32))
    page.goto(f"/memory/{anna.pk}/map/")
    page.locator(".map-numbers summary").click()
    settle(page)
    table = page.locator(".map-numbers table")
    assert table.evaluate("(table) => table.offsetWidth <= table.parentElement.clientWidth")
    press(page, "j")
    press(page, "x")
    press(page, "j")
    press(page, "x")
    expect(page.locator("[data-picked-count]")).to_have_text("2")
    press(page, "m")
    page.wait_for_url(MERGE)
    expect(page.locator("[data-column]")).to_have_count(2)


def test_thirty_pairs_are_decided_by_keys_alone(page: Page, anna: ChatUser) -> None:
    """Two hundred decisions in ten minutes leave three seconds for each; the server may use a small part of them."""
    pairs(anna, PAIRS)
    seen, merged, began = [], 0, time.process_time()
    page.goto(f"/memory/{anna.pk}/queue/")
    for number in range(PAIRS):
        current = page.locator("[data-suggestion]").get_attribute("data-suggestion")
        seen.append(current)
        if number % 3 == 1:
            press(page, "n")
        else:
            if number % 3 == 2:
                press(page, "x")
            press(page, "m")
            merged += 1
        if number < PAIRS - 1:
            expect(page.locator(f'[data-suggestion="{current}"]')).to_have_count(0)
    expect(page.locator("#queue")).to_contain_text("All suggestions are decided")
    seconds = (time.process_time() - began) / PAIRS
    assert len(set(seen)) == PAIRS
    states = Suggestion.objects.values_list("state", flat=True)
    assert sorted(states) == ["accepted"] * merged + ["never"] * (PAIRS - merged)
    assert Topic.objects.live().count() == 3 + 2 * PAIRS - merged
    assert Topic.objects.live().filter(summary="Cake 2").exists()
    assert seconds < 3, f"{seconds:.2f} s a decision"
    print(f"{seconds:.2f} s a decision")


def test_the_queue_is_walked_looked_into_and_taken_back(page: Page, anna: ChatUser) -> None:
    first, second, third = pairs(anna, 3)
    page.goto(f"/memory/{anna.pk}/queue/")
    shown = page.locator("[data-suggestion]")
    press(page, "j")
    expect(shown).to_have_attribute("data-suggestion", str(second.pk))
    press(page, "k")
    expect(shown).to_have_attribute("data-suggestion", str(first.pk))
    press(page, "z")
    expect(page.locator("[data-zoomed]")).to_contain_text("Honey?")
    # The policy of the page forbids to copy such a style to what a decision swaps in; the console would say so.
    style_by_script(page)
    press(page, "n")
    expect(shown).to_have_attribute("data-suggestion", str(second.pk))
    expect(page.locator("[data-toast]")).to_contain_text("not be suggested again")
    press(page, "u")
    expect(shown).to_have_attribute("data-suggestion", str(first.pk))
    press(page, "e")
    page.keyboard.type("Mine")
    press(page, "Control+Enter")
    expect(shown).to_have_attribute("data-suggestion", str(second.pk))
    assert Topic.objects.live().filter(summary="Mine").exists()
    page.locator("[data-close-toast]").click()
    press(page, "u")
    expect(shown).to_have_attribute("data-suggestion", str(first.pk))
    assert not Topic.objects.live().filter(summary="Mine").exists()
    press(page, "s")
    page.wait_for_url(MERGE)
    expect(page.locator("[data-column]")).to_have_count(2)
    press(page, "m")
    expect(page.get_by_text("Press M again to merge")).to_be_visible()
    press(page, "m")
    expect(page.locator("[data-toast]")).to_contain_text("Merged 2 topics")
    first.refresh_from_db()
    assert first.state == "accepted"
    assert third.state == "open"


def test_the_next_suggestion_begins_with_its_question_and_the_toast_covers_no_button(
    page: Page, anna: ChatUser
) -> None:
    first, second = pairs(anna, 2)
    page.set_viewport_size({"width": 1280, "height": 500})
    page.goto(f"/memory/{anna.pk}/queue/")
    expect(page.locator(".rail-groups .inbox-badge")).to_have_text("2")
    page.locator(".commit-bar").scroll_into_view_if_needed()
    page.mouse.wheel(0, 2_000)
    expect(page.locator("#suggestion-title")).not_to_be_in_viewport()
    at_rest(page.locator("#suggestion-title"))
    press(page, "n")
    expect(page.locator("[data-suggestion]")).to_have_attribute("data-suggestion", str(second.pk))
    expect(page.locator("#suggestion-title")).to_be_in_viewport()
    expect(page.locator(".rail-groups .inbox-badge")).to_have_text("1")
    for size in ({"width": 1280, "height": 500}, {"width": 390, "height": 844}):
        page.set_viewport_size(size)
        settle(page)
        toast = page.locator("[data-toast]").bounding_box()
        bar = page.locator(".commit-bar").bounding_box()
        assert toast["y"] + toast["height"] <= bar["y"] or bar["y"] + bar["height"] <= toast["y"], size
    press(page, "n")
    expect(page.locator(".rail-groups .inbox-badge")).to_be_hidden()
    assert first.kind == "merge"


def test_a_merge_in_the_queue_shows_what_past_runs_would_have_found(page: Page, anna: ChatUser) -> None:
    pairs(anna, 1)
    page.goto(f"/memory/{anna.pk}/queue/")
    press(page, "r")
    expect(page.locator("#effect")).to_contain_text("No past run saw these topics")


def test_nothing_is_merged_by_a_key_before_it_was_seen(page: Page, anna: ChatUser, topics: list[Topic]) -> None:
    page.goto(f"/memory/{anna.pk}/topics/")
    for key in ("j", "x", "j", "x", "m"):
        press(page, key)
    page.wait_for_url(MERGE)
    expect(page.locator("[data-column]")).to_have_count(2)
    press(page, "m")
    expect(page.get_by_text("Press M again to merge")).to_be_visible()
    assert live() == {"Honey cake", "Oven", "vLLM crash"}
    press(page, "m")
    expect(page.locator("[data-toast]")).to_contain_text("Merged 2 topics")
    assert len(live()) == 2


def test_the_queue_is_worked_with_the_mouse(page: Page, anna: ChatUser) -> None:
    first, second = pairs(anna, 2)
    page.goto(f"/memory/{anna.pk}/queue/")
    page.locator("[data-column]").nth(1).locator("input[name=from]").check()
    expect(page.locator("[data-merged-summary]")).to_have_value("Oven 0")
    page.get_by_role("button", name="Merge").click()
    expect(page.locator("[data-suggestion]")).to_have_attribute("data-suggestion", str(second.pk))
    settle(page)
    page.get_by_role("button", name="Undo U").first.click()
    expect(page.locator("[data-suggestion]")).to_have_attribute("data-suggestion", str(first.pk))
    settle(page)
    page.locator(".queue-list a").nth(1).click()
    expect(page.locator("[data-suggestion]")).to_have_attribute("data-suggestion", str(second.pk))
    settle(page)
    page.get_by_role("button", name="Never").click()
    expect(page.locator("[data-suggestion]")).to_have_attribute("data-suggestion", str(first.pk))
