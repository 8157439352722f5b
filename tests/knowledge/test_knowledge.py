"""People, facts and artifacts changed by hand: stored, refused, undone."""

import hashlib
from datetime import UTC, datetime
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from memoryapp.curation import CurationError, Depends, Stale, knowledge
from memoryapp.models import Artifact, Card, ChatUser, Fact, KnowledgeEdit, Person
from memoryapp.models.knowledge import MOST_FACT_CHARS
from tests.conftest import talk

Noun = KnowledgeEdit.Noun
MAY, JUNE = datetime(2026, 5, 1, 12, tzinfo=UTC), datetime(2026, 6, 1, 12, tzinfo=UTC)


def person(owner: ChatUser, name: str, **more: Any) -> Person:
    return Person.objects.create(owner=owner, display_name=name, **more)


def fact(owner: ChatUser, content: str) -> Fact:
    values = {"relation": "likes", "category": "food", "type": "status", "importance": 50, "created_at": MAY}
    return Fact.objects.create(owner=owner, content=content, **values)


def artifact(owner: ChatUser) -> Artifact:
    return Artifact.objects.create(owner=owner, name="a.pdf", file_type="pdf", sha256="0" * 64, created_at=MAY)


def row_values(model: Any) -> list[dict[str, Any]]:
    """Returns all values of the rows, without the times of their changes."""
    rows = model.objects.order_by("pk").values()
    return [{name: value for name, value in row.items() if name != "updated_at"} for row in rows]


class TestForged:
    """Changes as a file could bring them: an undo writes what the history records, and into this memory alone."""

    def forged(self, owner: ChatUser, before: dict[str, Any], after: dict[str, Any]) -> KnowledgeEdit:
        return KnowledgeEdit.objects.create(
            owner=owner, kind="delete", noun="fact", before=before, after=after, actor="eve"
        )

    def whole(self, **more: Any) -> dict[str, Any]:
        at = MAY.isoformat()
        values = {"relation": "is", "category": "x", "content": "injected", "type": "identity", "importance": 99}
        return {**values, "topic_id": None, "created_at": at, "superseded_at": None, **more}

    @pytest.mark.parametrize("name", ["owner_id", "owner", "id", "pk", "updated_at", "topic", "save", "nonsense"])
    def test_no_field_beyond_those_recorded_is_written(self, name: str, anna: ChatUser, boris: ChatUser) -> None:
        theirs = fact(anna, "figs")
        before = row_values(Fact)
        value = {"owner_id": anna.pk, "owner": anna.pk, "id": theirs.pk, "pk": theirs.pk}.get(name, 1)
        change = self.forged(boris, {"900001": self.whole(**{name: value})}, {"900001": None})
        assert knowledge.dependents(change) == []
        with pytest.raises(CurationError, match="no change can have"):
            knowledge.undo(boris, change, actor="eve")
        assert row_values(Fact) == before

    def test_the_number_of_anothers_row_is_not_taken(self, anna: ChatUser, boris: ChatUser) -> None:
        theirs = fact(anna, "figs")
        before = row_values(Fact)
        change = self.forged(boris, {str(theirs.pk): self.whole()}, {str(theirs.pk): None})
        with pytest.raises(CurationError, match="another memory"):
            knowledge.undo(boris, change, actor="eve")
        assert row_values(Fact) == before

    def test_a_row_refers_to_its_own_memory_alone(self, anna: ChatUser, boris: ChatUser) -> None:
        topic = talk(anna, ("Figs", ["ripe?", "yes"]))[0]
        change = self.forged(boris, {"900001": self.whole(topic_id=topic.pk)}, {"900001": None})
        with pytest.raises(CurationError, match="topic: this memory has none"):
            knowledge.undo(boris, change, actor="eve")
        assert not Fact.objects.filter(owner=boris).exists()

    @pytest.mark.parametrize(("name", "value"), [("importance", "many"), ("created_at", "soon"), ("importance", 10**9)])
    def test_a_value_no_row_can_have_is_a_sentence(self, name: str, value: Any, boris: ChatUser) -> None:
        change = self.forged(boris, {"900001": self.whole(**{name: value})}, {"900001": None})
        with pytest.raises(CurationError):
            knowledge.undo(boris, change, actor="eve")
        right = self.forged(boris, {"900002": self.whole()}, {"900002": None})
        knowledge.undo(boris, right, actor="eve")
        assert Fact.objects.get(owner=boris).pk == 900002


