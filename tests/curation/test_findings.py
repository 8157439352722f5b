"""Findings that wait: hidden everywhere, reviewed on their page, decided one by one or as whole answers, and undone."""

import json
import re
import sys
from html import unescape
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection
from django.test import Client

from memoryapp.curation import CurationError, extraction, history, knowledge
from memoryapp.curation.extraction import FindingDecided
from memoryapp.memory.content import BACKGROUND, HOW_MUCH, background
from memoryapp.models import Card, ChatUser, Fact, Finding, KnowledgeEdit, Person
from memoryapp.search import items
from tests.conftest import operator, signed_in, talk
from tests.curation.reading import Archivist, conversations, fact, finds, home, in_turn, person
from tests.support.browsing import cost, get

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


# The review page: one finding beside its messages, decided without a reload; the panels that show the progress.


HTMX = {"HTTP_HX_REQUEST": "true"}


@pytest.fixture
def curator(anna: ChatUser) -> Client:
    return signed_in(operator("cora", "curator", anna))


def finding_to_review(owner: ChatUser, *findings: dict[str, object]) -> list[Finding]:
    conversations(owner)
    Archivist(finds(*findings)).read(owner)
    return list(extraction.waiting(owner))


def sent(client: Client, finding: Finding, decision: str, **values: str) -> str:
    """Returns the answer to a decision, as htmx receives it."""
    page = client.get(f"/memory/{finding.owner_id}/review/{finding.pk}/")
    form = page.context["form"]
    fields = {field.name: field.value() or "" for field in form.shown}
    fields = {name: "\n".join(value) if isinstance(value, list) else value for name, value in fields.items()}
    body = {**fields, "seen": form["seen"].value(), "decision": decision, **values}
    answer = client.post(f"/memory/{finding.owner_id}/review/{finding.pk}/", body, **HTMX)
    assert answer.status_code in (200, 422)
    return answer.content.decode()


@pytest.mark.slow
def test_a_finding_is_shown_with_its_messages_and_decided_by_a_button(anna: ChatUser, curator: Client) -> None:
    lives, dora = finding_to_review(anna, home("Lives in Riga."), person("Dora Blau"))
    page = curator.get(f"/memory/{anna.pk}/review/").content.decode()
    assert "Lives in Riga." in page
    assert "said 0" in page
    assert f"#message-{extraction.messages_of([lives])[lives.pk][0].pk}" in page
    answer = sent(curator, lives, "confirm", content="Lives in Jelgava.")
    assert "Dora Blau" in answer
    assert "<html" not in answer
    assert Fact.objects.get().content == "Lives in Jelgava."
    assert "There is nothing to decide" in sent(curator, dora, "reject")
    assert not Person.objects.exists()
    curator.post(f"/memory/{anna.pk}/review/{lives.pk}/undo/")
    assert not Fact.objects.exists()
    assert Finding.objects.get(pk=lives.pk).state == "waiting"


@pytest.mark.slow
def test_an_update_shows_the_old_value_crossed_out(anna: ChatUser, curator: Client) -> None:
    [riga] = finding_to_review(anna, home("Lives in Riga."))
    sent(curator, riga, "confirm")
    [bonn] = finding_to_review(anna, home("Lives in Bonn."))
    page = curator.get(f"/memory/{anna.pk}/review/{bonn.pk}/").content.decode()
    assert "<del>Riga</del>" in page
    assert "Keep both" in page
    sent(curator, bonn, "confirm")
    past, now = Fact.objects.order_by("pk")
    listed = curator.get(f"/memory/{anna.pk}/facts/").content.decode()
    assert "Lives in Riga." not in listed
    assert "Lives in Riga." in curator.get(f"/memory/{anna.pk}/facts/?time=past").content.decode()
    assert "Lives in Riga." in curator.get(f"/memory/{anna.pk}/facts/{now.pk}/").content.decode()
    assert "Lives in Bonn." in curator.get(f"/memory/{anna.pk}/facts/{past.pk}/").content.decode()


@pytest.mark.slow
def test_a_finding_is_merged_into_the_row_that_was_chosen(anna: ChatUser, curator: Client) -> None:
    dora = Person.objects.create(owner=anna, display_name="Dora Roth")
    [finding] = finding_to_review(anna, person("Dora Blau"))
    assert "Choose what it is the same as." in sent(curator, finding, "merge")
    sent(curator, finding, "merge", into=str(dora.pk))
    dora.refresh_from_db()
    assert dora.aliases == ["Dora Blau"]


