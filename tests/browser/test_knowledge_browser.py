"""History, people, facts, findings, prompts, tokens and imports in a real browser, by the keyboard alone and by the
mouse."""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, expect
from pytest_django.live_server_helper import LiveServer

from memoryapp import curation
from memoryapp.curation import extraction, knowledge
from memoryapp.models import (
    AgentCall,
    ApiToken,
    ChatUser,
    Fact,
    Finding,
    FindingMessage,
    ImportFile,
    KnowledgeEdit,
    Message,
    Operator,
    Person,
    Role,
    Run,
    Topic,
)
from memoryapp.upkeep import tasks
from tests.browser.conftest import Browse
from tests.conftest import operator, talk
from tests.curation.test_prompts import PAGE, events_of
from tests.runs.stored_events import store
from tests.support.browsing import assert_fits, press, settle, style_by_script
from tests.support.watched import patient_context


@pytest.fixture
def page(anna: ChatUser, browse: Browse) -> Iterator[Page]:
    """Signed in as a curator; a refused change is not reported as an error of the page."""
    with browse(operator("cora", Role.CURATOR, anna), "409") as page:
        yield page


def test_people_are_edited_merged_and_given_back_by_the_keyboard(page: Page, anna: ChatUser) -> None:
    dora = Person.objects.create(owner=anna, display_name="Dora", mention_count=3, bio="A vet.")
    Person.objects.create(owner=anna, display_name="Dorotea", mention_count=2)
    page.goto(f"/memory/{anna.pk}/people/")
    for key in ("j", "x", "j", "x"):
        press(page, key)
    expect(page.locator("[data-marked-count]")).to_have_text("2")
    press(page, "m")
    page.wait_for_url("**/people/merge/**")
    expect(page.locator("#merged")).to_contain_text("Dorotea")
    expect(page.locator("[name=survivor]:checked")).to_be_focused()
    press(page, "m")
    expect(page.get_by_text("Press M again to merge")).to_be_visible()
    assert Person.objects.count() == 2
    press(page, "ArrowDown")
    expect(page.locator("#merged strong")).to_have_text("Dorotea")
    press(page, "ArrowUp")
    expect(page.locator("#merged strong")).to_have_text("Dora")
    press(page, "m")
    page.wait_for_url(f"**/people/{dora.pk}/")
    expect(page.locator("[data-toast]")).to_contain_text("Merged 1 person into Dora")
    press(page, "u")
    expect(page.locator("[data-toast]")).to_contain_text("Undone: merged")
    assert Person.objects.count() == 2
    page.goto(f"/memory/{anna.pk}/people/")
    press(page, "j")
    press(page, "e")
    page.wait_for_url(f"**/people/{dora.pk}/edit/")
    page.get_by_label("About").focus()
    press(page, "Control+End")
    page.keyboard.type(" Of cats, example m x e.")
    press(page, "Control+Enter")
    page.wait_for_url(f"**/people/{dora.pk}/")
    expect(page.locator("ins").first).to_have_text(" Of cats, example m x e.")
    press(page, "e")
    page.wait_for_url("**/edit/")
    press(page, "Escape")
    page.wait_for_url(f"**/people/{dora.pk}/")


def test_a_slower_editor_sees_both_changes_and_saves_over(page: Page, anna: ChatUser) -> None:
    dora = Person.objects.create(owner=anna, display_name="Dora", bio="A vet.")
    page.goto(f"/memory/{anna.pk}/people/{dora.pk}/edit/")
    page.get_by_label("About").fill("A vet of cats.")
    knowledge.edit(anna, dora, {"bio": "A vet of dogs."}, actor="bob")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert").first).to_contain_text("bob saved first")
    expect(page.locator(".conflict ins").first).to_have_text(" of dogs")
    expect(page.get_by_label("About")).to_have_value("A vet of cats.")
    page.get_by_role("button", name="Save mine over it").click()
    page.wait_for_url(f"**/people/{dora.pk}/")
    assert Person.objects.get().bio == "A vet of cats."


