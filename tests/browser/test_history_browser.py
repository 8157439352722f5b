"""History, people and facts in a real browser, by the keyboard alone and by the mouse."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from memoryapp import curation
from memoryapp.curation import knowledge
from memoryapp.models import ChatUser, KnowledgeEdit, Person, Role, Topic
from tests.browser.conftest import Browse
from tests.conftest import operator, talk
from tests.support.browsing import press


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
