"""What surrounds every page, in a browser: the phone's bar, axe-core, awkward names, keys, the preview, filters."""

import re
from collections.abc import Iterator

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from memoryapp import curation
from memoryapp.curation import knowledge
from memoryapp.models import (
    AgentCall,
    Artifact,
    ChatUser,
    Erasure,
    Fact,
    ImportBatch,
    KnowledgeEdit,
    Operator,
    Person,
    Role,
    Run,
    Topic,
    TopicEdit,
)
from memoryapp.search import profiles
from tests.browser.conftest import Browse
from tests.conftest import operator, talk
from tests.examples import text_of
from tests.insight.test_topic_map import placed
from tests.support.browsing import (
    PHONE,
    assert_accessible,
    assert_fits,
    grow,
    message_of,
    press,
    run_of,
    settle,
    topic_of,
)
from tests.support.evaluations import score, stored, unanswerable

# Of the pages that are looked through, with the names of ``numbers``.
ADDRESSES = text_of("addresses.txt").split()
PARTS = 5


@pytest.fixture
def page(anna: ChatUser, admin: Operator, browse: Browse) -> Iterator[Page]:
    """Signed in as an admin, before a grown memory."""
    grow(anna, 4)
    # one page is missing, and one test goes offline
    with browse(admin, "status of 404", "ERR_INTERNET_DISCONNECTED") as page:
        yield page


def test_two_strategies_of_an_evaluation_fit_a_phone(page: Page, anna: ChatUser) -> None:
    flash = stored(anna, [score(qid=str(n), covered=n % 3) for n in range(9)])
    stored(anna, [score(qid=str(n), hits=0) for n in range(9)], "vector", flash)
    page.set_viewport_size(PHONE)
    page.goto(f"/evaluations/{flash.pk}/")
    expect(page.locator(".evaluation-change").first).to_be_visible()
    over = "all => all.map(table => table.scrollWidth - table.clientWidth)"
    assert page.locator(".evaluation-scroll").evaluate_all(over) == [0, 0]


def test_a_phone_has_five_sections_and_the_others_behind_more(page: Page, anna: ChatUser) -> None:
    page.set_viewport_size(PHONE)
    page.goto("/")
    rail = page.get_by_role("navigation", name="Sections")
    expect(rail.get_by_role("link")).to_have_text(["Overview", "Ask", "Runs", "Topics", "Inbox"], use_inner_text=True)
    rail.get_by_text("More").click()
    of_a_memory = ["Messages", "People", "Facts", "Artifacts", "Quality", "Import", "History"]
    others = ["Pipeline", "Prompts", "Access", "Webhooks", "Settings"]
    expect(rail.locator(".rail-more a")).to_have_text(["Evaluate", *of_a_memory, *others], use_inner_text=True)
    rail.get_by_role("link", name="People").click()
    expect(page.locator("h1")).to_have_text("People")
    expect(rail.locator("summary[aria-current]")).to_have_text("More")


def test_a_closed_group_of_the_navigation_stays_closed(page: Page, anna: ChatUser) -> None:
    page.goto("/")
    rail = page.get_by_role("navigation", name="Sections")
    rail.locator("summary", has_text="System").click()
    expect(rail.get_by_role("link", name="Pipeline")).to_be_hidden()
    page.wait_for_function("document.cookie.includes('closed_groups=system')")
    page.goto(f"/memory/{anna.pk}/topics/")
    expect(rail.get_by_role("link", name="Facts", exact=True)).to_be_visible()
    expect(rail.get_by_role("link", name="Pipeline")).to_be_hidden()


def test_the_palette_acts_by_a_key(page: Page, anna: ChatUser) -> None:
    page.goto(f"/memory/{anna.pk}/topics/")
    page.keyboard.press("Control+k")
    page.keyboard.type("dark")
    expect(page.locator("#palette-found button")).to_have_text([re.compile("Theme: dark"), re.compile("“dark”")])
    page.keyboard.press("Enter")
    expect(page.locator("html")).to_have_attribute("data-bs-theme", "dark")
    assert page.url.endswith(f"/memory/{anna.pk}/topics/")