def test_history_is_narrowed_walked_and_undone(page: Page, anna: ChatUser) -> None:
    topic = talk(anna, ("Cats", ["A cat?"]))[0]
    first = curation.swap(anna, curation.plan_edit(anna, topic.pk, "Cats 2"), kind="edit", actor="ada")
    again = curation.plan_edit(anna, curation.put_in(first)[0].pk, "Cats 3")
    curation.swap(anna, again, kind="edit", actor="bob")
    page.goto(f"/memory/{anna.pk}/history/")
    expect(page.locator(".entry-row")).to_have_count(2)
    page.get_by_text("The program archived on its own").click()
    expect(page.locator(".entry-row")).to_have_count(3)
    page.get_by_label("Change", exact=True).select_option("edit")
    expect(page.locator(".entry-row")).to_have_count(2)
    expect(page).to_have_url(re.compile("kind=edit"))
    for row in range(2):
        press(page, "j")
        expect(page.locator(".entry-row").nth(row)).to_have_class(re.compile("is-current"))
    press(page, "Enter")
    page.wait_for_url(f"**/history/edits/{first.pk}/?next=*")
    expect(page.locator("main")).to_contain_text("1 later change depends on it")
    expect(page.locator("main [autofocus]")).to_be_focused()
    press(page, "Enter")
    expect(page.locator("[data-toast]")).to_contain_text("Undone: edited")
    assert list(Topic.objects.live().values_list("pk", "summary")) == [(topic.pk, "Cats")]
    expect(page.locator(".is-undone")).to_have_count(2)


def test_all_of_one_persons_changes_are_undone_with_the_mouse(page: Page, anna: ChatUser) -> None:
    dora = Person.objects.create(owner=anna, display_name="Dora", bio="A vet.")
    knowledge.edit(anna, dora, {"bio": "Wrong."}, actor="ada")
    knowledge.create(anna, KnowledgeEdit.Noun.PERSON, {"display_name": "Nobody"}, actor="ada")
    page.goto(f"/memory/{anna.pk}/history/?actor=ada")
    page.get_by_role("link", name="Undo all by ada").click()
    page.wait_for_url("**/history/range/**")
    page.get_by_role("button", name="Undo 2 changes of ada").click()
    expect(page.locator("[data-toast]")).to_contain_text("Undone: 2 changes of ada")
    assert list(Person.objects.values_list("display_name", "bio")) == [("Dora", "A vet.")]
    page.locator("[data-toast] [data-undo]").click()
    expect(page.get_by_role("heading", name="2 changes would be undone")).to_be_visible()


# Findings of the review decided by the keyboard alone, one after another, without loading the page again.


# The decision about each of five consecutive findings.
DECISIONS = 5
ROUNDS = 3
# The facts at the end, with the text that was typed.
WANTED = (("Likes figs", ""), ("Likes dates", " Most of all."), ("Has a house at lake", ""))


@pytest.fixture
def findings(transactional_db: None, anna: ChatUser) -> list[Finding]:
    """In each round: a true fact, one to reword, a false one, a person known by another name, and a fact that is true
    beside the one it would replace."""
    by_hand = {"actor": "ada"}
    knowledge.create(anna, KnowledgeEdit.Noun.PERSON, {"display_name": "Dora Blau", "circle": "Friends"}, **by_hand)
    values = {"relation": "lives_in", "category": "home", "type": "identity", "importance": 90}
    knowledge.create(anna, KnowledgeEdit.Noun.FACT, {**values, "content": "Lives in Riga."}, **by_hand)
    topics = talk(anna, *((f"Talk {n}", [f"message {n}", f"reply {n}"]) for n in range(ROUNDS)))
    riga, dora = Fact.objects.get(), Person.objects.get()
    found = []
    for n, topic in enumerate(topics):
        likes = {"relation": "likes", "category": "food", "type": "context", "importance": 50}
        for noun, given, more in (
            ("fact", {**likes, "content": f"Likes figs {n}."}, {}),
            ("fact", {**likes, "content": f"Likes dates {n}."}, {}),
            ("fact", {**likes, "content": f"Likes nothing {n}."}, {}),
            ("person", {"display_name": f"Dodo {n}", "aliases": [], "circle": "Friends"}, {"alike": [dora.pk]}),
            ("fact", {**values, "content": f"Has a house at lake {n}."}, {"target": riga.pk}),
        ):
            made = Finding.objects.create(owner=anna, topic=topic, noun=noun, values=given, **more)
            FindingMessage.objects.create(owner=anna, finding=made, message=topic.message_set.in_order()[0])
            found.append(made)
    return found


@pytest.fixture
def review_page(browse: Browse, findings: list[Finding], anna: ChatUser) -> Iterator[Page]:
    with browse(operator("clara", Role.CURATOR, anna)) as page:
        page.goto(f"/memory/{anna.pk}/review/")
        yield page


def decide(page: Page, place: int) -> None:
    """Makes the decision about the finding at this place of its round."""
    if place == 1:
        press(page, "e")
        expect(page.locator("textarea[name=content]")).to_be_focused()
        page.keyboard.press("End")
        page.keyboard.type(" Most of all.")
        page.keyboard.press("Control+Enter")
    else:
        press(page, "yenmb"[place])


