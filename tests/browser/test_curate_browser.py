"""Curating in a real browser, with the mouse and with the keyboard alone: merge view, map, queue, topic."""

import json
import re
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from memoryapp.models import ChatUser, Operator, Role, Suggestion, Topic, TopicEdit
from tests.browser.conftest import Browse
from tests.conftest import operator, talk
from tests.curation.test_merge_proposal import SUMMARY, Proposing, proposing
from tests.insight.test_topic_map import placed
from tests.rerankui.test_curation import pairs
from tests.support.browsing import assert_fits, at_rest, message_ids, press, settle, style_by_script
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


# Curating a topic in a real browser: each flow with the mouse, and again with the keyboard alone.


VLLM = ["vLLM dies on the H100, out of memory", "Lower gpu_memory_utilization to 0.85, then start vLLM again."]
CAKE = ["Which cake for the birthday, with honey?", "A honey cake with sour cream keeps for two days."]
# the browser's message for an answer that is a refusal, which some tests expect
REFUSED = "Failed to load resource: the server responded with a status of 409"


@pytest.fixture
def topic(transactional_db: None, anna: ChatUser) -> Topic:
    """Ten messages about one matter and ten about another; a topic about cats exists as well."""
    texts = [f"{text} ({n})" for n in range(5) for text in VLLM] + [f"{text} ({n})" for n in range(5) for text in CAKE]
    [made, _cats] = talk(anna, ("vLLM and a cake", texts), ("Cats", ["How many cats?", "Three."]))
    return made


@pytest.fixture
def curator(topic: Topic, anna: ChatUser) -> Operator:
    return operator("clara", Role.CURATOR, anna)


@pytest.fixture
def topic_page(browse: Browse, curator: Operator, topic: Topic) -> Iterator[Page]:
    """Opens the topic's page; the test fails if the browser reports an error."""
    with browse(curator, REFUSED) as page:
        page.goto(f"/topics/{topic.pk}/")
        yield page


def topics_now() -> dict[str, list[int]]:
    return {topic.summary: message_ids(topic) for topic in Topic.objects.live().order_by("started_at", "pk")}


def write_over(page: Page, summary: str) -> None:
    """Replaces today's summary by keyboard, without committing."""
    press(page, "e")
    expect(page.get_by_label("Summary")).to_be_focused()
    press(page, "Control+a")
    page.keyboard.type(summary)


def toast(page: Page) -> Any:
    return page.locator("[data-toast]")


def test_a_summary_is_edited_in_its_place_with_the_mouse(topic_page: Page) -> None:
    topic_page.locator("#summary-edit summary").click()
    topic_page.get_by_label("Summary").fill("Two matters")
    topic_page.get_by_role("button", name="Save").click()
    expect(topic_page.locator("h1")).to_have_text("Two matters")
    expect(toast(topic_page)).to_contain_text("Changed the summary")
    toast(topic_page).get_by_role("button", name="Undo").click()
    expect(topic_page.locator("h1")).to_have_text("vLLM and a cake")
    assert set(topics_now()) == {"vLLM and a cake", "Cats"}


def test_a_summary_is_edited_with_the_keyboard_alone(topic_page: Page) -> None:
    write_over(topic_page, "Nonsense")
    press(topic_page, "Escape", "e")
    expect(topic_page.get_by_label("Summary")).to_have_value("vLLM and a cake")
    expect(topic_page.get_by_label("Summary")).to_be_focused()
    topic_page.keyboard.press("Control+a")
    topic_page.keyboard.type("Two matters")
    press(topic_page, "Control+Enter")
    expect(topic_page.locator("h1")).to_have_text("Two matters")
    press(topic_page, "u")
    expect(topic_page.locator("h1")).to_have_text("vLLM and a cake")


def test_who_is_quicker_than_the_opening_summary_keeps_what_is_selected(topic_page: Page) -> None:
    press(topic_page, "Escape")
    selected = topic_page.evaluate("""async () => {
      const field = document.querySelector("#summary-edit textarea");
      const opened = new Promise((done) => document.getElementById("summary-edit").addEventListener("toggle", done));
      window.dispatchEvent(new KeyboardEvent("keydown", { code: "KeyE", key: "e" }));
      field.select();
      await opened;
      return field.value.slice(field.selectionStart, field.selectionEnd);
    }""")
    assert selected == "vLLM and a cake"