class TestEdit:
    def test_an_edit_keeps_what_it_changed_and_is_undone(self, anna: ChatUser) -> None:
        dora = person(anna, "Dora", bio="A vet.", mention_count=3)
        before = row_values(Person)
        values = {"bio": " A vet in Riga. ", "aliases": ["Dorotea", " ", "Dorotea"], "circle": "Family"}
        change = knowledge.edit(anna, dora, values, seen={"bio": "A vet."}, actor="ada", reason="moved")
        dora.refresh_from_db()
        assert (dora.bio, dora.aliases, dora.circle) == ("A vet in Riga.", ["Dorotea"], "Family")
        assert change.before == {str(dora.pk): {"bio": "A vet.", "aliases": [], "circle": "Other"}}
        assert (change.kind, change.noun, change.actor, change.reason) == ("edit", "person", "ada", "moved")
        back = knowledge.undo(anna, change, actor="bob")
        assert row_values(Person) == before
        with pytest.raises(CurationError, match="undone already"):
            knowledge.undo(anna, change, actor="bob")
        knowledge.undo(anna, back, actor="bob")
        assert Person.objects.get().bio == "A vet in Riga."

    def test_what_the_machine_counts_meanwhile_does_not_stand_in_the_way(self, anna: ChatUser) -> None:
        dora = person(anna, "Dora", bio="A vet.")
        change = knowledge.edit(anna, dora, {"bio": "A cook."}, actor="ada")
        Person.objects.update(mention_count=9)
        knowledge.undo(anna, change, actor="ada")
        assert (Person.objects.get().bio, Person.objects.get().mention_count) == ("A vet.", 9)

    def test_a_page_drawn_before_somebody_elses_edit_is_refused(self, anna: ChatUser) -> None:
        dora = person(anna, "Dora", bio="A vet.")
        knowledge.edit(anna, dora, {"bio": "A cook."}, actor="bob")
        with pytest.raises(Stale, match="about"):
            knowledge.edit(anna, dora, {"bio": "A pilot."}, seen={"bio": "A vet."}, actor="ada")
        assert Person.objects.get().bio == "A cook."

    @pytest.mark.parametrize(
        ("values", "sentence"),
        [
            ({"display_name": "  "}, "name: This field cannot be blank"),
            ({"display_name": "x" * 201}, "at most 200"),
            ({"circle": "Strangers"}, "not a valid choice"),
            ({"aliases": "Dora"}, "list of texts"),
            ({"aliases": ["x" * 301]}, "at most 200 entries of 300"),
            ({"mention_count": 5}, "cannot be edited"),
            ({"bio": ""}, "Nothing would change"),
        ],
    )
    def test_values_a_person_cannot_have_are_refused(
        self, anna: ChatUser, values: dict[str, Any], sentence: str
    ) -> None:
        dora = person(anna, "Dora")
        person(anna, "Boris")
        before = row_values(Person)
        with pytest.raises(CurationError, match=sentence):
            knowledge.edit(anna, dora, values, actor="ada")
        assert row_values(Person) == before
        assert not KnowledgeEdit.objects.exists()

    def test_facts_and_artifacts_are_edited_too(self, anna: ChatUser) -> None:
        tea, report = fact(anna, "tea"), artifact(anna)
        fact(anna, "cake")
        with pytest.raises(CurationError, match="exists already"):
            knowledge.edit(anna, tea, {"content": "cake"}, actor="ada")
        with pytest.raises(CurationError, match="importance"):
            knowledge.edit(anna, tea, {"importance": -1}, actor="ada")
        with pytest.raises(CurationError, match="fact_importance"):
            knowledge.edit(anna, tea, {"importance": 101}, actor="ada")
        knowledge.edit(anna, tea, {"importance": 80}, actor="ada")
        change = knowledge.edit(anna, report, {"summary": "A report.", "keywords": ["tax"]}, actor="ada")
        assert Artifact.objects.get().keywords == ["tax"]
        knowledge.undo(anna, change, actor="ada")
        assert Artifact.objects.get().summary == ""

    def test_another_memorys_rows_are_not_there(self, anna: ChatUser, boris: ChatUser) -> None:
        dora = person(anna, "Dora")
        for attempt in (
            lambda: knowledge.edit(boris, dora, {"bio": "x"}, actor="ada"),
            lambda: knowledge.delete(boris, dora, actor="ada"),
            lambda: knowledge.merge_people(boris, person(boris, "Igor"), [dora], actor="ada"),
            lambda: knowledge.undo(boris, knowledge.edit(anna, dora, {"bio": "y"}, actor="ada"), actor="ada"),
        ):
            with pytest.raises(CurationError):
                attempt()