def test_findings_are_decided_by_keys_alone_one_request_each(
    review_page: Page, findings: list[Finding], anna: ChatUser
) -> None:
    """Two hundred decisions in ten minutes leave three seconds for each; the server may use a small part of them."""
    asked: list[str] = []
    review_page.on(
        "request", lambda request: "/memory/" in request.url and asked.append(f"{request.method} {request.url}")
    )
    began = time.process_time()
    for number, finding in enumerate(findings):
        expect(review_page.locator("form.finding")).to_have_attribute(
            "action", f"/memory/{anna.pk}/review/{finding.pk}/"
        )
        decide(review_page, number % DECISIONS)
    expect(review_page.get_by_text("There is nothing to decide")).to_be_visible()
    seconds = (time.process_time() - began) / len(findings)
    here = review_page.url.partition("/memory/")[0]
    assert asked == [f"POST {here}/memory/{anna.pk}/review/{finding.pk}/" for finding in findings]
    contents = Fact.objects.current().values_list("content", flat=True)
    assert set(contents) == {
        "Lives in Riga.",
        *(f"{content} {n}.{end}" for n in range(ROUNDS) for content, end in WANTED),
    }
    assert Person.objects.get().aliases == [f"Dodo {n}" for n in range(ROUNDS)]
    assert seconds < 3, f"{seconds:.2f} s a decision"
    print(f"{seconds:.2f} s a decision")


def test_the_last_decision_is_taken_back_by_a_key(review_page: Page, findings: list[Finding], anna: ChatUser) -> None:
    # The policy of the page forbids to copy such a style to what a decision swaps in; the console would say so.
    style_by_script(review_page)
    press(review_page, "n")
    expect(review_page.locator("form.finding")).to_have_attribute(
        "action", f"/memory/{anna.pk}/review/{findings[1].pk}/"
    )
    style_by_script(review_page)
    press(review_page, "u")
    expect(review_page.locator("form.finding")).to_have_attribute(
        "action", f"/memory/{anna.pk}/review/{findings[0].pk}/"
    )
    settle(review_page)
    assert extraction.waiting(anna).count() == len(findings)


def test_a_whole_answer_is_rejected_by_keys_after_a_question(
    review_page: Page, findings: list[Finding], anna: ChatUser
) -> None:
    call = AgentCall.objects.create(owner=anna, agent="archivist")
    Finding.objects.filter(pk__in=[finding.pk for finding in findings[:3]]).update(call=call)
    review_page.reload()
    asked = review_page.get_by_role("alertdialog")
    press(review_page, "a")
    expect(asked).to_be_visible()
    press(review_page, "n")
    expect(asked).to_have_count(0)
    assert extraction.waiting(anna).count() == len(findings)
    press(review_page, "a")
    expect(asked).to_be_visible()
    press(review_page, "y")
    expect(review_page.locator("form.finding")).to_have_attribute(
        "action", f"/memory/{anna.pk}/review/{findings[3].pk}/"
    )
    assert extraction.waiting(anna).count() == len(findings) - 3
    press(review_page, "u")
    expect(review_page.locator("form.finding")).to_have_attribute(
        "action", f"/memory/{anna.pk}/review/{findings[0].pk}/"
    )
    assert extraction.waiting(anna).count() == len(findings)


# Prompts in a real browser: edited, compared, tried on a past run.


# messages of the browser and of htmx for a refused socket
NO_SOCKET = ("/ws/runs/", "[object Event]")


@pytest.fixture
def parent(transactional_db: None, anna: ChatUser) -> Run:
    topic = talk(anna, ("vLLM crash", ["vLLM dies with OOM", "Lower it"]))[0]
    run = Run.objects.create(owner=anna, query="vllm?", strategy="flash")
    store(run, events_of(topic))
    return run


@pytest.fixture
def prompts_page(parent: Run, debugger: Operator, browse: Browse) -> Iterator[Page]:
    """Signed in as somebody who may try prompts; this server has no socket for the new run."""
    with browse(debugger, *NO_SOCKET) as page:
        yield page


def replace_in(page: Page, label: str, old: str, new: str) -> None:
    field = page.get_by_label(label)
    text = field.input_value()
    assert old in text
    field.fill(text.replace(old, new))


