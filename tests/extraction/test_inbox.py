"""Findings that wait: hidden everywhere, decided by a person, and undone."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test import Client

from memoryapp.curation import CurationError, extraction, knowledge
from memoryapp.curation.extraction import FindingDecided
from memoryapp.memory.content import BACKGROUND, HOW_MUCH, background
from memoryapp.models import Card, ChatUser, Fact, Finding, KnowledgeEdit, Person
from memoryapp.search import items
from tests.extraction.reading import Archivist, conversations, fact, finds, home, in_turn, person

pytestmark = pytest.mark.django_db


def found(owner: ChatUser, *findings: dict[str, Any]) -> list[Finding]:
    """Findings of a topic that wait, because a person reviews those of this chat user."""
    conversations(owner)
    Archivist(finds(*findings)).read(owner)
    return list(extraction.waiting(owner))


def profile(owner: ChatUser) -> tuple[str, tuple[str, ...]]:
    """What every prompt contains about the chat user and the people closest to them."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT {BACKGROUND} FROM (SELECT %(owner)s AS owner_id, '' AS messages) AS asked",
            {**HOW_MUCH, "owner": owner.pk},
        )
        (row,) = cursor.fetchone()
    read = background(row, profile=owner.profile, messages=())
    return read.profile, read.inner_circle


def test_what_waits_is_in_no_prompt_no_card_no_list_and_no_page_until_it_is_confirmed(
    anna: ChatUser, as_admin: Client
) -> None:
    anna.profile = "Written by hand."
    anna.save()
    lives, dora = found(anna, home("Lives in Riga."), person("Dora Blau", circle="Family", bio="A vet."))
    assert not Fact.objects.exists()
    assert not Person.objects.exists()
    assert profile(anna) == ("Written by hand.", ())
    items.refresh(anna)
    assert not Card.objects.exists()
    for noun in ("facts", "people"):
        page = as_admin.get(f"/memory/{anna.pk}/{noun}/").content.decode()
        assert "Riga" not in page
        assert "Blau" not in page
    extraction.confirm(lives, actor="ada")
    extraction.confirm(dora, actor="ada")
    assert "Lives in Riga." in profile(anna)[0]
    assert profile(anna)[0].startswith("Written by hand.")
    assert profile(anna)[1] == ("Dora Blau [Family]: A vet.",)
    items.refresh(anna)
    assert "Dora Blau" in Card.objects.get().text


def test_a_fact_of_the_past_is_in_no_prompt(eager: ChatUser) -> None:
    conversations(eager, 2)
    Archivist(in_turn(finds(home("Lives in Riga.")), finds(home("Lives in Bonn.")))).read(eager)
    assert profile(eager)[0] == "- home / lives_in: Lives in Bonn."