class TestComingAndGoing:
    def test_what_was_added_goes_with_its_undo(self, anna: ChatUser) -> None:
        change = knowledge.create(anna, Noun.PERSON, {"display_name": "Dora", "bio": "A vet."}, actor="ada")
        whole = row_values(Person)
        back = knowledge.undo(anna, change, actor="ada")
        assert not Person.objects.exists()
        knowledge.undo(anna, back, actor="ada")
        assert row_values(Person) == whole

    def test_a_fact_is_added_and_an_artifact_is_not(self, anna: ChatUser) -> None:
        values = {"relation": "likes", "category": "food", "content": "tea", "type": "status", "importance": 50}
        knowledge.create(anna, Noun.FACT, values, actor="ada")
        assert Fact.objects.get().created_at > MAY
        with pytest.raises(CurationError, match="exists already"):
            knowledge.create(anna, Noun.FACT, values, actor="ada")
        assert Fact.objects.get().created_at > MAY
        with pytest.raises(CurationError, match="comes with its file"):
            knowledge.create(anna, Noun.ARTIFACT, {"name": "x"}, actor="ada")

    def test_a_fact_has_a_bound_that_no_index_undercuts(self, anna: ChatUser, as_admin: Client) -> None:
        """PostgreSQL's B-tree index takes no row above 2,704 bytes (Limits of B-Tree, documentation of PostgreSQL)."""
        words = [hashlib.sha256(str(number).encode()).hexdigest() for number in range(400)]
        longest = " ".join(words)[:MOST_FACT_CHARS].strip()
        values = {"relation": "likes", "category": "food", "content": longest, "type": "status", "importance": 9}
        change = knowledge.create(anna, Noun.FACT, values, actor="ada")
        knowledge.undo(anna, knowledge.undo(anna, change, actor="ada"), actor="ada")
        assert [row.content for row in Fact.objects.filter(owner=anna)] == [longest]
        too_long = f"{longest} " + "x" * MOST_FACT_CHARS
        with pytest.raises(CurationError, match="10000"):
            knowledge.edit(anna, Fact.objects.get(owner=anna), {"content": too_long}, actor="ada")
        answer = as_admin.post(reverse("fact_add", args=[anna.pk]), {**values, "content": too_long})
        assert answer.status_code == 422
        assert 'aria-invalid="true"' in answer.content.decode()
        assert [row.content for row in Fact.objects.filter(owner=anna)] == [longest]

    def test_what_was_deleted_comes_back_under_its_number(self, anna: ChatUser) -> None:
        rows = [person(anna, "Dora", first_seen=MAY, aliases=["D"]), fact(anna, "tea"), artifact(anna)]
        Card.objects.create(owner=anna, person=rows[0], text="Dora", terms="", term_count=1, made_from=MAY)
        before = row_values(Person) + row_values(Fact) + row_values(Artifact)
        changes = [knowledge.delete(anna, row, actor="ada") for row in rows]
        assert not row_values(Person) + row_values(Fact) + row_values(Artifact) + row_values(Card)
        for change in changes:
            knowledge.undo(anna, change, actor="ada")
        assert row_values(Person) + row_values(Fact) + row_values(Artifact) == before

    def test_who_was_deleted_comes_back_beside_a_namesake(self, anna: ChatUser) -> None:
        change = knowledge.delete(anna, person(anna, "Dora"), actor="ada")
        knowledge.create(anna, Noun.PERSON, {"display_name": "Dora", "bio": "Another."}, actor="ada")
        knowledge.undo(anna, change, actor="ada")
        assert list(Person.objects.order_by("pk").values_list("display_name", "bio")) == [
            ("Dora", ""),
            ("Dora", "Another."),
        ]

    def test_later_changes_of_the_same_come_first(self, anna: ChatUser) -> None:
        dora = person(anna, "Dora", bio="A vet.")
        first = knowledge.edit(anna, dora, {"bio": "A cook."}, actor="ada")
        second = knowledge.edit(anna, dora, {"bio": "A pilot."}, actor="bob")
        with pytest.raises(Depends) as refused:
            knowledge.undo(anna, first, actor="ada")
        assert refused.value.edits == (second,)
        knowledge.undo(anna, second, actor="ada")
        knowledge.undo(anna, first, actor="ada")
        assert Person.objects.get().bio == "A vet."

    def test_an_undo_over_an_unrecorded_change_is_refused(self, anna: ChatUser) -> None:
        change = knowledge.edit(anna, person(anna, "Dora"), {"bio": "A cook."}, actor="ada")
        Person.objects.update(bio="A pilot.")
        with pytest.raises(Stale, match="cannot be changed back"):
            knowledge.undo(anna, change, actor="ada")


