"""The workbench in a real browser: why not, forks, comparisons, the memory of another day, questions on the Ask
page."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect
from pytest_django.live_server_helper import LiveServer

from memoryapp.curation import plan_merge, put_in, swap
from memoryapp.engine.events import Event, RunFinished, RunStarted, Selected
from memoryapp.models import ChatUser, Judgement, Operator, Run, Topic, TopicEdit
from tests.browser.conftest import Browse
from tests.browser.test_run_browser import NO_SOCKET, events
from tests.conftest import talk
from tests.insight.test_compare_pages import events as events_of_every_kind
from tests.insight.test_compare_pages import stored
from tests.runs.stored_events import store
from tests.support.answering import QUERY, answer_of, record
from tests.support.browsing import PHONE, accessibility_faults, assert_accessible, assert_fits, press, settle, topic_of

__all__ = ["events", "events_of_every_kind"]


@pytest.fixture
def run(events: list[Event], anna: ChatUser) -> Run:
    made = Run.objects.create(owner=anna, query="vllm?", strategy="flash", state=Run.State.FINISHED)
    store(made, events)
    return made


@pytest.fixture
def page(run: Run, debugger: Operator, browse: Browse, live_server: LiveServer) -> Iterator[Page]:
    with browse(debugger, *NO_SOCKET) as page:
        page.goto(f"/runs/{run.pk}/")
        settle(page)
        yield page


def test_a_question_is_typed_and_the_stage_that_lost_it_is_marked(page: Page) -> None:
    page.keyboard.press("w")
    expect(page.locator("#why-not-text")).to_be_focused()
    page.keyboard.type("which cake?")
    page.keyboard.press("Enter")
    expect(page.locator(".why")).to_have_attribute("data-stage", "not_chosen")
    expect(page.locator(".stage-key.is-lost")).to_have_count(1)
    assert accessibility_faults(page) == []
    page.locator("[data-closes-why]").click()
    expect(page.locator(".why")).to_have_count(0)
    expect(page.locator(".is-lost")).to_have_count(0)


@pytest.mark.parametrize("width", [1440, 390])
def test_the_word_of_a_candidate_is_a_link_to_why(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    if width == 390:
        page.locator("[data-tab=candidates]").click()
    page.locator(".below summary").click()
    page.locator(".below .candidate-state").click()
    expect(page.locator(".why .is-lost")).to_be_visible()
    assert page.locator("#peek:visible").count() == 0 or width == 1440
    assert_fits(page, page.locator(".why"))
    assert accessibility_faults(page) == []


def test_a_fork_is_edited_by_its_key_and_filled_in_by_an_address(page: Page, run: Run) -> None:
    page.keyboard.press("f")
    editor = page.locator(".fork")
    expect(editor).to_be_visible()
    assert editor.evaluate("form => form.contains(document.activeElement)")
    page.goto(f"/runs/{run.pk}/fork/?turn=1&p_candidates=75")
    expect(page.locator("[name=p_candidates]")).to_have_value("75")
    expect(page.locator("[name=p_candidates]")).to_be_visible()
    expect(page).to_have_title(re.compile("Fork"))


def test_a_run_is_compared_by_its_keys_and_the_two_are_swapped(page: Page, run: Run, events: list[Event]) -> None:
    other = Run.objects.create(owner=run.owner, query="vllm?", strategy="flash", state=Run.State.FINISHED)
    store(other, events[:-2] + events[-1:])
    page.keyboard.press("c")
    page.wait_for_url("**/compare/")
    settle(page)
    page.keyboard.press("Enter")
    page.wait_for_url("**/compare/?run=*")
    expect(page.locator(".compared-headline")).to_be_visible()
    settle(page)
    assert accessibility_faults(page) == []
    page.locator(".compared-list .compared-row").first.hover()
    expect(page.locator(".compared-row.is-lit")).to_have_count(2)
    page.locator(".compared-list .compared-name").first.click()
    expect(page.locator("#peek [data-peeked]")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("x")
    page.wait_for_url(f"**/compare/?run={run.pk}&run={other.pk}")


@pytest.mark.parametrize("width", [1440, 390])
def test_ticked_runs_lead_to_a_matrix_that_fits(page: Page, run: Run, events: list[Event], width: int) -> None:
    for _more in range(11):
        store(Run.objects.create(owner=run.owner, query="vllm?", strategy="flash", state=Run.State.FINISHED), events)
    page.set_viewport_size({"width": width, "height": 800})
    page.goto("/runs/")
    settle(page)
    for box in page.locator("input[form=picked]").all():
        box.check()
    expect(page.locator("[data-picked-count]")).to_have_text("12")
    page.locator("[data-compare-picked]").click()
    page.wait_for_url("**/compare/?run=*")
    expect(page.locator("#matrix canvas")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert accessibility_faults(page) == []
    assert_fits(page, page.locator("#compared"))


def test_candidates_are_judged_by_keys_and_by_clicks(page: Page) -> None:
    strip = page.locator("#grade-strip")
    expect(strip).to_contain_text("0 of")
    page.keyboard.press("j")
    page.keyboard.press("a")
    first = page.locator(".candidate").first
    expect(first.locator(".grade-button.is-2")).to_have_attribute("aria-pressed", "true")
    expect(strip).to_contain_text("1 of")
    page.locator(".chosen .grade-button.is-1").first.click()
    expect(page.locator(".chosen .grade-button.is-1").first).to_have_attribute("aria-pressed", "true")
    assert accessibility_faults(page) == []
    page.locator("#grade-strip [name=collection]").fill("by keys")
    page.keyboard.press("Enter")
    expect(strip.locator("a[href*=golden]")).to_be_visible()
    page.keyboard.press("Escape")
    page.locator(".chosen .grade-button.is-1").first.click()
    expect(page.locator(".chosen .grade-button.is-1").first).to_have_attribute("aria-pressed", "false")


@pytest.mark.parametrize("width", [1440, 390])
def test_candidates_are_judged_blind_on_a_page_that_fits(page: Page, run: Run, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(f"/runs/{run.pk}/grades/?blind=1")
    settle(page)
    page.keyboard.press("j")
    page.keyboard.press("d")
    expect(page.locator(".graded .grade-button.is-0").first).to_have_attribute("aria-pressed", "true")
    assert accessibility_faults(page) == []
    assert_fits(page, page.locator(".graded-list"))


@pytest.mark.parametrize("width", [1440, 390])
def test_the_lab_tells_its_cost_and_fits(page: Page, run: Run, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(f"/runs/{run.pk}/lab/")
    settle(page)
    page.locator("[value=shuffled]").check()
    expect(page.locator("#lab-cost")).to_contain_text("5 runs")
    assert accessibility_faults(page) == []
    assert_fits(page, page.locator(".lab-form"))


# The memory of another day, blame and causes in a real browser: by keys and by mouse, on a desk and on a phone.


@pytest.fixture
def party(anna: ChatUser) -> Topic:
    topics = [topic_of(anna, name, [name, "and more"], day=day) for day, name in enumerate(("Cake", "Tea"))]
    plan = plan_merge(anna, [topic.pk for topic in topics])
    return put_in(swap(anna, plan, kind=TopicEdit.Kind.MERGE, actor="cora", reason="one party"))[0]


@pytest.fixture
def past_page(admin: Operator, browse: Browse, live_server: LiveServer) -> Iterator[Page]:
    with browse(admin, "404") as page:
        yield page


def test_a_day_is_chosen_in_the_head_and_left_by_the_rule(anna: ChatUser, party: Topic, past_page: Page) -> None:
    past_page.goto(f"/memory/{anna.pk}/topics/")
    past_page.locator(".moment > summary").click()
    past_page.get_by_label("Day and time").fill("2020-03-02T10:00")
    past_page.locator(".moment-form button").click()
    expect(past_page.locator(".past-rule")).to_contain_text("2 Mar 2020, 10:00")
    expect(past_page.locator("#list")).to_contain_text("No topics then")
    assert accessibility_faults(past_page) == []
    past_page.get_by_role("link", name="People").first.click()
    expect(past_page.locator(".past-rule")).to_contain_text("2 Mar 2020, 10:00")
    past_page.set_viewport_size(PHONE)
    assert_fits(past_page, past_page.locator(".past-rule"))
    assert accessibility_faults(past_page) == []
    past_page.locator(".past-rule .button").click()
    expect(past_page.locator(".past-rule")).to_have_count(0)
    assert "as_of" not in past_page.url


def test_blame_is_a_key_away_and_leads_back(party: Topic, past_page: Page) -> None:
    past_page.goto(f"/topics/{party.pk}/")
    settle(past_page)
    press(past_page, "b")
    expect(past_page.locator(".blame-group")).to_have_count(2)
    expect(past_page.locator(".blame-group").nth(1)).to_contain_text("one party")
    assert accessibility_faults(past_page) == []
    past_page.set_viewport_size(PHONE)
    assert_fits(past_page, past_page.locator(".blame"))
    press(past_page, "b")
    past_page.wait_for_url(f"**/topics/{party.pk}/")


def test_the_table_of_causes_fits_a_desk_and_a_phone(
    anna: ChatUser, events_of_every_kind: list[Event], past_page: Page
) -> None:
    run = stored(anna, events_of_every_kind)
    past_page.goto(f"/runs/{run.pk}/causes/")
    settle(past_page)
    assert accessibility_faults(past_page) == []
    past_page.set_viewport_size(PHONE)
    assert_fits(past_page, past_page.locator(".cause-table"))
    assert accessibility_faults(past_page) == []


# A question on its page in a real browser: asked, answered while the page is open, opened at its source, judged.


QUOTE = "A honey cake keeps for two days"


@pytest.fixture
def topic(transactional_db: None, anna: ChatUser) -> Topic:
    return talk(anna, ("Honey cake", ["Which cake keeps?", QUOTE, "Oh"]))[0]


@pytest.fixture
def ask_page(topic: Topic, admin: Operator, browse: Browse) -> Iterator[Page]:
    # This server has no sockets, which the console reports; the page polls instead.
    with browse(admin, "WebSocket", "ws:", "[object Event]") as page:
        yield page


def ended(run: Run, topic: Topic) -> None:
    """Ends the run with its answer, as a worker would write it."""
    answer = answer_of(topic, "Which cake keeps?", QUOTE)
    selected = (Selected(f"Topic:{topic.pk}", 1, "", 0.5, 1),)
    record(run, RunStarted(run.strategy, QUERY, {}, "", "", "p"), answer, RunFinished(selected, (), ""))
    Run.objects.filter(pk=run.pk).update(state=Run.State.FINISHED)


def test_a_question_is_answered_while_one_looks_and_its_source_opens(
    ask_page: Page, topic: Topic, anna: ChatUser
) -> None:
    ask_page.goto(f"/memory/{anna.pk}/ask/")
    expect(ask_page.get_by_role("searchbox", name="Question")).to_be_focused()
    ask_page.keyboard.type(QUERY)
    choices = ask_page.locator("[data-choices]")
    expect(choices.get_by_role("checkbox", name="plain")).to_be_hidden()
    choices.locator("summary").click()
    ask_page.get_by_role("checkbox", name="plain").focus()
    ask_page.keyboard.press("Space")
    expect(choices.locator("summary")).to_contain_text(
        "answered by react, plain · memories chosen by flash · usual limits"
    )
    ask_page.get_by_role("searchbox", name="Question").press("Enter")
    expect(ask_page.locator(".answer[aria-busy=true]")).to_have_count(2)
    for run in Run.objects.all():
        ended(run, topic)
    expect(ask_page.locator(".answer[aria-busy=true]")).to_have_count(0)
    first = ask_page.locator(".answer").first
    expect(first.locator(".answer-text")).to_contain_text(QUOTE)
    first.locator(".answer-text .cite", has_text="2").click()
    expect(ask_page.locator("#peek mark")).to_have_text(QUOTE)
    ask_page.keyboard.press("Escape")
    expect(ask_page.locator("#peek")).to_be_empty()
    first.get_by_role("button", name="A good answer").click()
    expect(first.get_by_role("button", name="A good answer")).to_have_attribute("aria-pressed", "true")
    expect(first.get_by_role("button", name="A good answer")).to_be_focused()
    assert Judgement.objects.get().is_good
    asked = ask_page.url
    first.locator(".sources .cite", has_text="2").click()
    ask_page.locator("#peek").get_by_role("link", name="Open in its topic").click()
    expect(ask_page.locator(".message.is-here")).to_contain_text(QUOTE)
    assert_accessible(ask_page, asked)
    ask_page.set_viewport_size({"width": 390, "height": 844})
    ask_page.goto(asked)
    assert_fits(ask_page, first)


def test_of_a_large_matrix_only_what_is_in_view_is_drawn_and_its_headings_stay(
    page: Page, run: Run, events: list[Event]
) -> None:
    made = [Run(owner=run.owner, query="vllm?", strategy="flash", state=Run.State.FINISHED) for _more in range(60)]
    for each in Run.objects.bulk_create(made):
        store(each, events)
    page.goto("/compare/?" + "&".join(f"run={each.pk}" for each in made))
    canvas, box = page.locator("#matrix canvas"), page.locator(".matrix-scroll")
    expect(canvas).to_be_visible()
    assert page.evaluate("document.querySelector('#matrix canvas').offsetWidth < innerWidth")
    box.evaluate("box => box.scrollTo(100_000, 100_000)")
    assert box.evaluate("box => box.scrollLeft > 300")
    expect(canvas).to_be_in_viewport(ratio=0.9)
