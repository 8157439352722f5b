"""People, facts and artifacts on their pages: created, edited, merged and deleted, each with an undo."""

import json
import re
from typing import Any

import pytest
from django.test import Client

from memoryapp.curation import knowledge
from memoryapp.models import Artifact, ChatUser, Fact, KnowledgeEdit, Operator, Person
from tests.conftest import BEGAN, fact_of, signed_in, talk
from tests.support.browsing import HTMX, cost, flat, get


@pytest.fixture
def client(curator: Operator) -> Client:
    return signed_in(curator)


@pytest.fixture
def dora(anna: ChatUser) -> Person:
    return Person.objects.create(owner=anna, display_name="Dora", aliases=["Dorotea"], bio="A vet.", mention_count=2)


def address(row: Person | Fact | Artifact, rest: str = "") -> str:
    lists = {Person: "people", Fact: "facts", Artifact: "artifacts"}
    return f"/memory/{row.owner_id}/{lists[type(row)]}/{row.pk}/{rest}"


def form_of(page: str) -> dict[str, str]:
    """Returns what a browser would send of the page's form, unchanged."""
    form = page.split("data-save>")[1].split("</form>")[0]
    plain = re.findall(r'<input(?=[^>]*name="(\w+)")(?=[^>]*value="([^"]*)")', form)
    texts = re.findall(r'<textarea name="(\w+)"[^>]*>\s*([^<]*)</textarea>', form)
    chosen = re.findall(r'<select name="(\w+)".*?<option value="([^"]*)" selected', form, re.S)
    unescaped = [(name, value.replace("&quot;", '"').replace("&#x27;", "'")) for name, value in plain + texts + chosen]
    return {name: value for name, value in unescaped if name != "csrfmiddlewaretoken"}


def page_text(answer: Any) -> str:
    return flat(answer.content.decode())


class TestEdit:
    def test_a_person_is_edited_and_the_toast_takes_it_back(self, dora: Person, client: Client) -> None:
        sent = {**form_of(get(client, address(dora, "edit/"))), "bio": "A vet in Riga.", "aliases": "Dorotea\nDorka\n"}
        page = page_text(client.post(address(dora, "edit/"), {**sent, "reason": "moved"}, follow=True))
        dora.refresh_from_db()
        assert (dora.bio, dora.aliases) == ("A vet in Riga.", ["Dorotea", "Dorka"])
        assert "<ins> in Riga</ins>" in page
        assert "moved" in page
        change = KnowledgeEdit.objects.get()
        assert change.actor == "cora"
        undo = f"/memory/{dora.owner_id}/history/changes/{change.pk}/"
        assert f'action="{undo}"' in page
        client.post(undo)
        dora.refresh_from_db()
        assert (dora.bio, dora.aliases) == ("A vet.", ["Dorotea"])

    def test_what_cannot_be_is_refused_and_the_text_kept(self, anna: ChatUser, dora: Person, client: Client) -> None:
        sent = form_of(get(client, address(dora, "edit/")))
        for wrong, sentence in (
            ({"display_name": ""}, "required"),
            ({"circle": "Enemies"}, "Select a valid choice"),
            ({}, "Nothing would change"),
        ):
            answer = client.post(address(dora, "edit/"), {**sent, "bio": "A vet.", **wrong})
            assert answer.status_code == 422, wrong
            assert sentence in page_text(answer)
            assert "A vet." in page_text(answer)
        assert not KnowledgeEdit.objects.exists()

    def test_the_second_of_two_learns_what_changed_and_loses_nothing(
        self, anna: ChatUser, dora: Person, client: Client
    ) -> None:
        sent = {**form_of(get(client, address(dora, "edit/"))), "bio": "A vet of cats."}
        knowledge.edit(anna, dora, {"bio": "A vet of dogs.", "username": "dora"}, actor="bob")
        answer = client.post(address(dora, "edit/"), sent)
        page = page_text(answer)
        assert answer.status_code == 409
        assert "bob saved first" in page
        assert "<ins> of dogs</ins>" in page
        dora.refresh_from_db()
        assert dora.bio == "A vet of dogs."
        again = form_of(page)
        assert (again["bio"], again["username"]) == ("A vet of cats.", "dora")
        assert json.loads(again["seen"])["bio"] == "A vet of dogs."
        assert client.post(address(dora, "edit/"), again).status_code == 302
        dora.refresh_from_db()
        assert (dora.bio, dora.username) == ("A vet of cats.", "dora")

    def test_nonsense_for_what_was_seen_is_survived(self, dora: Person, client: Client) -> None:
        sent = form_of(get(client, address(dora, "edit/")))
        for seen in ("", "null", "[1]", "{", '{"owner_id": 5}', '{"bio": {"a": 1}}'):
            answer = client.post(address(dora, "edit/"), {**sent, "seen": seen, "bio": "A vet."})
            assert answer.status_code in {409, 422}, seen

    def test_a_fact_and_an_artifact_are_edited_alike(self, anna: ChatUser, client: Client) -> None:
        fact = fact_of(anna, "Tea", relation="likes", category="food")
        artifact = Artifact.objects.create(
            owner=anna, name="a.pdf", file_type="pdf", sha256="0" * 64, created_at=BEGAN, keywords=["one"]
        )
        client.post(address(fact, "edit/"), {**form_of(get(client, address(fact, "edit/"))), "importance": 80})
        client.post(
            address(artifact, "edit/"), {**form_of(get(client, address(artifact, "edit/"))), "keywords": "one\ntwo"}
        )
        fact.refresh_from_db()
        artifact.refresh_from_db()
        assert (fact.importance, artifact.keywords) == (80, ["one", "two"])
        assert "<ins>two</ins>" in get(client, address(artifact))
        assert "80" in get(client, address(fact))


