"""The run page in a real browser without a socket: replay, filters, phone and paper; its file; the filter lab."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from django.db.models import F
from django.utils import timezone
from playwright.sync_api import Locator, Page, expect
from pytest_django.live_server_helper import LiveServer

from memoryapp.engine.events import Event, ModelReplied, RunFinished
from memoryapp.models import (
    ChatUser,
    EmbeddingProfile,
    FilterPreset,
    Message,
    Operator,
    Role,
    Run,
    RunEvent,
    RunProgress,
)
from tests.browser.conftest import Browse
from tests.conftest import candidate, operator, talk
from tests.examples import text_of
from tests.runs.stored_events import every_event, found_in, store
from tests.support.answering import COSINES, compared_run
from tests.support.browsing import accessibility_faults, assert_accessible, assert_fits, press, settle
from tests.support.watched import patient_context

__all__ = ["events", "page", "run"]

# the browser's messages for a missing socket, for being offline, and for a server that does not answer
NO_SOCKET = ("/ws/runs/", "[object Event]", "ERR_INTERNET_DISCONNECTED", "a status of 503")
WIDTHS = (1440, 1280, 1024, 390)


@pytest.fixture
def events(transactional_db: None, anna: ChatUser) -> list[Event]:
    """A run over three topics: one chosen, one read, and one that is only ranked."""
    first, second, third = talk(
        anna,
        ("vLLM crash", ["vLLM dies with **OOM**:\n```\nkill -9\n```\nthen nothing", "Lower it"]),
        ("Cake", ["Which cake?", "Honey"]),
        ("Knee", ["It hurts", "Rest"]),
    )
    made = every_event(first, second, Message.objects.in_order()[0])
    place, found = found_in(made)
    first_found, second_found = found.candidates
    unshown = replace(candidate(third, 9), shown=False, line="")
    made[place] = replace(found, candidates=(first_found, replace(second_found, rank=5), unshown))
    return made


@pytest.fixture
def run(events: list[Event], anna: ChatUser) -> Run:
    return Run.objects.create(owner=anna, query="vllm?", strategy="flash", state=Run.State.RUNNING)


@pytest.fixture
def page(run: Run, debugger: Operator, browse: Browse) -> Iterator[Page]:
    with browse(debugger, *NO_SOCKET) as page:
        yield page


def clock(page: Page) -> float:
    """Returns the seconds that the head shows."""
    return float(str(page.locator("[data-clock]").text_content()).split()[0])


def columns(page: Page) -> list[tuple[float, float]]:
    """Returns the left edge and the width of each visible column."""
    boxes = page.locator(".lane").evaluate_all("lanes => lanes.map(lane => lane.getBoundingClientRect())")
    return [(box["x"], box["width"]) for box in boxes if box["width"]]


@pytest.mark.parametrize("width", WIDTHS)
def test_columns_hold_while_a_run_is_replayed(page: Page, run: Run, events: list[Event], width: int) -> None:
    store(run, events)
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(f"/runs/{run.pk}/")
    settle(page)
    stood, head = columns(page), page.locator(".transport").bounding_box()
    assert len(stood) == {390: 1, 1024: 2}.get(width, 3)
    if width > 1180:
        assert [
            lane["lane"] for lane in page.locator(".lane").evaluate_all("all => all.map(l => ({...l.dataset}))")
        ] == ["candidates", "turns", "result"]
    for step in range(1, len(events) + 1):
        press(page, "Home", *["ArrowRight"] * (step - 1))
        assert columns(page) == stood, f"step {step}"
        if width == 390:
            expect(page.locator(".transport")).to_be_in_viewport(ratio=1)
        else:
            assert page.locator(".transport").bounding_box() == head, f"step {step}"
    assert_fits(page, page.locator(".transport"))
    if width == 390:
        page.locator("[data-tab=candidates]").click()
    page.locator(".candidate-link").first.click()
    expect(page.locator("#peek h2")).to_have_text("vLLM crash")
    assert width == 390 or columns(page) == stood


@pytest.mark.parametrize("language", ["en", "ru"])
@pytest.mark.parametrize("width", [1280, 1024])
def test_on_a_laptop_the_head_has_a_line_for_the_question_and_one_for_the_run(
    page: Page, run: Run, events: list[Event], width: int, language: str
) -> None:
    store(run, events)
    page.set_extra_http_headers({"accept-language": language})
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(f"/runs/{run.pk}/")
    settle(page)
    name, actions, query, figures = (
        page.locator(name).bounding_box() for name in (".run-name", ".run-actions", ".run-query", ".run-numbers")
    )
    assert name
    assert actions
    assert query
    assert figures
    assert actions["y"] < query["y"] + query["height"]
    assert query["y"] + query["height"] <= name["y"]
    assert name["y"] < figures["y"] + figures["height"]
    assert figures["y"] < name["y"] + name["height"]


def test_a_long_question_leaves_the_columns_their_room(page: Page, run: Run, events: list[Event]) -> None:
    Run.objects.filter(pk=run.pk).update(query="and what else did they say " * 150)
    store(run, events)
    page.set_viewport_size({"width": 1280, "height": 640})
    page.goto(f"/runs/{run.pk}/")
    settle(page)
    lane = page.locator(".lane-turns").bounding_box()
    assert lane
    assert lane["y"] < 320
    assert lane["height"] >= 280
    assert accessibility_faults(page) == []


def test_a_step_is_outlined_and_what_goes_on_then_is_named(page: Page, run: Run, events: list[Event]) -> None:
    store(run, events)
    page.goto(f"/runs/{run.pk}/")
    expect(page.locator(".is-current")).to_have_count(0)
    press(page, "Home")
    expect(page.locator(".event.is-current")).to_have_attribute("data-kind", "run_started")
    expect(page.locator(".run-going")).to_have_text("Rewriting the query…")
    press(page, "ArrowRight")
    expect(page.locator(".lane-candidates .lane-waiting")).to_have_text("Searching the memory…")
    press(page, "ArrowRight")
    expect(page.locator(".lane-result .lane-waiting")).to_have_text("Nothing chosen yet.")
    expect(page.locator(".lane-result .lane-waiting")).to_be_visible()
    press(page, "Shift+ArrowRight")
    expect(page.locator(".run-going")).to_have_text("Turn 1: thinking")
    page.goto(f"/runs/{run.pk}/?step=9")
    expect(page.locator(".event.is-current")).to_have_attribute("data-seq", "9")
    expect(page.locator(".run-going")).to_have_text("Turn 2: thinking")
    press(page, "End")
    expect(page.locator(".run-going")).to_have_text("")


def test_a_replay_types_the_words_of_the_model(page: Page, run: Run, events: list[Event]) -> None:
    place, reply = next((at, event) for at, event in enumerate(events, 1) if isinstance(event, ModelReplied))
    whole = "It asks about one thing, and two of the lines name it. " * 4
    events[place - 1] = replace(reply, reasoning=whole)
    store(run, events)
    RunEvent.objects.filter(run=run, seq__gte=place).update(at=F("at") + timedelta(seconds=20))
    page.emulate_media(reduced_motion="no-preference")
    page.goto(f"/runs/{run.pk}/?step={place - 1}")
    settle(page)
    words = page.locator(f"#event-{place} .event-reasoning")
    expect(words).to_be_hidden()
    page.locator("[data-speed]").select_option("0.5")
    page.locator(".transport-play").click()
    page.wait_for_function(
        "at => document.querySelector(`#event-${at}.is-typed .event-reasoning`)?.textContent.length > 20", arg=place
    )
    page.locator(".transport-play").click()
    typed = str(words.text_content())
    assert typed
    assert len(typed) < len(whole.strip())
    assert whole.startswith(typed)
    expect(words).to_be_visible()
    press(page, "ArrowRight")
    expect(words).to_have_text(whole.strip())
    press(page, "ArrowLeft")
    expect(words).to_be_hidden()


def test_the_handle_stands_on_the_axis_of_the_stages(page: Page, run: Run, events: list[Event]) -> None:
    store(run, events)
    page.goto(f"/runs/{run.pk}/")
    settle(page)
    whole = page.locator("#run-waterfall").get_attribute("data-whole")
    scrub = page.locator("[data-scrub]")
    assert scrub.get_attribute("max") == whole
    bars, handle = page.locator(".waterfall-bars").bounding_box(), scrub.bounding_box()
    assert bars
    assert handle
    assert abs(bars["x"] - handle["x"]) <= 2
    assert abs(bars["width"] - handle["width"]) <= 4


def test_chips_count_what_became_of_candidates_and_filter(page: Page, run: Run, events: list[Event]) -> None:
    store(run, events)
    page.goto(f"/runs/{run.pk}/")
    chips, rows = page.locator("#found-topics .legend-chip:visible"), page.locator("#found-topics .candidate:visible")
    expect(chips).to_have_text(["chosen 1", "read, not chosen 1", "below 1"])
    expect(page.locator(".candidate-state")).to_have_text(["chosen", "read, not chosen"])
    expect(page.locator(".rank-gap")).to_have_text(
        "#2–4: no word of the query and little of its meaning, so the model was not shown this."
    )
    chips.nth(1).click()
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("Cake")
    chips.nth(1).click()
    expect(rows).to_have_count(2)
    chips.nth(2).click()
    expect(rows).to_have_count(3)
    expect(rows.nth(2)).to_contain_text("Knee")
    expect(rows.nth(2).locator(".candidate-state")).to_have_text("below")
    press(page, "Home", "Shift+ArrowRight")
    expect(chips).to_have_text(["not opened 2", "below 1"])


def test_a_preview_follows_the_step_of_the_replay(page: Page, run: Run, events: list[Event]) -> None:
    store(run, events)
    reason = next(event.selected[0].reason for event in events if isinstance(event, RunFinished))
    page.goto(f"/runs/{run.pk}/?step=3")
    page.locator(".candidate-link").first.click()
    head = page.locator("#peek .peek-head")
    expect(head).to_contain_text("score #1")
    expect(head).not_to_contain_text("chosen")
    press(page, "End")
    expect(head).to_contain_text("chosen")
    expect(page.locator("#peek .peek-body")).to_contain_text(reason)
    press(page, "Home", "Shift+ArrowRight")
    expect(head).not_to_contain_text("chosen")
    expect(page.locator("#peek .peek-body")).not_to_contain_text(reason)


def test_an_excerpt_is_shown_as_messages_are(page: Page, run: Run, events: list[Event]) -> None:
    store(run, events)
    page.goto(f"/runs/{run.pk}/")
    excerpt = page.locator(".excerpt").first
    expect(excerpt.locator("strong")).to_have_text("OOM")
    expect(excerpt.locator("pre")).to_have_text("kill -9")
    expect(excerpt.locator("mark.is-exact")).to_have_text("vLLM ")
    page.locator(".candidate-link").first.click()
    expect(page.locator("#peek pre")).to_have_text("kill -9")
    expect(page.locator("#peek mark")).to_have_text("vLLM ")


def test_the_menu_to_share_a_run_opens_beside_the_rail(page: Page, run: Run, events: list[Event]) -> None:
    store(run, events)
    page.set_viewport_size({"width": 1000, "height": 800})
    page.goto(f"/runs/{run.pk}/")
    page.locator(".run-actions").evaluate("actions => actions.style.flexBasis = '100%'")
    page.locator(".copy-menu > summary").click()
    page.get_by_role("button", name="The run's id").click()
    sheet, main = page.locator(".copy-menu .menu-sheet").bounding_box(), page.locator(".main").bounding_box()
    assert sheet
    assert main
    assert main["x"] <= sheet["x"]
    assert sheet["x"] + sheet["width"] <= main["x"] + main["width"]


def test_what_a_run_is_can_be_copied(page: Page, run: Run, events: list[Event]) -> None:
    store(run, events)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(f"/runs/{run.pk}/")

    def taken(button: Locator) -> str:
        page.locator("#copied").evaluate("said => { said.textContent = ''; }")
        button.click()
        expect(page.locator("#copied")).to_have_text("Copied")
        return str(page.evaluate("navigator.clipboard.readText()"))

    def copied(name: str) -> str:
        page.locator(".copy-menu > summary").click()
        return taken(page.get_by_role("button", name=name, exact=True))

    assert copied("The run's id") == str(run.pk)
    assert copied("The query") == "vllm?"
    assert copied("The ids of the chosen candidates").startswith("Topic:")
    document = json.loads(copied("The run as JSON"))
    assert (document["run"], document["query"], document["topics"][0]["reason"]) == (str(run.pk), "vllm?", "it says so")
    assert taken(page.locator(".excerpt .copy-button").first) == "vLLM"


def test_the_keys_of_a_replay_are_listed(page: Page, run: Run, events: list[Event]) -> None:
    store(run, events)
    page.goto(f"/runs/{run.pk}/")
    press(page, "Shift+?")
    keys = page.locator("#keys")
    expect(keys).to_contain_text("one event back or forward")
    press(page, "ArrowLeft")
    expect(page.locator("[data-step-label]")).to_have_text("11 / 11")
    press(page, "Escape")
    expect(keys).to_be_hidden()


def test_a_page_whose_socket_is_blocked_looks_each_second(page: Page, run: Run, events: list[Event]) -> None:
    store(run, events[:4])
    RunProgress.objects.create(run=run, owner=run.owner, turn=1, text="so far", at=timezone.now())
    page.goto(f"/runs/{run.pk}/")
    expect(page.locator(".run-live-mark")).to_have_text("live", use_inner_text=True)
    expect(page.locator("[data-event]")).to_have_count(4)
    expect(page.locator("#run-speaking")).to_contain_text("so far")
    # It continues while words arrive, which bring no event.
    page.wait_for_function(
        "from => parseFloat(document.querySelector('[data-clock]').textContent) > from + 2.5", arg=clock(page)
    )
    assert accessibility_faults(page) == []
    store(run, events[4:8], after=4)
    expect(page.locator("[data-event]")).to_have_count(8)
    page.route("**/frame/*", lambda route: route.fulfill(status=503))
    expect(page.locator("#trouble")).to_contain_text("The server does not answer")
    page.unroute("**/frame/*")
    expect(page.locator("#trouble")).to_be_hidden()
    page.context.set_offline(True)
    expect(page.locator("#trouble")).to_be_visible()
    store(run, events[8:], after=8)
    page.context.set_offline(False)
    expect(page.locator(".chosen")).to_have_count(1)
    expect(page.locator("#trouble")).to_be_hidden()
    expect(page.locator(".run-live-mark")).to_have_count(0)
    assert page.locator("[data-event]").evaluate_all(
        "all => all.map(e => +e.dataset.seq).sort((a, b) => a - b)"
    ) == list(range(1, 12))


# Twenty messages of the socket, as ``run_speaking.html`` renders them; returns what changed in the run besides texts.
SPOKEN = text_of("spoken.js")


def test_words_that_come_grow_one_text_and_change_no_element(page: Page, run: Run, events: list[Event]) -> None:
    store(run, events[:4])
    RunProgress.objects.create(run=run, owner=run.owner, turn=1, text="so far", at=timezone.now())
    page.goto(f"/runs/{run.pk}/")
    expect(page.locator(".run-live-mark")).to_have_text("live", use_inner_text=True)
    expect(page.locator(".is-arriving")).to_have_count(0)
    assert page.evaluate(SPOKEN) == []
    expect(page.locator("#run-speaking")).to_contain_text("word18 word19")


def test_without_scripts_a_run_that_goes_on_is_asked_for_again(
    page: Page, run: Run, events: list[Event], live_server: LiveServer
) -> None:
    store(run, events[:4])
    assert page.context.browser
    session = {"storage_state": page.context.storage_state(), "base_url": live_server.url}
    with patient_context(page.context.browser, java_script_enabled=False, **session) as context:
        plain = context.new_page()
        plain.goto(f"/runs/{run.pk}/")
        expect(plain.locator(".chosen")).to_have_count(0)
        store(run, events[4:], after=4)
        expect(plain.locator(".chosen")).to_have_count(1)
        # A button without effect is hidden, and no stage of a finished run is greyed out.
        for dead in (".transport-play", ".transport-speed", ".copy-menu", ".search-button"):
            expect(plain.locator(dead)).to_be_hidden()
        expect(plain.locator(".stage:not(.is-past)[data-seq]:is(rect)")).to_have_count(0)


def test_on_a_phone_the_head_is_folded_and_a_finished_run_opens_on_its_result(
    page: Page, run: Run, events: list[Event]
) -> None:
    store(run, events)
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"/runs/{run.pk}/")
    expect(page.locator(".chosen")).to_be_visible()
    expect(page.locator(".lane-turns")).to_be_hidden()
    expect(page.locator(".run-numbers")).to_be_hidden()
    settle(page)
    head = page.locator(".run-head").bounding_box()
    assert head
    assert head["height"] < 260
    page.locator(".run-fold summary").click()
    expect(page.locator(".run-numbers")).to_be_visible()
    page.locator("[data-tab=candidates]").click()
    expect(page.locator(".candidate").first).to_be_visible()


def test_on_a_phone_a_replay_opens_the_column_of_each_event(page: Page, run: Run, events: list[Event]) -> None:
    store(run, events)
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"/runs/{run.pk}/")
    expect(page.locator(".chosen")).to_be_visible()
    press(page, "Home")
    for event in events[1:]:
        press(page, "ArrowRight")
        if event.kind in ("candidates_found", "turn_started", "run_finished"):
            expect(page.locator(f"[data-event][data-kind={event.kind}]:not(.is-ahead)").last).to_be_visible()
    page.goto(f"/runs/{run.pk}/?step=4")
    expect(page.locator("[data-event].is-current")).to_be_visible()


def test_on_paper_nothing_covers_and_nothing_is_cut(page: Page, run: Run, events: list[Event]) -> None:
    store(run, events)
    page.goto(f"/runs/{run.pk}/")
    page.set_viewport_size({"width": 800, "height": 1100})
    page.emulate_media(media="print")
    expect(page.locator(".transport-keys")).to_be_hidden()
    settle(page)
    overflow = page.locator(".lane, .excerpt-text").evaluate_all("all => all.map(e => getComputedStyle(e).overflowY)")
    assert set(overflow) == {"visible"}
    boxes = [
        page.locator(name).bounding_box() for name in (".run-head", ".lane-candidates", ".lane-turns", ".lane-result")
    ]
    for above, below in zip(boxes, boxes[1:], strict=False):
        assert above
        assert below
        assert above["y"] + above["height"] <= below["y"] + 1


def test_axe_finds_nothing(page: Page, run: Run, events: list[Event]) -> None:
    store(run, events)
    assert_accessible(page, f"/runs/{run.pk}/")
    page.locator(".candidate-link").first.click()
    expect(page.locator("#peek h2")).to_be_visible()
    assert_accessible(page, f"/runs/{run.pk}/?step=5")


# The file of a run in a real browser that is offline.


def test_its_file_replays_without_a_server(page: Page, run: Run, events: list[Event], tmp_path: Path) -> None:
    store(run, events)
    page.goto(f"/runs/{run.pk}/")
    page.locator(".copy-menu > summary").click()
    with page.expect_download() as downloaded:
        page.get_by_role("link", name="One HTML file", exact=True).click()
    kept = tmp_path / "run.html"
    downloaded.value.save_as(kept)
    page.context.set_offline(True)
    page.goto(f"{kept.as_uri()}?step=3")
    step = page.locator("[data-step-label]")
    expect(step).to_have_text("3 / 11")
    press(page, "End")
    expect(step).to_have_text("11 / 11")
    expect(page.locator(".excerpt mark.is-exact")).to_have_text("vLLM ")
    page.locator(".chosen .chip").first.click()
    expect(page.locator(".capsule-talk:target mark")).to_have_text("vLLM ")
    page.locator(".capsule-talk:target .capsule-close").click()
    expect(page.locator(".capsule-talk:target")).to_have_count(0)
    for width in (1440, 390):
        page.set_viewport_size({"width": width, "height": 900})
        assert_fits(page, page.locator(".run"))
    assert accessibility_faults(page) == []


# The filter lab in a real browser: thresholds moved by keyboard and mouse, saved as a preset, applied to past runs.


@pytest.fixture
def lab_run(transactional_db: None, anna: ChatUser) -> Run:
    EmbeddingProfile.objects.create(provider="some", model="model", dimensions=3, threshold=0.1)
    topics = talk(anna, *((f"Matter {number}", ["Which?", "This"]) for number in range(len(COSINES))))
    compared_run(anna, topics, 1)
    return compared_run(anna, topics, 0, 3)


@pytest.fixture
def lab_page(browse: Browse, lab_run: Run, anna: ChatUser) -> Iterator[Page]:
    # The console reports the refused name.
    with browse(operator("dora", Role.DEBUGGER, anna), "422") as page:
        page.goto(f"/runs/{lab_run.pk}/filter/")
        yield page


def kept(page: Page) -> Locator:
    return page.locator(".filter-number.is-kept b")


def test_a_cut_moves_what_is_kept_at_once_and_nothing_is_searched(lab_page: Page, lab_run: Run) -> None:
    expect(kept(lab_page)).to_have_text("3")
    expect(lab_page.locator(".cliff-name")).to_have_text("0.85 → 0.67")
    gap = lab_page.get_by_role("slider", name="Cut at a drop above")
    gap.focus()
    gap.press("End")
    expect(lab_page.locator("#cut-score_gap-value")).to_have_text(f"{float(gap.get_attribute('max') or 0):.2f}")
    expect(lab_page.locator(".cliff")).to_have_count(0)
    expect(lab_page.locator(".filter-number.is-after_gap b")).to_have_text("0")
    threshold = lab_page.get_by_role("slider", name="Similarity at least", exact=True)
    threshold.fill("0.9")
    expect(kept(lab_page)).to_have_text("1")
    expect(lab_page.locator(".similarity.is-kept")).to_have_count(1)
    expect(lab_page.locator(".filter-row.is-kept")).to_contain_text("Matter 0")
    threshold.press("ArrowLeft")
    expect(lab_page.locator("#cut-threshold-value")).to_have_text("0.89")
    threshold.press("ArrowLeft")
    expect(kept(lab_page)).to_have_text("2")
    expect(threshold).to_be_focused()
    numbers = lab_page.locator(".filter-number b").all_inner_texts()
    assert sum(map(int, numbers)) == len(COSINES)
    assert (Run.objects.count(), RunEvent.objects.filter(run=lab_run).count()) == (2, 3)
    lab_page.reload()
    expect(kept(lab_page)).to_have_text("2")


def test_cuts_are_kept_as_a_preset_and_applied_to_past_runs(lab_page: Page) -> None:
    lab_page.get_by_role("slider", name="Similarity at least", exact=True).fill("0.9")
    expect(kept(lab_page)).to_have_text("1")
    lab_page.get_by_role("link", name="Apply to the last 100 runs").click()
    figures = lab_page.locator(".filter-figures tbody tr").first
    expect(figures.locator("td").nth(1)).to_have_text("0.33 → 0.50")
    expect(figures.locator("td").nth(3)).to_have_text("3.0 → 1.0")
    lab_page.get_by_role("button", name="Save as preset").click()
    expect(lab_page.get_by_role("alert")).to_be_visible()
    expect(lab_page.get_by_role("textbox", name="Name of the preset")).to_be_focused()
    expect(kept(lab_page)).to_have_text("1")
    lab_page.get_by_role("textbox", name="Name of the preset").fill("Strict")
    lab_page.get_by_role("textbox", name="Name of the preset").press("Enter")
    preset = lab_page.get_by_role("link", name="Strict")
    expect(preset).to_have_attribute("aria-current", "true")
    expect(preset).to_be_focused()
    assert FilterPreset.objects.get().threshold == 0.9
    lab_page.get_by_role("link", name="Balanced").click()
    expect(kept(lab_page)).to_have_text("3")
    preset.click()
    expect(kept(lab_page)).to_have_text("1")


def test_it_fits_a_phone_and_is_accessible(lab_page: Page, lab_run: Run) -> None:
    assert_accessible(lab_page, f"/runs/{lab_run.pk}/filter/")
    lab_page.set_viewport_size({"width": 390, "height": 844})
    assert_fits(lab_page, kept(lab_page))
    # At this width, a topic's outcome takes two lines.
    lab_page.set_viewport_size({"width": 320, "height": 844})
    assert_fits(lab_page, kept(lab_page))


def test_without_scripts_a_button_shows_the_cuts(browse: Browse, lab_run: Run, anna: ChatUser) -> None:
    with browse(operator("dora", Role.DEBUGGER, anna), java_script_enabled=False) as page:
        page.goto(f"/runs/{lab_run.pk}/filter/")
        page.get_by_role("slider", name="Similarity at least", exact=True).fill("0.9")
        page.get_by_role("button", name="Show", exact=True).click()
        expect(kept(page)).to_have_text("1")