def test_a_click_in_the_gutter_splits(topic_page: Page, topic: Topic) -> None:
    ids = message_ids(topic)
    for place in (4, 10):
        topic_page.locator(f'.gutter label:has(input[value="{ids[place]}"])').click()
    expect(topic_page.locator("[data-bench-cuts]")).to_have_text("Split into 3: 4 + 6 + 10 messages")
    topic_page.get_by_role("button", name="Preview the split").click()
    expect(topic_page.locator(".side-after textarea")).to_have_count(3)
    topic_page.locator(".side-after textarea").nth(1).fill("The middle")
    topic_page.get_by_role("button", name="Split", exact=False).last.click()
    expect(toast(topic_page)).to_contain_text("into 3 topics: 4, 6, 10 messages")
    assert topics_now()["The middle"] == ids[4:10]


def test_a_topic_is_split_with_the_keyboard_alone(topic_page: Page, topic: Topic) -> None:
    ids = message_ids(topic)
    press(topic_page, "j", "j", "j", "c", "Enter")
    expect(topic_page.locator(".side-after textarea")).to_have_count(2)
    expect(topic_page.locator("[data-commit]")).to_be_focused()
    press(topic_page, "Enter")
    expect(toast(topic_page)).to_contain_text("2, 18 messages")
    assert sorted(topics_now().values()) == sorted([ids[:2], ids[2:], message_ids(Topic.objects.get(summary="Cats"))])
    press(topic_page, "u")
    expect(topic_page.locator("h1")).to_have_text("vLLM and a cake")
    assert topics_now()["vLLM and a cake"] == ids


def test_a_range_is_marked_with_shift_and_moved_to_another_topic(topic_page: Page, topic: Topic) -> None:
    ids, cats = message_ids(topic), message_ids(Topic.objects.get(summary="Cats"))
    topic_page.locator(f'input[name=messages][value="{ids[2]}"]').click()
    topic_page.locator(f"#message-{ids[4]} .words").click(modifiers=["Shift"])
    expect(topic_page.locator("[data-bench-chosen]")).to_have_text("Chosen: 3")
    topic_page.get_by_role("button", name="Move to…").click()
    with topic_page.expect_response(re.compile("q=cats")):
        topic_page.locator("#picker input[type=search]").fill("cats")
    settle(topic_page)
    topic_page.locator("#picker .pick").first.click()
    topic_page.wait_for_url("**/change/**")
    topic_page.get_by_role("button", name="Move", exact=False).last.click()
    expect(toast(topic_page)).to_contain_text("Moved 3 messages")
    assert topics_now()["Cats"] == [*ids[2:5], *cats]


def test_a_range_that_ends_in_a_box_holds_the_message_of_that_box(topic_page: Page, topic: Topic) -> None:
    ids = message_ids(topic)
    box = topic_page.locator("input[name=messages]")
    box.nth(2).click()
    box.nth(5).click(modifiers=["Shift"])
    expect(topic_page.locator("[data-bench-chosen]")).to_have_text("Chosen: 4")
    expect(topic_page.locator(".message.is-chosen")).to_have_count(4)
    box.nth(4).click(modifiers=["Shift"])
    expect(topic_page.locator("[data-bench-chosen]")).to_have_text("Chosen: 4")
    press(topic_page, "Enter")
    expect(topic_page.locator(".side-after textarea")).to_have_count(2)
    press(topic_page, "Control+Enter")
    expect(toast(topic_page)).to_be_visible()
    assert ids[2:6] in topics_now().values()


def test_keys_work_on_while_a_box_has_the_focus(topic_page: Page, topic: Topic) -> None:
    box = topic_page.locator("input[name=messages]")
    box.nth(3).click()
    expect(box.nth(3)).to_be_focused()
    press(topic_page, "v")
    expect(topic_page.locator("#picker input[type=search]")).to_be_focused()
    press(topic_page, "Escape")
    box.nth(4).click()
    press(topic_page, "Enter")
    expect(topic_page.locator("h1")).to_have_text("Move messages")
    expect(topic_page.locator(".side-after textarea")).to_have_count(2)


def test_a_range_is_moved_to_another_topic_with_the_keyboard_alone(topic_page: Page, topic: Topic) -> None:
    ids, cats = message_ids(topic), message_ids(Topic.objects.get(summary="Cats"))
    press(topic_page, "j", "x", "j", "j", "Shift+X")
    expect(topic_page.locator("[data-bench-chosen]")).to_have_text("Chosen: 3")
    press(topic_page, "v")
    expect(topic_page.locator("#picker input[type=search]")).to_be_focused()
    with topic_page.expect_response(re.compile("q=cats")):
        topic_page.keyboard.type("cats")
    expect(topic_page.locator("#picker .pick")).to_contain_text(["Cats"])
    press(topic_page, "Enter")
    expect(topic_page.locator("h1")).to_have_text("Move messages")
    expect(topic_page.locator("[data-commit]")).to_be_focused()
    press(topic_page, "Enter")
    expect(toast(topic_page)).to_be_visible()
    assert topics_now()["Cats"] == [*ids[:3], *cats]


