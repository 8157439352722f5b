"""A newcomer's path in a real browser: import a chat, recall live, lose the connection, replay. The program is started
as a newcomer starts it; the chat model is a scripted peer on a real connection, whose gates let a test check the page
between two turns."""

import json
import os
import re
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, StorageState, expect

from tests.examples import text_of
from tests.support.browsing import at_rest
from tests.support.clock import PATIENCE
from tests.support.peer import Peer
from tests.support.stack import PASSWORD, Stack, wait_for
from tests.support.watched import patient_context

QUERY = "Помнишь, как мы чинили vLLM на H100?"


@pytest.fixture(scope="module")
def peer() -> Iterator[Peer]:
    made = Peer()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def stack(peer: Peer) -> Iterator[Stack]:
    with tempfile.TemporaryDirectory(prefix="live data ") as base:
        # As root, the program runs its database as nobody, who needs access to this folder.
        Path(base).chmod(0o711)
        yield from started(peer, Path(base) / "data")


def started(peer: Peer, folder: Path) -> Iterator[Stack]:
    folder.mkdir()
    made = Stack(folder, "--no-demo", LLM_BASE_URL=peer.url, RERANKER_TIMEOUT="10m", RERANKER_TURN_TIMEOUT="10m")
    try:
        chat = folder / "chat.jsonl"
        chat.write_text(text_of("chats/live.json"), encoding="utf-8")
        assert made.json("import_chat", str(chat), "--user", "anna")["messages_added"] == 12
        assert made.json("import_chat", str(chat), "--user", "anna")["messages_added"] == 0
        assert made.json("archive", "--now")["topics"] >= 6
        assert made.json("check_memory")["violations"] == []
        made.make_operator("ada")
        yield made
        assert made.complaints() == []
    finally:
        peer.open()
        assert made.stop() == 0


@pytest.fixture(scope="module")
def session(browser: Browser, stack: Stack) -> StorageState:
    """Returns the cookies of somebody who signed in by the form."""
    with patient_context(browser) as context:
        page = context.new_page()
        page.goto(f"{stack.url}/login/")
        page.fill("input[name=username]", "ada")
        page.fill("input[name=password]", PASSWORD)
        page.keyboard.press("Enter")
        page.wait_for_url(f"{stack.url}/")
        return context.storage_state()


@pytest.fixture
def page(browser: Browser, session: StorageState) -> Iterator[Page]:
    faults: list[str] = []
    with patient_context(browser, viewport={"width": 1440, "height": 900}, storage_state=session) as context:
        page = context.new_page()
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda line: faults.append(line.text) if "Content Security Policy" in line.text else None)
        yield page
    assert faults == []


def ask(page: Page, stack: Stack, peer: Peer, query: str = QUERY) -> str:
    """Asks on the recall page; returns the run's address once the model has received its first question."""
    peer.close()
    page.goto(f"{stack.url}/")
    page.get_by_role("link", name="Ask", exact=True).first.click()
    page.wait_for_url("**/ask/")
    page.fill("input[name=query]", query)
    page.get_by_role("button", name="Show the memories").click()
    page.wait_for_url(re.compile(r"/runs/[0-9a-f-]{36}/"))
    assert peer.reached["asks"].wait(PATIENCE)
    return page.url.split("?")[0]


def seqs(page: Page) -> list[int]:
    """Returns the numbers of the events on the page, all read at one moment."""
    return sorted(page.locator("[data-event]").evaluate_all("events => events.map(event => Number(event.dataset.seq))"))


def drawn(page: Page) -> str:
    """Returns the HTML of the three lanes after the page has settled, without blanks between elements."""
    expect(page.locator(".is-arriving")).to_have_count(0)
    # The marks for judging come with the strip, once the run has ended.
    expect(page.locator(".chosen .grade-buttons")).to_have_count(page.locator(".chosen").count())
    html = str(page.locator(".lanes").evaluate("lanes => lanes.innerHTML"))
    return re.sub(r">\s+<", "><", html.replace(' class=""', "")).strip()