def test_a_namesake_is_shown_beside_the_known_person_and_becomes_a_second_one(anna: ChatUser, curator: Client) -> None:
    Person.objects.create(owner=anna, display_name="Dora", circle="Family", username="dora", bio="A sister.")
    [finding] = finding_to_review(anna, person("Dora", circle="Work_Inner", bio="Runs Acme."))
    page = curator.get(f"/memory/{anna.pk}/review/{finding.pk}/").content.decode()
    assert "same person" in page
    assert "A sister." in page
    assert "@dora" in page
    sent(curator, finding, "confirm")
    assert sorted(Person.objects.values_list("display_name", "circle")) == [("Dora", "Family"), ("Dora", "Work_Inner")]


def test_a_bad_value_is_reported_and_nothing_is_lost(anna: ChatUser, curator: Client) -> None:
    [finding] = finding_to_review(anna, fact("Likes figs."))
    answer = sent(curator, finding, "confirm", content="", relation="enjoys")
    assert "This field is required." in answer
    assert "enjoys" in answer
    assert extraction.waiting(anna).count() == 1


@pytest.mark.slow
def test_a_decision_costs_the_same_however_much_waits(anna: ChatUser, curator: Client) -> None:
    finding_to_review(anna, fact("Likes figs."))
    few = cost(curator, f"/memory/{anna.pk}/review/")
    for n in range(30):
        Finding.objects.create(owner=anna, noun="fact", values={"content": f"Fact {n}.", "relation": "likes"})
    assert cost(curator, f"/memory/{anna.pk}/review/") == few


def test_a_finding_says_why_it_waits_and_marks_what_its_messages_lack(eager: ChatUser, as_admin: Client) -> None:
    talk(eager, ("talk", ["I have a boat. Dora came.", "Good."]))
    found = [fact("Has the yacht Albatross.", "owns", "finance"), person("Dora", bio="A thief.")]
    Archivist(lambda ids: json.dumps({"facts": [{"messages": ids[:1], **each} for each in found]})).read(eager)
    yacht, dora = extraction.waiting(eager)
    why = "Its messages do not say the marked words"
    inbox = as_admin.get(f"/memory/{eager.pk}/inbox/").content.decode()
    for finding, marked in ((yacht, "the <mark>yacht</mark> <mark>Albatross</mark>"), (dora, "<mark>thief</mark>")):
        page = as_admin.get(f"/memory/{eager.pk}/review/{finding.pk}/").content.decode()
        assert why in page
        assert marked in page
        assert marked in inbox
    assert inbox.count(why) == 2


# A whole answer of the archivist rejected and taken back, the review narrowed, and a night of extraction undone.


@pytest.fixture
def answers(anna: ChatUser) -> list[Finding]:
    """Three findings of one answer, about one topic, and then two of another."""
    read(anna)
    return list(extraction.waiting(anna))


def read(owner: ChatUser) -> None:
    conversations(owner, 2)
    first = finds(fact("Likes figs."), fact("Plays chess.", "hobby"), person("Dora Blau"))
    Archivist(in_turn(first, finds(home("Lives in Riga."), person("Egon Roth")))).read(owner)


def decided(client: Client, finding: Finding, query: str = "", **body: str) -> str:
    """Returns the page after a decision by a form without htmx."""
    answer = client.post(f"/memory/{finding.owner_id}/review/{finding.pk}/{query}", body, follow=True)
    assert answer.status_code in (200, 422)
    return answer.content.decode()


def shown(page: str) -> str:
    """The numbers that the question about a whole answer shows."""
    [numbers] = re.findall(r'name="answer" value="([^"]*)"', page)
    return str(numbers)


def left(owner: ChatUser) -> list[str]:
    return [str(each) for each in extraction.waiting(owner)]