def test_a_page_says_when_the_server_is_out_of_reach_and_takes_it_back(page: Page, anna: ChatUser) -> None:
    page.goto(f"/memory/{anna.pk}/people/")
    page.wait_for_load_state()
    page.context.set_offline(True)
    expect(page.get_by_role("alert")).to_contain_text("The server does not answer")
    page.context.set_offline(False)
    expect(page.locator("#trouble")).to_be_hidden()


@pytest.mark.parametrize(
    ("status", "sentence"), [(503, "The server does not answer"), (500, "The server refused this")]
)
def test_a_page_says_when_an_answer_is_refused_until_one_comes(
    anna: ChatUser, viewer: Operator, browse: Browse, status: int, sentence: str
) -> None:
    with browse(viewer, f"status of {status}", f"Status Error Code {status}") as page:
        page.goto(f"/memory/{anna.pk}/topics/")
        page.route("**/topics/?q=*", lambda route: route.fulfill(status=status))
        page.get_by_role("searchbox").first.fill("cake")
        expect(page.get_by_role("alert")).to_contain_text(sentence)
        page.unroute("**/topics/?q=*")
        page.get_by_role("searchbox").first.fill("cakes")
        expect(page.locator("#trouble")).to_be_hidden()


def test_a_browser_names_its_zone_on_the_first_page_it_opens(anna: ChatUser, viewer: Operator, browse: Browse) -> None:
    topic_of(anna, "One day", ["Good morning"])
    with browse(viewer, timezone_id="Asia/Tokyo") as page:
        page.goto("/")
        page.goto(f"/memory/{anna.pk}/messages/")
        expect(page.locator(".message-side a")).to_have_attribute("title", "2 March 2026, 18:00 JST")


@pytest.fixture
def numbers(page: Page, anna: ChatUser) -> dict[str, object]:
    """What the names in ``ADDRESSES`` stand for, in a memory with a row of each kind."""
    topic, person = Topic.objects.earliest("pk"), Person.objects.earliest("pk")
    fact, artifact = Fact.objects.earliest("pk"), Artifact.objects.earliest("pk")
    change = curation.plan_edit(anna, topic.pk, "A summary of one's own")
    made = curation.swap(anna, change, kind="edit", actor="ada")
    renamed = knowledge.edit(anna, person, {"bio": "A vet."}, actor="ada")
    batch = ImportBatch.objects.create(owner=anna, source="chat.jsonl")
    message_of(anna, "Imported", minutes=9_000, batch=batch)
    erased = Erasure.objects.create(owner_number=9_000, actor="ada", counts={"message": 12, "topic": 3})
    flash = stored(anna, [score(covered=2), unanswerable(qid="u")])
    stored(anna, [score(), unanswerable(qid="u", refused=True)], "vector", flash)
    return {
        "memory": f"memory/{anna.pk}",
        "topic": topic.pk,
        "person": person.pk,
        "fact": fact.pk,
        "artifact": artifact.pk,
        "made": made.pk,
        "first": TopicEdit.objects.earliest("pk").pk,
        "renamed": renamed.pk,
        "batch": batch.pk,
        "erased": erased.pk,
        "flash": flash.pk,
    }


# In parts, so that no process is busy with one test for long while the others have none left.
@pytest.mark.parametrize("part", range(PARTS))
def test_pages_are_free_of_findings(page: Page, numbers: dict[str, object], part: int) -> None:
    for address in ADDRESSES[part::PARTS]:
        assert_accessible(page, address.format(**numbers))


# Unusually long and awkward names and words: the layout stays intact, and nothing is wider than its window.


