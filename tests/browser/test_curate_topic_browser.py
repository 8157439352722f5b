"""Curating a topic in a real browser: each flow with the mouse, and again with the keyboard alone."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from memoryapp.models import ChatUser, Operator, Role, Topic
from tests.browser.conftest import Browse
from tests.conftest import operator, talk
from tests.curation.test_merge_proposal import proposing
from tests.support.browsing import assert_fits, message_ids, press, settle

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
def page(browse: Browse, curator: Operator, topic: Topic) -> Iterator[Page]:
    """Opens the topic's page; the test fails if the browser reports an error."""
    with browse(curator, REFUSED) as page:
        page.goto(f"/topics/{topic.pk}/")
        yield page


def live() -> dict[str, list[int]]:
    return {topic.summary: message_ids(topic) for topic in Topic.objects.live().order_by("started_at", "pk")}


def write_over(page: Page, summary: str) -> None:
    """Replaces today's summary by keyboard, without committing."""
    press(page, "e")
    expect(page.get_by_label("Summary")).to_be_focused()
    press(page, "Control+a")
    page.keyboard.type(summary)


def toast(page: Page) -> Any:
    return page.locator("[data-toast]")


def test_a_summary_is_edited_in_its_place_with_the_mouse(page: Page) -> None:
    page.locator("#summary-edit summary").click()
    page.get_by_label("Summary").fill("Two matters")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("h1")).to_have_text("Two matters")
    expect(toast(page)).to_contain_text("Changed the summary")
    toast(page).get_by_role("button", name="Undo").click()
    expect(page.locator("h1")).to_have_text("vLLM and a cake")
    assert set(live()) == {"vLLM and a cake", "Cats"}


def test_a_summary_is_edited_with_the_keyboard_alone(page: Page) -> None:
    write_over(page, "Nonsense")
    press(page, "Escape", "e")
    expect(page.get_by_label("Summary")).to_have_value("vLLM and a cake")
    expect(page.get_by_label("Summary")).to_be_focused()
    page.keyboard.press("Control+a")
    page.keyboard.type("Two matters")
    press(page, "Control+Enter")
    expect(page.locator("h1")).to_have_text("Two matters")
    press(page, "u")
    expect(page.locator("h1")).to_have_text("vLLM and a cake")


def test_who_is_quicker_than_the_opening_summary_keeps_what_is_selected(page: Page) -> None:
    press(page, "Escape")
    selected = page.evaluate("""async () => {
      const field = document.querySelector("#summary-edit textarea");
      const opened = new Promise((done) => document.getElementById("summary-edit").addEventListener("toggle", done));
      window.dispatchEvent(new KeyboardEvent("keydown", { code: "KeyE", key: "e" }));
      field.select();
      await opened;
      return field.value.slice(field.selectionStart, field.selectionEnd);
    }""")
    assert selected == "vLLM and a cake"


def test_a_click_in_the_gutter_splits(page: Page, topic: Topic) -> None:
    ids = message_ids(topic)
    for place in (4, 10):
        page.locator(f'.gutter label:has(input[value="{ids[place]}"])').click()
    expect(page.locator("[data-bench-cuts]")).to_have_text("Split into 3: 4 + 6 + 10 messages")
    page.get_by_role("button", name="Preview the split").click()
    expect(page.locator(".side-after textarea")).to_have_count(3)
    page.locator(".side-after textarea").nth(1).fill("The middle")
    page.get_by_role("button", name="Split", exact=False).last.click()
    expect(toast(page)).to_contain_text("into 3 topics: 4, 6, 10 messages")
    assert live()["The middle"] == ids[4:10]


def test_a_topic_is_split_with_the_keyboard_alone(page: Page, topic: Topic) -> None:
    ids = message_ids(topic)
    press(page, "j", "j", "j", "c", "Enter")
    expect(page.locator(".side-after textarea")).to_have_count(2)
    expect(page.locator("[data-commit]")).to_be_focused()
    press(page, "Enter")
    expect(toast(page)).to_contain_text("2, 18 messages")
    assert sorted(live().values()) == sorted([ids[:2], ids[2:], message_ids(Topic.objects.get(summary="Cats"))])
    press(page, "u")
    expect(page.locator("h1")).to_have_text("vLLM and a cake")
    assert live()["vLLM and a cake"] == ids


def test_a_range_is_marked_with_shift_and_moved_to_another_topic(page: Page, topic: Topic) -> None:
    ids, cats = message_ids(topic), message_ids(Topic.objects.get(summary="Cats"))
    page.locator(f'input[name=messages][value="{ids[2]}"]').click()
    page.locator(f"#message-{ids[4]} .words").click(modifiers=["Shift"])
    expect(page.locator("[data-bench-chosen]")).to_have_text("Chosen: 3")
    page.get_by_role("button", name="Move to…").click()
    with page.expect_response(re.compile("q=cats")):
        page.locator("#picker input[type=search]").fill("cats")
    settle(page)
    page.locator("#picker .pick").first.click()
    page.wait_for_url("**/change/**")
    page.get_by_role("button", name="Move", exact=False).last.click()
    expect(toast(page)).to_contain_text("Moved 3 messages")
    assert live()["Cats"] == [*ids[2:5], *cats]


