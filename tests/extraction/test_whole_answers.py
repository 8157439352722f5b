"""A whole answer of the archivist rejected and taken back, the review narrowed, and a night of extraction undone."""

from __future__ import annotations

import re
import sys
from html import unescape
from io import StringIO

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import Client

from memoryapp.curation import extraction, history, knowledge
from memoryapp.models import ChatUser, Fact, Finding, KnowledgeEdit, Person
from tests.conftest import operator, signed_in
from tests.extraction.reading import Archivist, conversations, fact, finds, home, in_turn, person
from tests.support.browsing import get

pytestmark = pytest.mark.django_db


@pytest.fixture
def curator(anna: ChatUser) -> Client:
    return signed_in(operator("cora", "curator", anna))


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

    def test_who_only_looks_rejects_none(self, anna: ChatUser, as_viewer: Client, answers: list[Finding]) -> None:
        assert "data-whole-answer" not in get(as_viewer, f"/memory/{anna.pk}/review/")
        body = {"decision": "reject_answer", "answer": ",".join(str(each.pk) for each in answers[:3])}
        assert as_viewer.post(f"/memory/{anna.pk}/review/{answers[0].pk}/", body).status_code == 403
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