WORD = "Donaudampfschifffahrtsgesellschaftskapitän" * 4
NAME = f"{'Ж' * 60} von und zu Hohenzollern"
WIDTHS = (1440, 1280, PHONE["width"])
# Whether the boxes of two elements overlap.
MEET = """all => all.map(each => each.getBoundingClientRect()).some((one, place, boxes) => boxes.slice(place + 1).some(
    (other) => one.left < other.right && other.left < one.right && one.top < other.bottom && other.top < one.bottom))"""
BEYOND = """column => [...column.querySelectorAll("*")].filter(
    (each) => each.getBoundingClientRect().right > column.getBoundingClientRect().right + 1).length"""


@pytest.fixture
def awkward(transactional_db: None) -> ChatUser:
    return ChatUser.objects.create(name="long", display_name=NAME)


@pytest.fixture
def awkward_page(awkward: ChatUser, admin: Operator, browse: Browse) -> Iterator[Page]:
    with browse(admin) as page:
        yield page


@pytest.mark.parametrize("width", WIDTHS)
def test_lists_hold_long_names_and_show_all_their_columns(awkward_page: Page, awkward: ChatUser, width: int) -> None:
    person = {"display_name": NAME, "aliases": [WORD], "username": WORD[:100], "bio": "A friend of ours. " * 40}
    fact = {"relation": WORD[:100], "category": "food", "type": "status", "importance": 5, "content": WORD}
    knowledge.create(awkward, KnowledgeEdit.Noun.PERSON, person, actor="ada")
    knowledge.create(awkward, KnowledgeEdit.Noun.FACT, fact, actor="ada")
    awkward_page.set_viewport_size({"width": width, "height": 900})
    for address in (f"/memory/{awkward.pk}/people/", f"/memory/{awkward.pk}/facts/", "/agents/", "/pipeline/", "/"):
        awkward_page.goto(address)
        assert_fits(awkward_page, awkward_page.locator("main"))
    awkward_page.goto(f"/memory/{awkward.pk}/people/")
    settle(awkward_page)
    box = awkward_page.locator(".mark-cell input").bounding_box()
    assert box
    assert box["x"] + box["width"] < width
    assert awkward_page.locator("#list tbody tr").evaluate("row => row.offsetHeight") < 320


def test_what_stands_beside_a_long_word_stays_in_its_column(awkward_page: Page, awkward: ChatUser) -> None:
    topics = [topic_of(awkward, f"Ships {n}", [f"{WORD} ships"] * 3, day=n) for n in range(2)]
    awkward_page.goto(f"/memory/{awkward.pk}/merge/?topics={topics[0].pk},{topics[1].pk}")
    expect(awkward_page.locator("[data-column]")).to_have_count(2)
    settle(awkward_page)
    for column in awkward_page.locator("[data-column]").all():
        assert column.evaluate(BEYOND) == 0


@pytest.mark.parametrize("width", WIDTHS)
def test_names_of_regions_lie_on_nothing_else(awkward_page: Page, awkward: ChatUser, width: int) -> None:
    """Four groups of topics on the map, two of them close above each other."""
    dice = np.random.default_rng(4)
    heaps = np.array([[1, 0, 0, 0], [0.8, 0.6, 0, 0], [0, 0, 1, 0], [0, 0, 0.4, 1]])
    words = ["honey cake", "crashing processor", "mountain holidays", "kitchen renovation"]
    made = [topic_of(awkward, f"{words[n % 4]} {n}", ["x"], day=n) for n in range(32)]
    vectors = heaps[[n % 4 for n in range(32)]] + dice.normal(0, 0.05, (32, 4))
    placed(awkward, made, vectors.astype(np.float32))
    assert Topic.objects.live().count() == len(made)
    awkward_page.set_viewport_size({"width": width, "height": 800})
    awkward_page.goto(f"/memory/{awkward.pk}/map/")
    awkward_page.locator("#map[data-ready]").wait_for()
    names = awkward_page.locator(".region-name")
    expect(names.first).to_be_visible()
    assert names.count() > 1
    assert not names.evaluate_all(MEET)
    edges = "names => names.map(each => each.getBoundingClientRect()).flatMap(({ left, right }) => [left, right])"
    found = names.evaluate_all(edges)
    assert min(found) >= 0
    assert max(found) <= width