class TestAddAndDelete:
    def test_a_person_and_a_fact_are_added(self, anna: ChatUser, client: Client) -> None:
        base = f"/memory/{anna.pk}"
        person = {"display_name": "Vera", "circle": "Family", "aliases": "", "username": "", "bio": ""}
        fact = {"relation": "likes", "category": "food", "content": "Tea", "type": "status", "importance": "5"}
        assert "Added Person:" in page_text(client.post(f"{base}/people/add/", person, follow=True))
        assert "Added Fact:" in page_text(client.post(f"{base}/facts/add/", fact, follow=True))
        assert "This fact exists already" in page_text(client.post(f"{base}/facts/add/", fact))
        assert (Person.objects.get().circle, Fact.objects.get().content) == ("Family", "Tea")

    @pytest.mark.slow
    def test_deleting_asks_in_numbers_and_is_undone_under_the_old_number(
        self, anna: ChatUser, dora: Person, client: Client
    ) -> None:
        talk(anna, ("Pets", ["Dora heals cats", "Good for dorotea", "Eldorado"]))
        page = get(client, address(dora, "delete/"))
        assert "2 messages speak of them" in page
        assert Person.objects.exists()
        listed = page_text(client.post(address(dora, "delete/"), {"reason": "gone"}, follow=True))
        assert not Person.objects.exists()
        assert "Deleted Person:" in listed
        assert client.get(address(dora)).status_code == 404
        history = get(client, f"/memory/{anna.pk}/history/")
        assert f'<span class="chip chip-retired">Person:{dora.pk}</span>' in history
        client.post(f"/memory/{anna.pk}/history/changes/{KnowledgeEdit.objects.get().pk}/")
        assert "A vet." in get(client, address(dora))