def test_a_range_that_ends_in_a_box_holds_the_message_of_that_box(page: Page, topic: Topic) -> None:
    ids = message_ids(topic)
    box = page.locator("input[name=messages]")
    box.nth(2).click()
    box.nth(5).click(modifiers=["Shift"])
    expect(page.locator("[data-bench-chosen]")).to_have_text("Chosen: 4")
    expect(page.locator(".message.is-chosen")).to_have_count(4)
    box.nth(4).click(modifiers=["Shift"])
    expect(page.locator("[data-bench-chosen]")).to_have_text("Chosen: 4")
    press(page, "Enter")
    expect(page.locator(".side-after textarea")).to_have_count(2)
    press(page, "Control+Enter")
    expect(toast(page)).to_be_visible()
    assert ids[2:6] in live().values()


def test_keys_work_on_while_a_box_has_the_focus(page: Page, topic: Topic) -> None:
    box = page.locator("input[name=messages]")
    box.nth(3).click()
    expect(box.nth(3)).to_be_focused()
    press(page, "v")
    expect(page.locator("#picker input[type=search]")).to_be_focused()
    press(page, "Escape")
    box.nth(4).click()
    press(page, "Enter")
    expect(page.locator("h1")).to_have_text("Move messages")
    expect(page.locator(".side-after textarea")).to_have_count(2)


def test_a_range_is_moved_to_another_topic_with_the_keyboard_alone(page: Page, topic: Topic) -> None:
    ids, cats = message_ids(topic), message_ids(Topic.objects.get(summary="Cats"))
    press(page, "j", "x", "j", "j", "Shift+X")
    expect(page.locator("[data-bench-chosen]")).to_have_text("Chosen: 3")
    press(page, "v")
    expect(page.locator("#picker input[type=search]")).to_be_focused()
    with page.expect_response(re.compile("q=cats")):
        page.keyboard.type("cats")
    expect(page.locator("#picker .pick")).to_contain_text(["Cats"])
    press(page, "Enter")
    expect(page.locator("h1")).to_have_text("Move messages")
    expect(page.locator("[data-commit]")).to_be_focused()
    press(page, "Enter")
    expect(toast(page)).to_be_visible()
    assert live()["Cats"] == [*ids[:3], *cats]


def test_this_and_all_that_follow_become_a_new_topic_with_the_keyboard_alone(page: Page, topic: Topic) -> None:
    ids = message_ids(topic)
    press(page, *"jjj", "f")
    expect(page.locator("[data-bench-chosen]")).to_have_text("Chosen: 1, with all that follow")
    expect(page.locator(".is-chosen")).to_have_count(18)
    press(page, "Enter")
    expect(page.locator(".side-after textarea")).to_have_count(2)
    expect(page.locator("[data-commit]")).to_be_focused()
    press(page, "Enter")
    expect(toast(page)).to_be_visible()
    assert live()["vLLM and a cake"] == ids[:2]


def test_what_was_chosen_survives_another_page_of_the_topic(page: Page, anna: ChatUser) -> None:
    [long, _other] = talk(anna, ("Long", [f"message {n}" for n in range(160)]), ("Dogs", ["How many?", "One."]))
    ids = message_ids(long)
    page.goto(f"/topics/{long.pk}/")
    press(page, "j", "j", "c")
    press(page, "n")
    page.wait_for_url("**after=**")
    expect(page.locator("[data-bench-cuts]")).to_have_text("Split into 2: 1 + 159 messages · 1 on other pages")
    press(page, "j", "c", "Enter")
    expect(page.locator(".side-after textarea")).to_have_count(3)
    press(page, "Control+Enter")
    expect(toast(page)).to_contain_text("1, 149, 10 messages")
    assert [ids[:1], ids[1:150], ids[150:]] == [numbers for numbers in live().values() if numbers[0] in ids]


def test_a_proposal_is_partly_taken_with_the_mouse(page: Page, topic: Topic) -> None:
    ids = message_ids(topic)
    page.get_by_role("link", name="Split into topics…").click()
    expect(page.locator("[data-part]")).to_have_count(2)
    page.locator(f'a[data-turn="{ids[4]}"]').click()
    expect(page.locator("[data-part]")).to_have_count(3)
    expect(page.locator("[data-part].is-current")).to_be_focused()
    page.locator("[data-part] textarea").nth(0).fill("Beginning")
    page.locator("[data-part]").nth(1).get_by_role("link", name="leave this boundary").click()
    expect(page.locator("[data-part]")).to_have_count(2)
    expect(page.locator("[data-part] textarea").nth(0)).to_have_value("Beginning")
    page.get_by_role("button", name="Preview").click()
    page.wait_for_url("**/change/**")
    page.get_by_role("button", name="Split into topics").click()
    expect(toast(page)).to_contain_text("10, 10 messages")
    assert live()["Beginning"] == ids[:10]