# What only a browser can show: keys, the preview, filters that are stored in the address, and an empty console.


@pytest.fixture
def topics(transactional_db: None, anna: ChatUser) -> list[Topic]:
    """Two topics, the newer one first, as in the list."""
    message_of(anna, "And the parcel", minutes=99_999)
    return [topic_of(anna, "Honey cake", ["Which?", "Honey"], day=3), topic_of(anna, "vLLM crash", ["It dies"])]


@pytest.fixture
def viewed(topics: list[Topic], viewer: Operator, browse: Browse) -> Iterator[Page]:
    """Signed in as a viewer."""
    with browse(viewer) as page:
        yield page


def test_keys_walk_a_list_preview_and_open(viewed: Page, topics: list[Topic], anna: ChatUser) -> None:
    viewed.goto(f"/memory/{anna.pk}/topics/")
    viewed.keyboard.press("j")
    viewed.keyboard.press("Enter")
    expect(viewed.locator("#peek")).to_contain_text("Honey cake")
    viewed.keyboard.press("j")
    expect(viewed.locator("#peek")).to_contain_text("It dies")
    viewed.keyboard.press("Escape")
    expect(viewed.locator("#peek")).to_be_empty()
    viewed.keyboard.press("k")
    viewed.keyboard.press("o")
    expect(viewed).to_have_url(re.compile(rf"[^/]/topics/{topics[0].pk}/$"))


def test_a_click_previews_and_a_second_one_opens(viewed: Page, topics: list[Topic], anna: ChatUser) -> None:
    viewed.goto(f"/memory/{anna.pk}/topics/")
    link = viewed.get_by_role("link", name="vLLM crash")
    link.click()
    expect(viewed.locator("#peek h2")).to_have_text("vLLM crash")
    link.click()
    expect(viewed.locator("h1")).to_have_text("vLLM crash")


def test_escape_closes_the_palette_also_where_something_was_typed(viewed: Page) -> None:
    viewed.goto("/")
    press(viewed, "Control+k")
    viewed.keyboard.type("cake")
    expect(viewed.locator("#palette-found a").first).to_be_visible()
    viewed.keyboard.press("Escape")
    expect(viewed.locator("#palette")).to_be_hidden()


def test_the_heads_of_the_costs_lie_over_no_row(viewed: Page, anna: ChatUser) -> None:
    AgentCall.objects.create(owner=anna, agent="splitter", cost_usd=0.5)
    viewed.goto("/pipeline/")
    tables = viewed.locator(".costs table").all()
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


def test_a_filter_shows_at_once_and_lives_in_the_address(viewed: Page, anna: ChatUser) -> None:
    viewed.goto(f"/memory/{anna.pk}/topics/")
    viewed.keyboard.press("/")
    viewed.keyboard.type("cake")
    expect(viewed.locator("#list [data-row]")).to_have_count(1)
    # The list shows this row before all letters are typed.
    expect(viewed).to_have_url(re.compile(r"/topics/\?q=cake$"))
    viewed.reload()
    expect(viewed.locator("#list [data-row]")).to_have_count(1)


def test_enter_soon_after_typing_asks_once_and_keeps_the_facets(viewed: Page, anna: ChatUser) -> None:
    said, asked = list[str](), list[str]()
    viewed.on("console", lambda message: said.append(message.text))
    viewed.on("request", lambda sent: asked.append(sent.url) if "hx-request" in sent.headers else None)
    viewed.goto(f"/memory/{anna.pk}/topics/?script=latin&month=")
    viewed.locator("[data-search]").fill("vllm")
    viewed.keyboard.press("Enter")
    expect(viewed).to_have_url(re.compile(r"/topics/\?q=vllm&(script=latin&month=|month=&script=latin)$"))
    viewed.get_by_label("State").select_option("retired")
    expect(viewed).to_have_url(re.compile(r"state=retired"))
    assert len(asked) == 2, asked
    assert not said