def test_an_edit_is_looked_at_kept_and_tried_on_a_run(prompts_page: Page, parent: Run) -> None:
    prompts_page.goto(PAGE)
    replace_in(prompts_page, "System message", "Fewer is better than padding.", "Three are plenty.")
    prompts_page.get_by_role("button", name="Show changes").click()
    changes = prompts_page.locator("#changes")
    expect(changes.locator("del").first).to_be_visible()
    expect(changes.locator("ins")).to_contain_text(["Three are plenty"])
    prompts_page.get_by_label("What changed", exact=True).fill("shorter")
    prompts_page.get_by_role("button", name="Save as a draft").click()
    expect(prompts_page.locator("h1")).to_contain_text("version 1")
    prompts_page.get_by_role("link", name="Compare with the one in force").click()
    expect(prompts_page.locator(".diff-changed")).to_have_count(1)
    prompts_page.goto(PAGE)
    prompts_page.get_by_role("link", name="vllm?").click()
    prompts_page.wait_for_url("**/runs/*/prompt/**")
    replace_in(prompts_page, "User message", "Today: $today", "It is $today now")
    prompts_page.get_by_role("button", name="Preview").click()
    expect(prompts_page.locator("#changes ins").first).to_have_text("It is")
    prompts_page.get_by_role("button", name="Try on this run").click()
    prompts_page.wait_for_url("**/runs/*/")
    assert str(parent.pk) not in prompts_page.url
    prompts_page.goto(PAGE)
    versions = prompts_page.locator(".rows li", has_text="rerank-en-2")
    expect(versions).to_contain_text(f"tried on run {parent.short_id}")
    expect(prompts_page.locator(".page-actions")).to_contain_text("built in")


def test_the_editor_is_as_long_as_its_text_and_a_long_line_stays_inside(prompts_page: Page) -> None:
    prompts_page.goto(PAGE)
    settle(prompts_page)
    field = prompts_page.get_by_label("System message")
    assert field.evaluate("field => field.scrollHeight <= field.clientHeight + 1")
    field.fill(f"{field.input_value()}\n{'word ' * 400}\n{'x' * 900}")
    assert field.evaluate("field => field.scrollHeight <= field.clientHeight + 1")
    prompts_page.get_by_role("button", name="Show changes").click()
    assert_fits(prompts_page, prompts_page.locator("#changes"))


def test_on_a_phone_the_old_line_stands_above_the_new_one(prompts_page: Page) -> None:
    prompts_page.set_viewport_size({"width": 390, "height": 844})
    prompts_page.goto(PAGE)
    replace_in(prompts_page, "System message", "Fewer is better than padding.", "Three are plenty.")
    prompts_page.get_by_role("button", name="Show changes").click()
    row = prompts_page.locator(".diff-changed")
    assert_fits(prompts_page, row)
    old, new = (row.locator(f".diff-text.{side}").bounding_box() for side in ("diff-old", "diff-new"))
    assert old
    assert new
    assert new["y"] >= old["y"] + old["height"] - 1


# API tokens in a real browser: created, copied, used, and removed from the page when it is left.


@pytest.fixture
def tokens_page(anna: ChatUser, admin: Operator, browse: Browse) -> Iterator[Page]:
    talk(anna, ("Tea", ["Which tea?", "Green tea."]))
    with browse(admin) as page:
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        yield page


def make(page: Page, name: str) -> None:
    page.goto("/tokens/")
    page.get_by_role("link", name="Make a token").first.click()
    page.wait_for_url("**/tokens/make/")
    page.get_by_label("Name").fill(name)
    page.locator("[name=scopes][value=read]").check()
    page.get_by_label("Анна").check()
    page.get_by_role("button", name="Create and show it").click()
    expect(page.locator("h1")).to_have_text(f"The token “{name}” was created")


def clipboard(page: Page) -> str:
    text: str = page.evaluate("navigator.clipboard.readText()")
    return text


def test_a_token_is_made_copied_and_used_and_the_page_forgets_it(tokens_page: Page, live_server: LiveServer) -> None:
    make(tokens_page, "bot")
    tokens_page.get_by_role("button", name="Copy the token").click()
    expect(tokens_page.get_by_role("button", name="Copied")).to_be_visible()
    text = clipboard(tokens_page)
    assert tokens_page.locator("#token-text").inner_text() == text
    address = f"{live_server.url}/v1/users/anna/topics"
    headers = {"authorization": f"Bearer {text}"}
    assert [topic["summary"] for topic in httpx.get(address, headers=headers).json()["topics"]] == ["Tea"]
    tokens_page.get_by_role("button", name="Copy the line").click()
    expect(tokens_page.get_by_role("button", name="Copy the token")).to_be_visible()
    expect(tokens_page.get_by_role("button", name="Copied")).to_have_count(1)
    assert clipboard(tokens_page) == f"curl -H 'Authorization: Bearer {text}' {address}"

    assert tokens_page.url == f"{live_server.url}/tokens/"
    for leave in (tokens_page.reload, tokens_page.go_back, tokens_page.go_forward):
        leave()
        assert text not in tokens_page.content()
    assert ApiToken.objects.count() == 1

    tokens_page.goto("/tokens/")
    tokens_page.get_by_role("link", name="Revoke…").click()
    assert httpx.get(address, headers=headers).status_code == 200
    tokens_page.get_by_role("button", name="Revoke").click()
    expect(tokens_page.locator("#revoked")).to_contain_text("bot")
    assert httpx.get(address, headers=headers).status_code == 401