def test_a_proposal_is_moved_and_taken_with_the_keyboard_alone(page: Page, topic: Topic) -> None:
    ids = message_ids(topic)
    press(page, "r")
    expect(page.locator("[data-part]")).to_have_count(2)
    press(page, "j", "j", "]")
    expect(page.locator("#resplit h2").first).to_have_text("2 topics: 11, 9 messages")
    expect(page.locator("[data-part].is-current")).to_be_focused()
    press(page, "e", "Control+a")
    page.keyboard.type("A cake")
    press(page, "Escape", "[")
    expect(page.locator("#resplit h2").first).to_have_text("2 topics: 10, 10 messages")
    expect(page.locator("[data-part].is-current")).to_be_focused()
    press(page, "e", "Control+a")
    page.keyboard.type("A cake")
    press(page, "Control+Enter")
    expect(page.locator("h1")).to_have_text("Split a topic into several")
    expect(page.locator("[data-commit]")).to_be_focused()
    press(page, "Enter")
    expect(toast(page)).to_be_visible()
    assert live()["A cake"] == ids[10:]


def test_a_cut_is_dragged_to_another_message(page: Page, topic: Topic) -> None:
    ids = message_ids(topic)
    page.goto(f"/topics/{topic.pk}/resplit/?at={ids[10]}")
    page.locator(f'a[data-turn="{ids[10]}"]').hover()
    page.mouse.down()
    page.locator(f'a[data-turn="{ids[6]}"]').hover()
    page.mouse.up()
    expect(page.locator("#resplit h2").first).to_have_text("2 topics: 6, 14 messages")


def test_topics_merge_by_the_keyboard_alone(page: Page, topic: Topic) -> None:
    press(page, "m")
    expect(page.locator("#picker input[type=search]")).to_be_focused()
    with page.expect_response(re.compile("q=cats")):
        page.keyboard.type("cats")
    expect(page.locator("#picker .pick")).to_contain_text(["Cats"])
    press(page, "Enter")
    expect(page).to_have_url(re.compile(rf"topics={topic.pk}|/change/$"))
    expect(page.locator("body")).to_contain_text("Cats")


def test_the_second_of_two_people_keeps_their_text(page: Page, browse: Browse, anna: ChatUser, topic: Topic) -> None:
    with browse(operator("omar", Role.CURATOR, anna)) as other:
        other.goto(f"/topics/{topic.pk}/")
        for who, summary in ((page, "vLLM and a cake, mine"), (other, "vLLM and a cake, theirs")):
            write_over(who, summary)
        press(other, "Control+Enter")
        expect(toast(other)).to_be_visible()
        press(page, "Control+Enter")
        alert = page.get_by_role("alert").first
        expect(alert).to_contain_text("omar edited")
        expect(page.locator("ins")).to_have_text(", theirs")
        expect(page.get_by_label("Summary")).to_have_value("vLLM and a cake, mine")
        page.get_by_role("button", name="Preview my change").click()
        expect(page.locator("[data-commit]")).to_be_focused()
        press(page, "Control+Enter")
        expect(page.locator("h1")).to_have_text("vLLM and a cake, mine")
        assert set(live()) == {"vLLM and a cake, mine", "Cats"}


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
        assert live()["Cats"] == [ids[0], *cats]
        toast(page).get_by_role("button", name="Undo").click()
        expect(toast(page)).to_contain_text("Undone")
        assert live()["Cats"] == cats
        page.goto(f"/topics/{topic.pk}/resplit/")
        page.get_by_role("link", name="later").click()
        page.wait_for_url("**?at=**")
        page.get_by_role("button", name="Preview").click()
        page.locator("[data-commit]").click()
        expect(toast(page)).to_be_visible()
        assert ids[11:] in live().values()


def test_the_workbench_fits_a_phone(page: Page, topic: Topic) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    for address in (f"/topics/{topic.pk}/", f"/topics/{topic.pk}/resplit/", f"/topics/{topic.pk}/pick/"):
        page.goto(address)
        assert_fits(page, page.locator("h1"))


def test_a_proposed_summary_never_replaces_what_one_types(page: Page, topic: Topic, settings: Any) -> None:
    with proposing(settings) as model:
        model.says = json.dumps({"merged_summary": "A honey cake for a birthday"})
        model.close()
        cake, rest = [row.pk for row in topic.message_set.in_order()[10:13:2]]
        page.goto(f"/memory/{topic.owner_id}/change/?op=split&topics={topic.pk}&at={cake},{rest}")
        fields = page.locator("textarea[name=summary]")
        expect(page.get_by_text("acme/merger reads the messages…")).to_have_count(2)
        page.locator("[data-stops-proposing]").nth(1).click()
        before = fields.nth(2).input_value()
        fields.nth(1).fill("Mine")
        model.open()
        page.get_by_role("button", name="Use it").wait_for()
        expect(fields.nth(1)).to_have_value("Mine")
        expect(fields.nth(2)).to_have_value(before)
        page.get_by_role("button", name="Use it").click()
        expect(fields.nth(1)).to_have_value("A honey cake for a birthday")