class TestWholeAnswer:
    def test_it_is_rejected_after_a_question_with_its_count_and_taken_back_as_one(
        self, anna: ChatUser, curator: Client, answers: list[Finding]
    ) -> None:
        page = decided(curator, answers[1], decision="answer")
        assert "Reject all 3 findings of this answer?" in page
        assert len(left(anna)) == 5
        page = decided(curator, answers[1], decision="reject_answer", answer=shown(page))
        assert left(anna) == ["Lives in Riga.", "Egon Roth"]
        assert "Lives in Riga." in page
        [undo] = re.findall(r'data-toast>.*?action="([^"]*)"', page, re.DOTALL)
        curator.post(undo)
        assert len(left(anna)) == 5
        assert not KnowledgeEdit.objects.exists()

    def test_what_was_decided_before_stays_decided(
        self, anna: ChatUser, curator: Client, answers: list[Finding]
    ) -> None:
        figs, chess, dora, *_others = answers
        extraction.confirm(figs, actor="ada")
        extraction.reject(dora, actor="cora")
        assert extraction.reject_answer(chess, [chess.pk], actor="cora") == 1
        extraction.take_back(chess, actor="cora")
        states = {each.pk: each.state for each in Finding.objects.all()}
        assert [states[each.pk] for each in (figs, chess, dora)] == ["confirmed", "waiting", "rejected"]
        assert Fact.objects.get().content == "Likes figs."

    def test_a_decision_in_between_is_refused_and_asked_about_again(
        self, anna: ChatUser, curator: Client, answers: list[Finding]
    ) -> None:
        page = decided(curator, answers[0], decision="answer")
        extraction.confirm(answers[1], actor="ada")
        assert "Meanwhile somebody decided" in decided(
            curator, answers[0], decision="reject_answer", answer=shown(page)
        )
        assert len(left(anna)) == 4
        for forged in ("", "x,y", "9" * 30, str(answers[3].pk)):
            decided(curator, answers[0], decision="reject_answer", answer=forged)
        assert len(left(anna)) == 4
        page = decided(curator, answers[0], decision="answer")
        decided(curator, answers[0], decision="reject_answer", answer=shown(page))
        assert left(anna) == ["Lives in Riga.", "Egon Roth"]

    def test_a_change_of_mind_keeps_what_was_typed(self, curator: Client, answers: list[Finding]) -> None:
        typed = {"content": "Likes ripe figs.", "relation": "likes"}
        assert "Likes ripe figs." in decided(curator, answers[0], decision="answer", **typed)
        page = decided(curator, answers[0], decision="back", **typed)
        assert "Likes ripe figs." in page
        assert "alertdialog" not in page

    def test_it_is_not_found_again(self, anna: ChatUser, answers: list[Finding]) -> None:
        extraction.reject_answer(answers[0], [each.pk for each in answers[:3]], actor="cora")
        conversations(anna)
        Archivist(finds(fact("Likes figs."), person("Dora Blau"))).read(anna)
        assert left(anna) == ["Lives in Riga.", "Egon Roth"]

    def test_a_fact_of_it_in_the_memory_is_deleted_and_brought_back(
        self, anna: ChatUser, answers: list[Finding]
    ) -> None:
        made = knowledge.create(anna, KnowledgeEdit.Noun.FACT, answers[0].values, actor="ada")
        stored = knowledge.number_made(made)
        Finding.objects.filter(pk=answers[0].pk).update(stored=stored)
        extraction.reject_answer(answers[2], [each.pk for each in answers[:3]], actor="cora")
        assert not Fact.objects.filter(pk=stored).exists()
        extraction.take_back(answers[2], actor="cora")
        assert Fact.objects.get(pk=stored).content == "Likes figs."
        assert len(left(anna)) == 5


class TestNarrowing:
    def test_the_review_is_narrowed_by_noun_and_topic_and_stays_so(
        self, anna: ChatUser, curator: Client, answers: list[Finding]
    ) -> None:
        _figs, chess, dora, riga, egon = answers
        page = get(curator, f"/memory/{anna.pk}/review/?noun=person")
        assert "Dora Blau" in page
        assert "Egon Roth" in page
        assert f"/review/{chess.pk}/" not in page
        page = decided(curator, dora, "?noun=person", decision="reject")
        assert f'action="/memory/{anna.pk}/review/{egon.pk}/?noun=person"' in page
        [undo] = re.findall(r'data-toast>.*?action="([^"]*)"', page, re.DOTALL)
        assert curator.post(undo)["Location"] == f"/memory/{anna.pk}/review/{dora.pk}/?noun=person"
        both = f"?noun=fact&topic={riga.topic_id}"
        page = unescape(get(curator, f"/memory/{anna.pk}/review/{both}"))
        assert f'action="/memory/{anna.pk}/review/{riga.pk}/{both}"' in page
        page = unescape(decided(curator, riga, both, decision="reject"))
        assert "Nothing matches" in page
        assert "4 other findings wait" in page

    @pytest.mark.parametrize("query", ["?noun=planet&topic=x", "?topic=-1", "?topic=" + "9" * 5000, "?topic=%00"])
    def test_a_narrowing_that_cannot_be_read_counts_as_none(
        self, anna: ChatUser, curator: Client, answers: list[Finding], query: str
    ) -> None:
        assert f'action="/memory/{anna.pk}/review/{answers[0].pk}/"' in get(
            curator, f"/memory/{anna.pk}/review/{query}"
        )