def test_without_scripts_a_reload_makes_no_second_token(tokens_page: Page, live_server: LiveServer) -> None:
    assert tokens_page.context.browser
    session = {"storage_state": tokens_page.context.storage_state(), "base_url": live_server.url}
    with patient_context(tokens_page.context.browser, java_script_enabled=False, **session) as plain:
        reader = plain.new_page()
        make(reader, "bot")
        expect(reader.get_by_role("button", name="Copy the token")).to_be_hidden()
        text = reader.locator("#token-text").inner_text()
        reader.reload()
        expect(reader.locator(".notice")).to_contain_text("“bot” was created already")
        assert text not in reader.content()
        assert ApiToken.objects.count() == 1


def test_which_chat_users_is_asked_only_where_it_matters_and_a_phone_has_room(tokens_page: Page) -> None:
    tokens_page.set_viewport_size({"width": 390, "height": 844})
    tokens_page.goto("/tokens/make/")
    expect(tokens_page.locator(".rail summary[aria-current]")).to_be_in_viewport(ratio=1)
    expect(tokens_page.get_by_label("Анна")).to_be_visible()
    tokens_page.get_by_label("every memory").check()
    expect(tokens_page.get_by_label("Анна")).to_be_hidden()
    assert_fits(tokens_page, tokens_page.locator("h1"))
    assert tokens_page.locator("label.option").evaluate_all(
        "all => all.every(it => !it.offsetParent || it.offsetHeight >= 40)"
    )


# A chat imported through the page of imports: dropped, rehearsed, its time zone chosen, imported, withdrawn.


CHAT = "[25.07.24, 09:05:12] Boris: Are you up?\n[25.07.24, 09:05:40] Anna: Yes, and there is cake."
# Drops a file as a person does; a script can only drop a file that it created.
DROP = """([name, text]) => {
  const brought = new DataTransfer();
  brought.items.add(new File([text], name, { type: "text/plain" }));
  const place = document.getElementById("upload");
  for (const kind of ["dragover", "drop"]) {
    place.dispatchEvent(new DragEvent(kind, { bubbles: true, cancelable: true, dataTransfer: brought }));
  }
}"""


@pytest.fixture
def imports_page(anna: ChatUser, browse: Browse, tmp_path: Path, settings: Any) -> Iterator[Page]:
    settings.IMPORT_DIR = tmp_path / "imports"
    with browse(operator("cora", Role.CURATOR, anna), timezone_id="Europe/Berlin") as page:
        yield page


def test_a_chat_is_dropped_looked_through_imported_and_taken_back(imports_page: Page, anna: ChatUser) -> None:
    imports_page.goto(f"/memory/{anna.pk}/imports/")
    imports_page.evaluate(DROP, ["WhatsApp Chat with Boris.txt", CHAT])
    imports_page.wait_for_url("**/imports/files/*/")
    expect(imports_page.locator("#import-file")).to_contain_text("waiting for the worker")
    tasks.import_waiting()
    # The page polls the state of the file.
    expect(imports_page.get_by_role("button", name="Import 2 messages")).to_be_visible()
    expect(imports_page.get_by_label("Time zone of the phone")).to_have_value("Europe/Berlin")
    assert not Message.objects.exists()
    imports_page.get_by_role("button", name="Import 2 messages").click()
    expect(imports_page.locator("#import-file")).to_contain_text("Importing the messages")
    tasks.import_waiting()
    expect(imports_page.get_by_role("status").first).to_contain_text("2 messages were imported.")
    assert Message.objects.earliest("sent_at").sent_at.hour == 7, "nine o'clock in Berlin"
    imports_page.get_by_role("link", name="Undo this import").click()
    imports_page.wait_for_url("**/withdraw/")
    imports_page.get_by_role("button", name="Withdraw 2 messages").click()
    expect(imports_page.locator("[data-toast]")).to_contain_text("Withdrew the import WhatsApp Chat with Boris.txt")
    assert set(Message.objects.values_list("is_withdrawn", flat=True)) == {True}
    assert ImportFile.objects.get().state == ImportFile.State.DONE