def test_the_palette_goes_where_the_letters_lead(viewed: Page, anna: ChatUser) -> None:
    viewed.goto("/")
    viewed.keyboard.press("Control+k")
    viewed.keyboard.type("honey")
    expect(viewed.locator("#palette-found a")).to_have_text(
        [re.compile("Honey cake"), re.compile("to compare or merge")]
    )
    viewed.keyboard.press("Enter")
    expect(viewed.locator("h1")).to_have_text("Honey cake")


def test_a_list_on_a_phone_fits_and_opens_without_a_preview(viewed: Page, anna: ChatUser) -> None:
    viewed.set_viewport_size({"width": 390, "height": 844})
    viewed.goto(f"/memory/{anna.pk}/topics/")
    assert_fits(viewed, viewed.locator("#list"))
    viewed.get_by_role("link", name="vLLM crash").click()
    expect(viewed.locator("h1")).to_have_text("vLLM crash")


def test_facets_on_a_phone_are_folded_but_for_the_chosen_one(viewed: Page, anna: ChatUser) -> None:
    viewed.set_viewport_size({"width": 390, "height": 844})
    viewed.goto(f"/memory/{anna.pk}/topics/?script=latin")
    facets = viewed.get_by_label("Narrow the list", exact=True)
    fold = facets.locator("summary")
    expect(facets.get_by_role("link", name="Latin letters")).to_be_visible()
    expect(facets.get_by_role("heading", name="Recalled")).to_be_hidden()
    fold.click()
    expect(facets.get_by_role("link", name="CSV")).to_be_visible()
    fold.click()
    facets.get_by_role("link", name="Latin letters").click()
    expect(viewed).to_have_url(re.compile(r"/topics/\??$"))
    viewed.goto(f"/memory/{anna.pk}/people/")
    expect(facets.get_by_role("link", name="CSV")).to_be_visible()
    expect(fold).to_have_count(0)


def test_messages_open_at_the_last_one_on_a_phone(viewed: Page, anna: ChatUser) -> None:
    viewed.set_viewport_size({"width": 390, "height": 844})
    talk(anna, ("Ducks", [f"Duck {n}" for n in range(40)]))
    viewed.goto(f"/memory/{anna.pk}/messages/")
    expect(viewed.locator(".talk .message").last).to_be_in_viewport(ratio=1)
    expect(viewed.locator(".talk .message").nth(-3)).to_be_in_viewport(ratio=1)


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


def test_a_row_on_a_phone_opens_wherever_it_is_touched(viewed: Page, anna: ChatUser) -> None:
    viewed.set_viewport_size({"width": 390, "height": 844})
    viewed.goto(f"/memory/{anna.pk}/topics/")
    settle(viewed)
    row = viewed.locator("[data-row]").filter(has_text="vLLM crash")
    box = row.bounding_box()
    assert box
    row.click(position={"x": box["width"] / 2, "y": box["height"] - 6})
    expect(viewed.locator("h1")).to_have_text("vLLM crash")


def test_the_section_one_is_in_is_in_sight_on_a_phone(viewed: Page, anna: ChatUser) -> None:
    viewed.set_viewport_size({"width": 390, "height": 844})
    viewed.goto(f"/memory/{anna.pk}/facts/")
    expect(viewed.locator(".rail summary[aria-current]")).to_be_in_viewport(ratio=1)
    expect(viewed.locator(".rail summary[aria-current]")).to_contain_text("More")