class TestMerge:
    @pytest.fixture
    def pair(self, anna: ChatUser, dora: Person) -> list[Person]:
        return [dora, Person.objects.create(owner=anna, display_name="D. Ozola", mention_count=5, bio="Likes tea.")]

    def test_who_survives_is_chosen_and_shown_before_it_is_done(
        self, anna: ChatUser, pair: list[Person], client: Client
    ) -> None:
        dora, ozola = pair
        base = f"/memory/{anna.pk}/people/merge/"
        query = f"?people={dora.pk}&people={ozola.pk}"
        page = get(client, base + query)
        assert re.search(rf'value="{ozola.pk}" checked', page)
        part = get(client, f"{base}{query}&survivor={dora.pk}", **HTMX)
        assert "<html" not in part
        assert "Dorotea, D. Ozola" in part
        assert Person.objects.count() == 2
        sent = {"people": [dora.pk, ozola.pk], "survivor": dora.pk, "reason": "same"}
        assert "Merged 1 person into Dora" in page_text(client.post(base, sent, follow=True))
        dora.refresh_from_db()
        assert (dora.aliases, dora.mention_count) == (["Dorotea", "D. Ozola"], 7)
        client.post(f"/memory/{anna.pk}/history/changes/{KnowledgeEdit.objects.get().pk}/")
        assert set(Person.objects.values_list("pk", flat=True)) == {dora.pk, ozola.pk}

    def test_namesakes_are_added_merged_and_taken_apart_on_the_page_of_the_person(
        self, anna: ChatUser, dora: Person, client: Client
    ) -> None:
        sent = {"display_name": "Dora", "circle": "Work_Inner", "aliases": "", "username": "", "bio": "Runs Acme."}
        client.post(f"/memory/{anna.pk}/people/add/", sent)
        other = Person.objects.exclude(pk=dora.pk).get()
        knowledge.merge_people(anna, dora, [other], actor="ada")
        knowledge.edit(anna, dora, {"bio": "A vet.\nRuns Acme.\nSings."}, actor="ada")
        page = get(client, address(dora))
        assert "Merged into this person" in page
        [undo] = re.findall(r'href="([^"]+)">Take apart', page)
        assert "Sings" not in get(client, undo.replace("&amp;", "&"))
        client.post(undo.replace("&amp;", "&"))
        assert list(Person.objects.order_by("pk").values_list("display_name", "bio")) == [
            ("Dora", "A vet.\nSings."),
            ("Dora", "Runs Acme."),
        ]
        assert "Merged into this person" not in get(client, address(dora))

    def test_somebody_who_is_gone_meanwhile_is_not_merged_over(
        self, anna: ChatUser, pair: list[Person], client: Client
    ) -> None:
        gone = Person.objects.create(owner=anna, display_name="Dodo")
        sent = {"people": [person.pk for person in (*pair, gone)], "survivor": pair[0].pk}
        knowledge.delete(anna, gone, actor="bob")
        answer = client.post(f"/memory/{anna.pk}/people/merge/", sent)
        assert answer.status_code == 409
        assert "are gone" in page_text(answer)
        assert Person.objects.count() == 2


def test_a_persons_page_tells_where_they_are_spoken_of(anna: ChatUser, dora: Person, client: Client) -> None:
    pets, other = talk(anna, ("Pets", ["Dora heals cats", "Ask Dorotea!"]), ("Gold", ["Eldorado"]))
    fact_of(anna, "Dora is her vet")
    page = get(client, address(dora))
    assert f"Topic:{pets.pk}" in page
    assert f"Topic:{other.pk}" not in page
    assert "2×" in page
    assert "Dora is her vet" in page


@pytest.mark.slow
def test_names_that_look_like_patterns_are_names(anna: ChatUser, client: Client) -> None:
    talk(anna, ("Odd", ["A+ (b) [c] was here", "plain"]))
    for name in ("A+ (b) [c]", "***", "\\", "a|b", "("):
        odd = Person.objects.create(owner=anna, display_name=name)
        get(client, address(odd))


@pytest.mark.slow
def test_a_persons_page_costs_the_same_with_a_longer_history(anna: ChatUser, dora: Person, client: Client) -> None:
    talk(anna, ("Pets", ["Dora heals cats"]))
    knowledge.edit(anna, dora, {"bio": "0"}, actor="ada")
    before = cost(client, address(dora))
    for number in range(1, 8):
        dora.refresh_from_db()
        knowledge.edit(anna, dora, {"bio": str(number)}, actor="ada")
    talk(anna, ("Pets again", ["Dora heals dogs", "Dorotea is good"]))
    assert cost(client, address(dora)) <= before