def test_a_run_streams_turn_by_turn_and_then_replays(page: Page, stack: Stack, peer: Peer) -> None:
    url = ask(page, stack, peer)
    expect(page.locator(".candidate").first).to_be_visible()
    expect(page.locator(".run-live-mark")).to_be_visible()
    expect(page.locator(".candidate.is-read")).to_have_count(0)
    peer.gates["asks"].set()
    expect(page.locator(".candidate.is-read").nth(1)).to_be_visible()
    expect(page.locator(".candidate.is-read")).to_have_count(len(peer.asked))
    assert peer.reached["chooses"].wait(PATIENCE)
    peer.gates["chooses"].set()
    expect(page.locator(".chosen")).to_have_count(1)
    expect(page.locator(".excerpt mark.is-exact")).to_have_count(1)
    expect(page.locator(".run-live-mark")).to_have_count(0)
    live, before = seqs(page), drawn(page)
    assert live == list(range(1, len(live) + 1))
    states = page.locator(".candidate").evaluate_all("rows => rows.map(row => row.className)")

    page.goto(url)
    assert seqs(page) == live
    assert page.locator(".candidate").evaluate_all("rows => rows.map(row => row.className)") == states
    assert drawn(page) == before

    page.keyboard.press("Home")
    expect(page.locator(".chosen")).not_to_be_visible()
    expect(page).to_have_url(f"{url}?step=1")
    page.keyboard.press("ArrowRight")
    expect(page).to_have_url(f"{url}?step=2")
    page.locator("[data-speed]").select_option("8")
    page.locator(".transport-play").click()
    expect(page.locator(".chosen")).to_be_visible()
    expect(page).to_have_url(url)


def test_an_answer_grows_on_the_page_before_its_turn_ends(page: Page, stack: Stack, peer: Peer) -> None:
    peer.grows = True
    try:
        url = ask(page, stack, peer)
        peer.gates["asks"].set()
        peer.gates["chooses"].set()
        assert peer.reached["ends"].wait(PATIENCE)
        words = page.locator("#run-speaking")
        expect(words).to_contain_text('"topics"')
        expect(page.locator(".chosen")).to_have_count(0)
        page.reload()
        expect(words).to_contain_text('"topics"')
        page.keyboard.press("ArrowLeft")
        expect(words).to_be_hidden()
        page.keyboard.press("End")
        expect(words).to_be_visible()
        page.set_viewport_size({"width": 1440, "height": 500})
        page.mouse.wheel(0, 120)
        page.wait_for_function("() => scrollY > 0")
        row = page.locator(".candidate").last
        stood = at_rest(row)
        peer.open()
        expect(page.locator(".chosen")).to_have_count(1)
        expect(words).to_be_empty()
        assert abs(at_rest(row) - stood) < 2, "the page moved under the reader"
        before = drawn(page)
        page.goto(url)
        assert drawn(page) == before
    finally:
        peer.grows = False


def test_what_goes_on_is_named_and_followed_until_the_reader_scrolls_away(page: Page, stack: Stack, peer: Peer) -> None:
    page.set_viewport_size({"width": 1280, "height": 640})
    url = ask(page, stack, peer)
    going, clock, turns = page.locator(".run-going"), page.locator("[data-clock]"), page.locator(".lane-turns")
    expect(going).to_have_text("Turn 1: thinking")
    shown = str(clock.text_content())
    expect(clock).not_to_have_text(shown)
    at_end = "lane => lane.scrollHeight - lane.scrollTop - lane.clientHeight < 48"
    # The connection was lost for a moment: the page polls beside its socket, and shows nothing twice.
    page.evaluate("dispatchEvent(new Event('online'))")
    peer.gates["asks"].set()
    expect(going).to_have_text("Turn 2: thinking")
    wait_for(lambda: turns.evaluate(at_end))
    # A row that arrives at the same moment scrolls to the end again.
    wait_for(lambda: turns.evaluate("lane => { lane.scrollTop = 0 }") or page.locator("[data-follow]").is_visible())
    page.locator("[data-follow]").click()
    wait_for(lambda: turns.evaluate(at_end))
    expect(page.locator("[data-follow]")).to_be_hidden()
    page.keyboard.press("Home")
    expect(page.locator(".run-live-mark")).to_have_text("go live", use_inner_text=True)
    expect(going).to_have_text("Rewriting the query…")
    page.locator(".run-live-mark").click()
    expect(page).to_have_url(url)
    expect(going).to_have_text("Turn 2: thinking")
    page.evaluate("dispatchEvent(new Event('online'))")
    peer.open()
    expect(page.locator(".chosen")).to_have_count(1)
    expect(going).to_have_text("")
    found = seqs(page)
    assert found == list(range(1, len(found) + 1))


def test_a_run_that_goes_on_is_stopped_and_the_next_one_works(page: Page, stack: Stack, peer: Peer) -> None:
    ask(page, stack, peer)
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".run-outcome")).to_contain_text("ada stopped this run before the model had chosen.")
    expect(page.get_by_role("button", name="Stop")).to_have_count(0)
    peer.open()
    ask(page, stack, peer)
    peer.open()
    expect(page.locator(".chosen")).to_have_count(1)