@pytest.mark.parametrize("width", [1024, 1280])
def test_a_list_on_a_small_laptop_hides_neither_its_first_row_nor_what_was_asked(
    viewed: Page, topics: list[Topic], anna: ChatUser, width: int
) -> None:
    run_of(anna, topics[0])
    viewed.set_viewport_size({"width": width, "height": 800})
    viewed.goto("/")
    settle(viewed)
    edges = "all => all.map(each => [each.getBoundingClientRect().top, each.getBoundingClientRect().bottom])"
    (_top, head), (row, _bottom) = viewed.locator(".list th:first-child, .list td:first-child").evaluate_all(edges)[:2]
    assert head <= row
    assert viewed.locator(".run-lines .title").first.evaluate("title => title.offsetWidth") > 200
    Run.objects.update(query="Which honey did the cake need? " * 9)
    viewed.goto("/runs/")
    settle(viewed)
    assert viewed.locator(".list .title").first.evaluate("title => title.offsetWidth") > 300


@pytest.mark.parametrize("address", ["/", "/prompts/", "/runs/", "/memory/{}/topics/"])
def test_the_heads_of_a_list_on_a_small_laptop_stand_over_their_columns(
    viewed: Page, topics: list[Topic], anna: ChatUser, address: str
) -> None:
    run_of(anna, topics[0])
    viewed.set_viewport_size({"width": 1024, "height": 800})
    viewed.goto(address.format(anna.pk))
    settle(viewed)
    places = "row => [...row.cells].filter(cell => cell.offsetWidth > 0).map(cell => cell.offsetLeft)"
    head = viewed.locator(".list thead tr").first.evaluate(places)
    assert head == viewed.locator(".list tbody tr:has(.title)").first.evaluate(places)


def test_a_file_is_chosen_within_the_width_of_a_phone(browse: Browse, admin: Operator, anna: ChatUser) -> None:
    with browse(admin) as page:
        page.set_viewport_size({"width": 390, "height": 844})
        page.goto(f"/memory/{anna.pk}/artifacts/")
        settle(page)
        edge = "each => each.getBoundingClientRect().right"
        assert page.locator("#file").evaluate(edge) < page.locator(".file-form").evaluate(edge)


@pytest.mark.parametrize("address", ["/", "/memory/{}/", "/memory/{}/topics/", "/memory/{}/history/", "/runs/"])
def test_what_is_pressed_on_a_phone_is_as_high_as_a_finger(viewed: Page, address: str, anna: ChatUser) -> None:
    viewed.set_viewport_size({"width": 390, "height": 844})
    viewed.goto(address.format(anna.pk))
    settle(viewed)
    heights = "all => all.filter(each => each.offsetHeight > 0).map(each => each.offsetHeight)"
    pressed = viewed.locator("main .button, main .field, main select, .topbar summary, .search-button, .rail li a")
    assert min(pressed.evaluate_all(heights)) >= 40


def test_the_theme_follows_the_system_until_one_is_chosen(viewed: Page) -> None:
    viewed.emulate_media(color_scheme="dark")
    viewed.goto("/")
    expect(viewed.locator("html")).to_have_attribute("data-bs-theme", "dark")
    viewed.locator(".tools details summary").click()
    viewed.get_by_role("button", name="light").click()
    expect(viewed.locator("html")).to_have_attribute("data-bs-theme", "light")


def test_a_narrowed_list_and_ended_work_are_told_to_who_listens(viewed: Page, anna: ChatUser) -> None:
    talk(anna, *((f"Walk {number}", ["along the river", "in rain"]) for number in range(3)))
    viewed.goto(f"/memory/{anna.pk}/topics/")
    settle(viewed)
    # The region stays while the list below it is replaced; only then do screen readers speak it.
    viewed.evaluate("document.querySelector('#told').dataset.stays = 'yes'")
    told = viewed.locator("#told[role=status][data-stays]")
    expect(told).to_have_text("")
    viewed.locator("main input[type=search]").fill("Walk")
    expect(told).to_have_text("Found: 3")
    viewed.locator("main input[type=search]").fill("Submarine")
    expect(told).to_have_text("Nothing found")