def test_this_and_all_that_follow_become_a_new_topic_with_the_keyboard_alone(topic_page: Page, topic: Topic) -> None:
    ids = message_ids(topic)
    press(topic_page, *"jjj", "f")
    expect(topic_page.locator("[data-bench-chosen]")).to_have_text("Chosen: 1, with all that follow")
    expect(topic_page.locator(".is-chosen")).to_have_count(18)
    press(topic_page, "Enter")
    expect(topic_page.locator(".side-after textarea")).to_have_count(2)
    expect(topic_page.locator("[data-commit]")).to_be_focused()
    press(topic_page, "Enter")
    expect(toast(topic_page)).to_be_visible()
    assert topics_now()["vLLM and a cake"] == ids[:2]


def test_what_was_chosen_survives_another_page_of_the_topic(topic_page: Page, anna: ChatUser) -> None:
    [long, _other] = talk(anna, ("Long", [f"message {n}" for n in range(160)]), ("Dogs", ["How many?", "One."]))
    ids = message_ids(long)
    topic_page.goto(f"/topics/{long.pk}/")
    press(topic_page, "j", "j", "c")
    press(topic_page, "n")
    topic_page.wait_for_url("**after=**")
    expect(topic_page.locator("[data-bench-cuts]")).to_have_text("Split into 2: 1 + 159 messages · 1 on other pages")
    press(topic_page, "j", "c", "Enter")
    expect(topic_page.locator(".side-after textarea")).to_have_count(3)
    press(topic_page, "Control+Enter")
    expect(toast(topic_page)).to_contain_text("1, 149, 10 messages")
    assert [ids[:1], ids[1:150], ids[150:]] == [numbers for numbers in topics_now().values() if numbers[0] in ids]


def test_a_proposal_is_partly_taken_with_the_mouse(topic_page: Page, topic: Topic) -> None:
    ids = message_ids(topic)
    topic_page.get_by_role("link", name="Split into topics…").click()
    expect(topic_page.locator("[data-part]")).to_have_count(2)
    topic_page.locator(f'a[data-turn="{ids[4]}"]').click()
    expect(topic_page.locator("[data-part]")).to_have_count(3)
    expect(topic_page.locator("[data-part].is-current")).to_be_focused()
    topic_page.locator("[data-part] textarea").nth(0).fill("Beginning")
    topic_page.locator("[data-part]").nth(1).get_by_role("link", name="leave this boundary").click()
    expect(topic_page.locator("[data-part]")).to_have_count(2)
    expect(topic_page.locator("[data-part] textarea").nth(0)).to_have_value("Beginning")
    topic_page.get_by_role("button", name="Preview").click()
    topic_page.wait_for_url("**/change/**")
    topic_page.get_by_role("button", name="Split into topics").click()
    expect(toast(topic_page)).to_contain_text("10, 10 messages")
    assert topics_now()["Beginning"] == ids[:10]


def test_a_proposal_is_moved_and_taken_with_the_keyboard_alone(topic_page: Page, topic: Topic) -> None:
    ids = message_ids(topic)
    press(topic_page, "r")
    expect(topic_page.locator("[data-part]")).to_have_count(2)
    press(topic_page, "j", "j", "]")
    expect(topic_page.locator("#resplit h2").first).to_have_text("2 topics: 11, 9 messages")
    expect(topic_page.locator("[data-part].is-current")).to_be_focused()
    press(topic_page, "e", "Control+a")
    topic_page.keyboard.type("A cake")
    press(topic_page, "Escape", "[")
    expect(topic_page.locator("#resplit h2").first).to_have_text("2 topics: 10, 10 messages")
    expect(topic_page.locator("[data-part].is-current")).to_be_focused()
    press(topic_page, "e", "Control+a")
    topic_page.keyboard.type("A cake")
    press(topic_page, "Control+Enter")
    expect(topic_page.locator("h1")).to_have_text("Split a topic into several")
    expect(topic_page.locator("[data-commit]")).to_be_focused()
    press(topic_page, "Enter")
    expect(toast(topic_page)).to_be_visible()
    assert topics_now()["A cake"] == ids[10:]


def test_a_cut_is_dragged_to_another_message(topic_page: Page, topic: Topic) -> None:
    ids = message_ids(topic)
    topic_page.goto(f"/topics/{topic.pk}/resplit/?at={ids[10]}")
    topic_page.locator(f'a[data-turn="{ids[10]}"]').hover()
    topic_page.mouse.down()
    topic_page.locator(f'a[data-turn="{ids[6]}"]').hover()
    topic_page.mouse.up()
    expect(topic_page.locator("#resplit h2").first).to_have_text("2 topics: 6, 14 messages")