@pytest.fixture
def extracted(eager: ChatUser) -> None:
    """The same two answers, used at once."""
    read(eager)


class TestNight:
    def test_a_night_of_extraction_is_undone_from_one_button_and_not_extracted_again(
        self, eager: ChatUser, curator: Client, extracted: None
    ) -> None:
        knowledge.create(eager, KnowledgeEdit.Noun.PERSON, {"display_name": "Boris Gray"}, actor="ada")
        page = get(curator, f"/memory/{eager.pk}/history/")
        [button] = re.findall(r'href="([^"]*by=archivist[^"]*)"', page)
        asked = get(curator, unescape(button))
        form = asked[asked.index("panel-foot-form") :]
        sent = dict(re.findall(r'name="(by|since|until|seen)" value="([^"]*)"', form))
        curator.post(f"/memory/{eager.pk}/history/range/", sent)
        assert (Fact.objects.count(), Person.objects.get().display_name) == (0, "Boris Gray")
        assert history.nights(eager, history.EXTRACTOR) == []
        conversations(eager)
        Archivist(finds(fact("Likes figs."), person("Egon Roth"))).read(eager)
        assert (Fact.objects.count(), Person.objects.count()) == (0, 1)

    def test_what_a_person_changed_since_is_named_and_nothing_is_undone(
        self, eager: ChatUser, curator: Client, extracted: None
    ) -> None:
        egon = Person.objects.get(display_name="Egon Roth")
        knowledge.edit(eager, egon, {"bio": "A neighbour."}, actor="ada")
        with pytest.raises(CommandError, match="undone first"):
            call_command("undo_night", "anna", extraction=True)
        assert (Fact.objects.count(), Person.objects.count()) == (3, 2)

    def test_a_command_undoes_it_and_leaves_merges_alone(self, eager: ChatUser, extracted: None) -> None:
        with pytest.raises(CommandError, match="merged nothing"):
            call_command("undo_night", "anna")
        out = StringIO()
        call_command("undo_night", "anna", extraction=True, stdout=out)
        assert "Undone: 5 extracted changes" in out.getvalue()
        assert (Fact.objects.count(), Person.objects.count()) == (0, 0)
        with pytest.raises(CommandError, match="extracted nothing"):
            call_command("undo_night", "anna", extraction=True)

    def test_what_waits_from_the_same_answers_goes_with_it_and_comes_back_as_one(
        self, eager: ChatUser, curator: Client
    ) -> None:
        conversations(eager, 2)
        used_too = finds(fact("Likes figs."), fact("Allergic to nuts.", "allergy", "health"), person("User"))
        Archivist(in_turn(used_too, finds(fact("Has asthma.", "illness", "health")))).read(eager)
        waiting = left(eager)
        assert waiting == ["Allergic to nuts.", "User", "Has asthma."]
        call_command("undo_night", "anna", extraction=True)
        assert left(eager) == waiting[2:]
        extraction.take_back(Finding.objects.get(values__display_name="User"), actor="command line")
        assert sorted(left(eager)) == sorted(waiting)

    def test_of_more_than_can_be_undone_at_once_the_earlier_ones_follow(
        self, eager: ChatUser, extracted: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sys.modules["memoryapp.curation.history.undoing"], "MOST_EDITS", 3)
        counts = []
        while nights := history.nights(eager, history.EXTRACTOR):
            counts.append((nights[0].count, nights[0].is_whole))
            history.undo_night(eager, nights[0], actor="cora")
        assert counts == [(3, False), (2, True)]
        assert not Fact.objects.exists()