class TestDecisions:
    def test_a_confirmed_finding_is_a_change_of_the_persons(self, anna: ChatUser) -> None:
        [finding] = found(anna, home("Lives in Riga."))
        edit = extraction.confirm(finding, actor="ada", values={"content": "Lives in Jelgava."})
        assert edit is not None
        made = Fact.objects.get()
        assert (made.content, made.topic, edit.actor, edit.call) == (
            "Lives in Jelgava.",
            finding.topic,
            "ada",
            finding.call,
        )
        assert len(extraction.sources(anna, "fact", made.pk)) == 1
        with pytest.raises(FindingDecided, match="by ada"):
            extraction.reject(finding, actor="bob")

    def test_every_decision_is_taken_back(self, anna: ChatUser) -> None:
        dora = Person.objects.create(owner=anna, display_name="Dora Blau", circle="Friends")
        fig, egon, other = found(anna, fact("Likes figs."), person("Egon"), person("Theodora", bio="A vet."))
        extraction.confirm(fig, actor="ada")
        extraction.reject(egon, actor="ada")
        extraction.merge(other, dora.pk, actor="ada")
        dora.refresh_from_db()
        assert (dora.aliases, dora.bio, dora.mention_count) == (["Theodora"], "A vet.", 1)
        assert extraction.last_decided(anna, "ada") == other
        for finding in (other, egon, fig):
            extraction.take_back(finding, actor="ada")
        dora.refresh_from_db()
        assert (dora.aliases, dora.bio, Fact.objects.count()) == ([], "", 0)
        assert extraction.waiting(anna).count() == 3
        assert extraction.confirm(fig, actor="ada")

    def test_an_update_replaces_the_fact_or_stands_beside_it(self, anna: ChatUser) -> None:
        [riga] = found(anna, home("Lives in Riga."))
        extraction.confirm(riga, actor="ada")
        [bonn] = found(anna, home("Lives in Bonn."))
        assert extraction.target_of(bonn) == Fact.objects.get()
        extraction.confirm(bonn, actor="ada")
        assert [f.content for f in Fact.objects.current()] == ["Lives in Bonn."]
        extraction.take_back(bonn, actor="ada")
        extraction.confirm(bonn, actor="ada", keep_both=True)
        assert Fact.objects.current().count() == 2

    @pytest.mark.slow
    def test_what_follows_a_finding_takes_the_place_of_what_became_of_it(self, anna: ChatUser) -> None:
        conversations(anna, 2)
        Archivist(in_turn(finds(home("Lives in Riga.")), finds(home("Lives in Bonn.")))).read(anna)
        riga, bonn = extraction.waiting(anna)
        extraction.confirm(riga, actor="ada")
        extraction.confirm(bonn, actor="ada")
        assert [f.content for f in Fact.objects.current()] == ["Lives in Bonn."]

    def test_the_same_finding_waits_once_and_grows(self, anna: ChatUser) -> None:
        found(anna, fact("Likes figs."), person("Dora", bio="A vet."))
        fig, dora = found(anna, fact("likes figs"), person("Dora", "Dodo", bio="Has a cat."))
        assert dora.values["aliases"] == ["Dodo"]
        assert dora.values["bio"] == "A vet.\nHas a cat."
        assert [len(extraction.messages_of([each])[each.pk]) for each in (fig, dora)] == [2, 2]

    @pytest.mark.slow
    def test_what_was_rejected_is_not_found_again(self, anna: ChatUser) -> None:
        for finding in found(anna, fact("Likes figs."), person("Dora", "Dodo")):
            extraction.reject(finding, actor="ada")
        assert found(anna, fact("Likes figs."), person("Dodo")) == []

    @pytest.mark.slow
    def test_additions_to_a_person_are_proposed_once_and_counted_at_once(self, anna: ChatUser) -> None:
        dora = Person.objects.create(owner=anna, display_name="Dora", bio="A vet.")
        [finding] = found(anna, person("Dora", "Dodo", bio="Has a cat."))
        dora.refresh_from_db()
        assert (dora.bio, dora.aliases, finding.target) == ("A vet.", [], dora.pk)
        knowledge.edit(anna, dora, {"bio": "A cook."}, actor="bob")
        extraction.confirm(finding, actor="ada")
        dora.refresh_from_db()
        assert (dora.bio, dora.aliases) == ("A cook.\nHas a cat.", ["Dodo"])
        assert KnowledgeEdit.objects.filter(noun="person").count() == 2
        [again] = found(anna, person("Dora", "Dorchen", bio="A vet."))
        extraction.reject(again, actor="ada")
        assert found(anna, person("Dora", "Dorchen")) == []

    def test_people_merged_keep_the_messages_of_both(self, eager: ChatUser) -> None:
        conversations(eager, 2)
        Archivist(in_turn(finds(person("Dora")), finds(person("Theodora")))).read(eager)
        dora, other = Person.objects.order_by("pk")
        knowledge.merge_people(eager, dora, [other], actor="ada")
        assert len(extraction.sources(eager, "person", dora.pk)) == 2


class TestSimilarFacts:
    """Both facts are in the memory, and a person says whether the new one replaces the other."""

    @pytest.fixture
    def asked(self, eager: ChatUser) -> Finding:
        conversations(eager, 2)
        teas = [finds(fact(f"Любит {kind} чай")) for kind in ("зелёный", "чёрный")]
        Archivist(in_turn(*teas)).read(eager)
        return extraction.waiting(eager).get()

    def current(self) -> list[str]:
        return list(Fact.objects.current().order_by("pk").values_list("content", flat=True))

    @pytest.mark.parametrize(
        ("decide", "left"),
        [
            (lambda asked: extraction.confirm(asked, actor="ada"), ["Любит чёрный чай"]),
            (
                lambda asked: extraction.confirm(asked, actor="ada", keep_both=True),
                ["Любит зелёный чай", "Любит чёрный чай"],
            ),
            (lambda asked: extraction.reject(asked, actor="ada"), ["Любит зелёный чай"]),
            (lambda asked: extraction.merge(asked, asked.target, actor="ada"), ["Любит зелёный чай"]),
        ],
    )
    def test_the_decision_is_carried_out_and_taken_back(self, asked: Finding, decide: Any, left: list[str]) -> None:
        decide(asked)
        assert self.current() == left
        extraction.take_back(asked, actor="ada")
        assert self.current() == ["Любит зелёный чай", "Любит чёрный чай"]
        assert extraction.waiting(asked.owner).get().stored == Fact.objects.get(content="Любит чёрный чай").pk
        decide(asked)
        assert self.current() == left

    def test_the_fact_that_replaced_the_other_names_it_and_keeps_what_was_typed(self, asked: Finding) -> None:
        extraction.confirm(asked, actor="ada", values={"importance": 77})
        new = Fact.objects.current().get()
        assert (new.content, new.importance) == ("Любит чёрный чай", 77)
        assert [str(past) for past in extraction.succession(new)["replaces"]] == ["Любит зелёный чай"]

    def test_a_fact_that_was_deleted_meanwhile_cannot_replace_another(self, asked: Finding) -> None:
        knowledge.delete(asked.owner, Fact.objects.get(pk=asked.stored), actor="ada")
        with pytest.raises(CurationError, match="deleted or replaced"):
            extraction.confirm(asked, actor="ada")
        extraction.reject(asked, actor="ada")
        assert self.current() == ["Любит зелёный чай"]
