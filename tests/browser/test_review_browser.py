"""Findings of the review decided by the keyboard alone, one after another, without loading the page again."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from memoryapp.curation import extraction, knowledge
from memoryapp.models import AgentCall, ChatUser, Fact, Finding, FindingMessage, KnowledgeEdit, Person, Role
from tests.browser.conftest import Browse
from tests.conftest import operator, talk
from tests.support.browsing import press, settle, style_by_script

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
def page(browse: Browse, findings: list[Finding], anna: ChatUser) -> Iterator[Page]:
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
    page: Page, findings: list[Finding], anna: ChatUser
) -> None:
    """Two hundred decisions in ten minutes leave three seconds for each; the server may use a small part of them."""
    asked: list[str] = []
    page.on("request", lambda request: "/memory/" in request.url and asked.append(f"{request.method} {request.url}"))
    began = time.process_time()
    for number, finding in enumerate(findings):
        expect(page.locator("form.finding")).to_have_attribute("action", f"/memory/{anna.pk}/review/{finding.pk}/")
        decide(page, number % DECISIONS)
    expect(page.get_by_text("There is nothing to decide")).to_be_visible()
    seconds = (time.process_time() - began) / len(findings)
    here = page.url.partition("/memory/")[0]
    assert asked == [f"POST {here}/memory/{anna.pk}/review/{finding.pk}/" for finding in findings]
    contents = Fact.objects.current().values_list("content", flat=True)
    assert set(contents) == {
        "Lives in Riga.",
        *(f"{content} {n}.{end}" for n in range(ROUNDS) for content, end in WANTED),
    }
    assert Person.objects.get().aliases == [f"Dodo {n}" for n in range(ROUNDS)]
    assert seconds < 3, f"{seconds:.2f} s a decision"
    print(f"{seconds:.2f} s a decision")


def test_the_last_decision_is_taken_back_by_a_key(page: Page, findings: list[Finding], anna: ChatUser) -> None:
    # The policy of the page forbids to copy such a style to what a decision swaps in; the console would say so.
    style_by_script(page)
    press(page, "n")
    expect(page.locator("form.finding")).to_have_attribute("action", f"/memory/{anna.pk}/review/{findings[1].pk}/")
    style_by_script(page)
    press(page, "u")
    expect(page.locator("form.finding")).to_have_attribute("action", f"/memory/{anna.pk}/review/{findings[0].pk}/")
    settle(page)
    assert extraction.waiting(anna).count() == len(findings)


def test_a_whole_answer_is_rejected_by_keys_after_a_question(
    page: Page, findings: list[Finding], anna: ChatUser
) -> None:
    call = AgentCall.objects.create(owner=anna, agent="archivist")
    Finding.objects.filter(pk__in=[finding.pk for finding in findings[:3]]).update(call=call)
    page.reload()
    asked = page.get_by_role("alertdialog")
    press(page, "a")
    expect(asked).to_be_visible()
    press(page, "n")
    expect(asked).to_have_count(0)
    assert extraction.waiting(anna).count() == len(findings)
    press(page, "a")
    expect(asked).to_be_visible()
    press(page, "y")
    expect(page.locator("form.finding")).to_have_attribute("action", f"/memory/{anna.pk}/review/{findings[3].pk}/")
    assert extraction.waiting(anna).count() == len(findings) - 3
    press(page, "u")
    expect(page.locator("form.finding")).to_have_attribute("action", f"/memory/{anna.pk}/review/{findings[0].pk}/")
    assert extraction.waiting(anna).count() == len(findings)