class TestMergePeople:
    def test_one_person_of_several_keeps_every_name_and_time(self, anna: ChatUser) -> None:
        dora = person(anna, "Dora", aliases=["D"], bio="A vet.", mention_count=2, first_seen=JUNE, last_seen=JUNE)
        work = person(anna, "Dora K.", username="dk", circle="Friends", bio="A vet.", mention_count=3, first_seen=MAY)
        old = person(anna, "Dorotea", aliases=["D", "Dora"], bio="Lived in Riga.", mention_count=1)
        before = row_values(Person)
        change = knowledge.merge_people(anna, dora, [work, old, work], actor="ada", reason="one woman")
        [whole] = Person.objects.all()
        assert (whole.pk, whole.display_name, whole.aliases) == (dora.pk, "Dora", ["D", "Dora K.", "Dorotea"])
        assert (whole.username, whole.circle, whole.bio) == ("dk", "Friends", "A vet.\nLived in Riga.")
        assert (whole.mention_count, whole.first_seen, whole.last_seen) == (6, MAY, JUNE)
        knowledge.undo(anna, change, actor="ada")
        assert row_values(Person) == before

    def test_merged_people_are_taken_apart_whatever_was_changed_since(self, anna: ChatUser) -> None:
        brother = person(anna, "Sasha", circle="Family", bio="A brother.", mention_count=2, last_seen=MAY)
        boss = person(anna, "Sasha", aliases=["Alexander"], username="boss", circle="Work_Inner", bio="Runs Acme.")
        was = row_values(Person)[1]
        merge = knowledge.merge_people(anna, brother, [boss], actor="ada")
        brother.refresh_from_db()
        later = {"aliases": [*brother.aliases, "Sanya"], "bio": f"{brother.bio}\nHas a dog.", "username": "sanya"}
        knowledge.edit(anna, brother, later, actor="bob")
        Person.objects.update(mention_count=9, last_seen=JUNE)
        assert knowledge.dependents(merge) == []
        back = knowledge.undo(anna, merge, actor="ada")
        kept, returned = row_values(Person)
        assert returned == was
        assert (kept["aliases"], kept["bio"], kept["username"]) == (["Sanya"], "A brother.\nHas a dog.", "sanya")
        assert (kept["circle"], kept["mention_count"], kept["last_seen"]) == ("Family", 9, JUNE)
        assert knowledge.merges_into(Person.objects.get(pk=brother.pk)) == []
        knowledge.undo(anna, back, actor="ada")
        knowledge.undo(anna, merge, actor="ada")
        assert row_values(Person) == [kept, returned]

    def test_who_was_merged_on_is_taken_apart_in_turn(self, anna: ChatUser) -> None:
        one, two, three = (person(anna, name, bio=f"Is {name}.") for name in ("Ada", "Bea", "Cleo"))
        before = row_values(Person)
        first = knowledge.merge_people(anna, two, [one], actor="ada")
        second = knowledge.merge_people(anna, three, [two], actor="ada")
        knowledge.edit(anna, three, {"bio": "Is Ada.\nIs Cleo.\nSings."}, actor="ada")
        with pytest.raises(Depends) as refused:
            knowledge.undo(anna, first, actor="ada")
        assert refused.value.edits == (second,)
        knowledge.undo_with_dependents(anna, first, actor="ada")
        [*others, last] = row_values(Person)
        assert (others, last["bio"]) == (before[:2], "Is Cleo.\nSings.")

    def test_nobody_merges_with_themselves(self, anna: ChatUser) -> None:
        dora = person(anna, "Dora")
        for others in ([], [dora]):
            with pytest.raises(CurationError, match="two different people"):
                knowledge.merge_people(anna, dora, others, actor="ada")