def test_topics_merge_by_the_keyboard_alone(topic_page: Page, topic: Topic) -> None:
    press(topic_page, "m")
    expect(topic_page.locator("#picker input[type=search]")).to_be_focused()
    with topic_page.expect_response(re.compile("q=cats")):
        topic_page.keyboard.type("cats")
    expect(topic_page.locator("#picker .pick")).to_contain_text(["Cats"])
    press(topic_page, "Enter")
    expect(topic_page).to_have_url(re.compile(rf"topics={topic.pk}|/change/$"))
    expect(topic_page.locator("body")).to_contain_text("Cats")


def test_the_second_of_two_people_keeps_their_text(
    topic_page: Page, browse: Browse, anna: ChatUser, topic: Topic
) -> None:
    with browse(operator("omar", Role.CURATOR, anna)) as other:
        other.goto(f"/topics/{topic.pk}/")
        for who, summary in ((topic_page, "vLLM and a cake, mine"), (other, "vLLM and a cake, theirs")):
            write_over(who, summary)
        press(other, "Control+Enter")
        expect(toast(other)).to_be_visible()
        press(topic_page, "Control+Enter")
        alert = topic_page.get_by_role("alert").first
        expect(alert).to_contain_text("omar edited")
        expect(topic_page.locator("ins")).to_have_text(", theirs")
        expect(topic_page.get_by_label("Summary")).to_have_value("vLLM and a cake, mine")
        topic_page.get_by_role("button", name="Preview my change").click()
        expect(topic_page.locator("[data-commit]")).to_be_focused()
        press(topic_page, "Control+Enter")
        expect(topic_page.locator("h1")).to_have_text("vLLM and a cake, mine")
        assert set(topics_now()) == {"vLLM and a cake, mine", "Cats"}


def test_everything_works_without_scripts(browse: Browse, curator: Operator, topic: Topic) -> None:
    ids, cats = message_ids(topic), message_ids(Topic.objects.get(summary="Cats"))
    with browse(curator, java_script_enabled=False) as page:
        page.goto(f"/topics/{topic.pk}/")
        page.locator(f'input[name=messages][value="{ids[0]}"]').check()
        page.get_by_role("button", name="Move to…").click()
        page.get_by_label("Search topics").fill("cats")
        page.get_by_role("button", name="Search").click()
        page.locator("button.pick", has_text="Cats").click()
        page.locator("[data-commit]").click()
        expect(toast(page)).to_be_visible()
        assert topics_now()["Cats"] == [ids[0], *cats]
        toast(page).get_by_role("button", name="Undo").click()
        expect(toast(page)).to_contain_text("Undone")
        assert topics_now()["Cats"] == cats
        page.goto(f"/topics/{topic.pk}/resplit/")
        page.get_by_role("link", name="later").click()
        page.wait_for_url("**?at=**")
        page.get_by_role("button", name="Preview").click()
        page.locator("[data-commit]").click()
        expect(toast(page)).to_be_visible()
        assert ids[11:] in topics_now().values()


def test_the_workbench_fits_a_phone(topic_page: Page, topic: Topic) -> None:
    topic_page.set_viewport_size({"width": 390, "height": 844})
    for address in (f"/topics/{topic.pk}/", f"/topics/{topic.pk}/resplit/", f"/topics/{topic.pk}/pick/"):
        topic_page.goto(address)
        assert_fits(topic_page, topic_page.locator("h1"))


def test_a_proposed_summary_never_replaces_what_one_types(topic_page: Page, topic: Topic, settings: Any) -> None:
    with proposing(settings) as model:
        model.says = json.dumps({"merged_summary": "A honey cake for a birthday"})
        model.close()
        cake, rest = [row.pk for row in topic.message_set.in_order()[10:13:2]]
        topic_page.goto(f"/memory/{topic.owner_id}/change/?op=split&topics={topic.pk}&at={cake},{rest}")
        fields = topic_page.locator("textarea[name=summary]")
        expect(topic_page.get_by_text("acme/merger reads the messages…")).to_have_count(2)
        topic_page.locator("[data-stops-proposing]").nth(1).click()
        before = fields.nth(2).input_value()
        fields.nth(1).fill("Mine")
        model.open()
        topic_page.get_by_role("button", name="Use it").wait_for()
        expect(fields.nth(1)).to_have_value("Mine")
        expect(fields.nth(2)).to_have_value(before)
        topic_page.get_by_role("button", name="Use it").click()
        expect(fields.nth(1)).to_have_value("A honey cake for a birthday")
