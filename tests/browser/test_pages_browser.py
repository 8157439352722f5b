"""What only a browser can show: keys, the preview, filters that are stored in the address, and an empty console."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from memoryapp.models import AgentCall, ChatUser, Operator, Role, Run, Topic
from memoryapp.search import profiles
from tests.browser.conftest import Browse
from tests.conftest import operator, talk
from tests.support.browsing import assert_fits, message_of, press, run_of, settle, topic_of


@pytest.fixture
def topics(transactional_db: None, anna: ChatUser) -> list[Topic]:
    """Two topics, the newer one first, as in the list."""
    message_of(anna, "And the parcel", minutes=99_999)
    return [topic_of(anna, "Honey cake", ["Which?", "Honey"], day=3), topic_of(anna, "vLLM crash", ["It dies"])]


@pytest.fixture
def page(topics: list[Topic], viewer: Operator, browse: Browse) -> Iterator[Page]:
    """Signed in as a viewer."""
    with browse(viewer) as page:
        yield page


def test_keys_walk_a_list_preview_and_open(page: Page, topics: list[Topic], anna: ChatUser) -> None:
    page.goto(f"/memory/{anna.pk}/topics/")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.locator("#peek")).to_contain_text("Honey cake")
    page.keyboard.press("j")
    expect(page.locator("#peek")).to_contain_text("It dies")
    page.keyboard.press("Escape")
    expect(page.locator("#peek")).to_be_empty()
    page.keyboard.press("k")
    page.keyboard.press("o")
    expect(page).to_have_url(re.compile(rf"[^/]/topics/{topics[0].pk}/$"))


def test_a_click_previews_and_a_second_one_opens(page: Page, topics: list[Topic], anna: ChatUser) -> None:
    page.goto(f"/memory/{anna.pk}/topics/")
    link = page.get_by_role("link", name="vLLM crash")
    link.click()
    expect(page.locator("#peek h2")).to_have_text("vLLM crash")
    link.click()
    expect(page.locator("h1")).to_have_text("vLLM crash")


def test_escape_closes_the_palette_also_where_something_was_typed(page: Page) -> None:
    page.goto("/")
    press(page, "Control+k")
    page.keyboard.type("cake")
    expect(page.locator("#palette-found a").first).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#palette")).to_be_hidden()


def test_the_heads_of_the_costs_lie_over_no_row(page: Page, anna: ChatUser) -> None:
    AgentCall.objects.create(owner=anna, agent="splitter", cost_usd=0.5)
    page.goto("/pipeline/")
    tables = page.locator(".costs table").all()
    assert len(tables) == 2
    for table in tables:
        head, row = table.locator("th").first.bounding_box(), table.locator("tbody tr").first.bounding_box()
        assert head
        assert row
        assert head["y"] + head["height"] <= row["y"] + 1


def test_what_to_do_next_stands_before_the_runs_and_beside_them_where_there_is_room(
    topics: list[Topic], anna: ChatUser, browse: Browse
) -> None:
    run_of(anna, topics[0])
    with browse(operator("cora", Role.CURATOR, anna)) as page:
        for width, is_beside in ((1440, True), (390, False)):
            page.set_viewport_size({"width": width, "height": 844})
            page.goto("/")
            assert_fits(page, page.locator(".columns-next > .panel"))
            steps = page.locator(".columns-next > .panel").bounding_box()
            runs = page.locator(".columns-next > .stack").bounding_box()
            assert steps
            assert runs
            assert (steps["y"] == runs["y"]) is is_beside
            assert is_beside or steps["y"] + steps["height"] <= runs["y"]


def test_a_filter_shows_at_once_and_lives_in_the_address(page: Page, anna: ChatUser) -> None:
    page.goto(f"/memory/{anna.pk}/topics/")
    page.keyboard.press("/")
    page.keyboard.type("cake")
    expect(page.locator("#list [data-row]")).to_have_count(1)
    # The list shows this row before all letters are typed.
    expect(page).to_have_url(re.compile(r"/topics/\?q=cake$"))
    page.reload()
    expect(page.locator("#list [data-row]")).to_have_count(1)


def test_enter_soon_after_typing_asks_once_and_keeps_the_facets(page: Page, anna: ChatUser) -> None:
    said, asked = list[str](), list[str]()
    page.on("console", lambda message: said.append(message.text))
    page.on("request", lambda sent: asked.append(sent.url) if "hx-request" in sent.headers else None)
    page.goto(f"/memory/{anna.pk}/topics/?script=latin&month=")
    page.locator("[data-search]").fill("vllm")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/topics/\?q=vllm&(script=latin&month=|month=&script=latin)$"))
    page.get_by_label("State").select_option("retired")
    expect(page).to_have_url(re.compile(r"state=retired"))
    assert len(asked) == 2, asked
    assert not said


def test_the_palette_goes_where_the_letters_lead(page: Page, anna: ChatUser) -> None:
    page.goto("/")
    page.keyboard.press("Control+k")
    page.keyboard.type("honey")
    expect(page.locator("#palette-found a")).to_have_text([re.compile("Honey cake"), re.compile("to compare or merge")])
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Honey cake")


def test_a_list_on_a_phone_fits_and_opens_without_a_preview(page: Page, anna: ChatUser) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"/memory/{anna.pk}/topics/")
    assert_fits(page, page.locator("#list"))
    page.get_by_role("link", name="vLLM crash").click()
    expect(page.locator("h1")).to_have_text("vLLM crash")


def test_facets_on_a_phone_are_folded_but_for_the_chosen_one(page: Page, anna: ChatUser) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"/memory/{anna.pk}/topics/?script=latin")
    facets = page.get_by_label("Narrow the list", exact=True)
    fold = facets.locator("summary")
    expect(facets.get_by_role("link", name="Latin letters")).to_be_visible()
    expect(facets.get_by_role("heading", name="Recalled")).to_be_hidden()
    fold.click()
    expect(facets.get_by_role("link", name="CSV")).to_be_visible()
    fold.click()
    facets.get_by_role("link", name="Latin letters").click()
    expect(page).to_have_url(re.compile(r"/topics/\??$"))
    page.goto(f"/memory/{anna.pk}/people/")
    expect(facets.get_by_role("link", name="CSV")).to_be_visible()
    expect(fold).to_have_count(0)


def test_messages_open_at_the_last_one_on_a_phone(page: Page, anna: ChatUser) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    talk(anna, ("Ducks", [f"Duck {n}" for n in range(40)]))
    page.goto(f"/memory/{anna.pk}/messages/")
    expect(page.locator(".talk .message").last).to_be_in_viewport(ratio=1)
    expect(page.locator(".talk .message").nth(-3)).to_be_in_viewport(ratio=1)


def test_an_embedding_model_that_is_away_is_named_within_the_width_of_a_phone(
    topics: list[Topic], admin: Operator, browse: Browse
) -> None:
    address = "https://embeddings.a-rather-long-name.example.com:8443/v1/embeddings"
    profiles.postpone(profiles.serving(), f"The embedding endpoint {address} cannot be reached")
    with browse(admin) as page:
        page.set_viewport_size({"width": 390, "height": 844})
        page.goto("/embedding/")
        expect(page.get_by_role("button", name="Ask it now")).to_be_in_viewport(ratio=1)
        assert_fits(page, page.locator(".notice-warning"))


def test_a_row_on_a_phone_opens_wherever_it_is_touched(page: Page, anna: ChatUser) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"/memory/{anna.pk}/topics/")
    settle(page)
    row = page.locator("[data-row]").filter(has_text="vLLM crash")
    box = row.bounding_box()
    assert box
    row.click(position={"x": box["width"] / 2, "y": box["height"] - 6})
    expect(page.locator("h1")).to_have_text("vLLM crash")


def test_the_section_one_is_in_is_in_sight_on_a_phone(page: Page, anna: ChatUser) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"/memory/{anna.pk}/facts/")
    expect(page.locator(".rail summary[aria-current]")).to_be_in_viewport(ratio=1)
    expect(page.locator(".rail summary[aria-current]")).to_contain_text("More")


@pytest.mark.parametrize("width", [1024, 1280])
def test_a_list_on_a_small_laptop_hides_neither_its_first_row_nor_what_was_asked(
    page: Page, topics: list[Topic], anna: ChatUser, width: int
) -> None:
    run_of(anna, topics[0])
    page.set_viewport_size({"width": width, "height": 800})
    page.goto("/")
    settle(page)
    edges = "all => all.map(each => [each.getBoundingClientRect().top, each.getBoundingClientRect().bottom])"
    (_top, head), (row, _bottom) = page.locator(".list th:first-child, .list td:first-child").evaluate_all(edges)[:2]
    assert head <= row
    assert page.locator(".run-lines .title").first.evaluate("title => title.offsetWidth") > 200
    Run.objects.update(query="Which honey did the cake need? " * 9)
    page.goto("/runs/")
    settle(page)
    assert page.locator(".list .title").first.evaluate("title => title.offsetWidth") > 300


@pytest.mark.parametrize("address", ["/", "/prompts/", "/runs/", "/memory/{}/topics/"])
def test_the_heads_of_a_list_on_a_small_laptop_stand_over_their_columns(
    page: Page, topics: list[Topic], anna: ChatUser, address: str
) -> None:
    run_of(anna, topics[0])
    page.set_viewport_size({"width": 1024, "height": 800})
    page.goto(address.format(anna.pk))
    settle(page)
    places = "row => [...row.cells].filter(cell => cell.offsetWidth > 0).map(cell => cell.offsetLeft)"
    head = page.locator(".list thead tr").first.evaluate(places)
    assert head == page.locator(".list tbody tr:has(.title)").first.evaluate(places)


def test_a_file_is_chosen_within_the_width_of_a_phone(browse: Browse, admin: Operator, anna: ChatUser) -> None:
    with browse(admin) as page:
        page.set_viewport_size({"width": 390, "height": 844})
        page.goto(f"/memory/{anna.pk}/artifacts/")
        settle(page)
        edge = "each => each.getBoundingClientRect().right"
        assert page.locator("#file").evaluate(edge) < page.locator(".file-form").evaluate(edge)


@pytest.mark.parametrize("address", ["/", "/memory/{}/", "/memory/{}/topics/", "/memory/{}/history/", "/runs/"])
def test_what_is_pressed_on_a_phone_is_as_high_as_a_finger(page: Page, address: str, anna: ChatUser) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(address.format(anna.pk))
    settle(page)
    heights = "all => all.filter(each => each.offsetHeight > 0).map(each => each.offsetHeight)"
    pressed = page.locator("main .button, main .field, main select, .topbar summary, .search-button, .rail li a")
    assert min(pressed.evaluate_all(heights)) >= 40


def test_the_theme_follows_the_system_until_one_is_chosen(page: Page) -> None:
    page.emulate_media(color_scheme="dark")
    page.goto("/")
    expect(page.locator("html")).to_have_attribute("data-bs-theme", "dark")
    page.locator(".tools details summary").click()
    page.get_by_role("button", name="light").click()
    expect(page.locator("html")).to_have_attribute("data-bs-theme", "light")