def test_a_step_has_an_address_that_works_without_scripts(
    browser: Browser, page: Page, stack: Stack, peer: Peer
) -> None:
    url = ask(page, stack, peer)
    peer.open()
    expect(page.locator(".chosen")).to_have_count(1)
    session = page.context.storage_state()
    with patient_context(browser, java_script_enabled=False, storage_state=session) as context:
        plain = context.new_page()
        plain.goto(f"{url}?step=3")
        expect(plain.locator(".transport-step")).to_contain_text("3 /")
        expect(plain.locator(".chosen")).to_be_hidden()
        plain.goto(url)
        expect(plain.locator(".chosen")).to_be_visible()


def test_a_reload_and_a_late_viewer_see_the_run_so_far_and_the_rest(
    browser: Browser, page: Page, stack: Stack, peer: Peer
) -> None:
    url = ask(page, stack, peer)
    page.reload()
    expect(page.locator(".candidate").first).to_be_visible()
    with patient_context(browser, storage_state=page.context.storage_state()) as context:
        late = context.new_page()
        late.goto(url)
        peer.open()
        for viewer in (page, late):
            expect(viewer.locator(".chosen")).to_have_count(1)
            found = seqs(viewer)
            assert found == list(range(1, len(found) + 1))


def opened(page: Page, sockets: list[Any], count: int) -> None:
    """Returns once the page has opened this many sockets."""
    ends = time.monotonic() + PATIENCE
    while len(sockets) < count:
        assert time.monotonic() < ends, sockets
        page.wait_for_timeout(20)  # while Playwright processes the browser's events


def test_a_socket_cut_in_the_middle_loses_and_doubles_nothing(page: Page, stack: Stack, peer: Peer) -> None:
    sockets: list[Any] = []

    def carry(route: Any) -> None:
        sockets.append(route)
        server = route.connect_to_server()
        route.on_message(server.send)
        server.on_message(route.send)

    page.route_web_socket(re.compile(r"/ws/runs/"), carry)
    ask(page, stack, peer)
    expect(page.locator(".candidate").first).to_be_visible()
    # The candidates are on the page before its script opens a socket; without a socket it polls each second.
    opened(page, sockets, 1)
    sockets[0].close(code=1012)
    opened(page, sockets, 2)
    peer.open()
    expect(page.locator(".chosen")).to_have_count(1)
    assert len(sockets) == 2
    found = seqs(page)
    assert found == list(range(1, len(found) + 1))


def test_a_killed_web_process_leaves_a_run_that_is_closed_and_says_so(page: Page, stack: Stack, peer: Peer) -> None:
    url = ask(page, stack, peer)
    expect(page.locator(".event-turn")).to_be_visible()
    before = seqs(page)
    for web in stack.web_processes():
        os.kill(web, signal.SIGKILL)
    expect(page.locator(".run-outcome")).to_contain_text("was stopped")
    found = seqs(page)
    assert found[: len(before)] == before
    assert found == list(range(1, len(found) + 1))
    assert json.loads(stack.command("check_memory", "--json").stdout)["violations"] == []
    page.goto(url)
    expect(page.locator(".run-outcome")).to_contain_text("was stopped")


def test_the_runs_are_listed_with_how_they_ended(page: Page, stack: Stack, peer: Peer) -> None:
    ask(page, stack, peer, "Что делать с мениском?")
    peer.open()
    expect(page.locator(".chosen")).to_have_count(1)
    page.goto(f"{stack.url}/runs/?outcome=chosen")
    row = page.locator("tr", has_text="Что делать с мениском?")
    expect(row).to_contain_text("1 topic")
    row.get_by_role("link").first.click()
    expect(page.locator(".chosen")).to_have_count(1)


def test_the_scripted_model_saw_the_candidates_as_the_page_shows_them(page: Page, stack: Stack, peer: Peer) -> None:
    ask(page, stack, peer)
    sent = wait_for(lambda: [r for r in peer.requests if r.get("tools")])[-1]
    assert sent["tool_choice"] == {"type": "function", "function": {"name": "get_topics_content"}}
    lines = re.findall(r"^\[Topic:\d+\]", sent["messages"][1]["content"], re.M)
    expect(page.locator(".candidate")).to_have_count(len(lines))
    peer.open()
    expect(page.locator(".chosen")).to_have_count(1)


def test_what_a_run_chose_is_told_to_who_listens(page: Page, stack: Stack, peer: Peer) -> None:
    ask(page, stack, peer)
    expect(page.locator(".run-live-mark")).to_be_visible()
    # Only a region that was there before the end, unlike all of the run, is spoken.
    page.evaluate("document.querySelector('#told').dataset.stays = 'yes'")
    told = page.locator("#told[role=status][data-stays]")
    expect(told).to_have_text("")
    peer.open()
    expect(told).to_have_text(re.compile(r"^chosen 1 of \d+$"))
