"""A complaint that names no question: what was forgotten, of which memory, and which question it was."""

from dataclasses import replace

import pytest
from django.test import Client

from memoryapp.curation.effect import Effect, Evidence, RunEffect
from memoryapp.insight.misses import misses, remedies
from memoryapp.models import ChatUser, KnowledgeEdit, Miss, Role, Run
from tests.conftest import operator, signed_in
from tests.misses.forgetful import QUESTION, forgetful, missed

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("the assistant forgot the dentist", "the dentist"),
        ("It doesn't remember about my knee.", "my knee"),
        ("Ассистент забыл про стоматолога", "стоматолога"),
        ("бот не помнит о враче!", "враче"),
        ("Did the assistant forget the dentist?", ""),
        ("What did the model know of my knee", ""),
        ("The dentist forgot me", ""),
        ("", ""),
    ],
)
def test_a_complaint_says_what_was_forgotten(text: str, what: str) -> None:
    assert misses.forgotten(text) == what


def test_a_complaint_is_answered_with_the_questions_asked_lately(as_admin: Client) -> None:
    owner = forgetful()
    run = missed(owner).run
    assert run
    Miss.objects.all().delete()
    answer = as_admin.post(f"/memory/{owner.pk}/misses/report/", {"pasted": "the assistant forgot the dentist"})
    page = answer.content.decode()
    assert answer.status_code == 422
    assert not Miss.objects.exists()
    assert f'name="run" value="{run.pk}" autofocus' in page
    assert 'value="the dentist"' in page
    as_admin.post(f"/memory/{owner.pk}/misses/report/", {"run": str(run.pk), "question": "", "expected": "the dentist"})
    miss = Miss.objects.get()
    assert (miss.run, miss.question, miss.expected) == (run, QUESTION, "the dentist")


def test_another_memory_that_says_it_is_named_to_whom_may_see_it(as_admin: Client) -> None:
    forgetful("anna")
    boris = ChatUser.objects.create(name="boris")
    address = f"/memory/{boris.pk}/misses/report/?expected=the+dentist"
    assert "Another memory says it" in as_admin.get(address).content.decode()
    page = signed_in(operator("dora", Role.DEBUGGER, boris)).get(address)
    assert page.status_code == 200
    assert "anna" not in page.content.decode()


def test_what_was_not_lost_leads_to_the_question_that_was_meant(as_admin: Client) -> None:
    owner = forgetful()
    asked = missed(owner).run
    miss = missed(owner, "The dentist on Thursday at nine", "dentist")
    assert asked
    assert misses.explain(miss).stage == "chosen"  # type: ignore[union-attr]
    page = as_admin.get(f"/memory/{owner.pk}/misses/{miss.pk}/remedies/").content.decode()
    assert f'name="run" value="{asked.pk}"' in page


def test_a_question_is_asked_anew_where_the_memory_was_changed_by_hand_since() -> None:
    owner = forgetful()
    first = missed(owner)
    assert misses.report(owner, QUESTION, expected="the bank", by="ada").run == first.run
    KnowledgeEdit.objects.create(owner=owner, kind="edit", noun="fact", actor="ada")
    again = misses.report(owner, QUESTION, expected="the passport", by="ada")
    assert again.run != first.run
    assert again.run
    assert again.run.state == Run.State.PENDING


def test_after_an_undo_the_page_says_that_the_question_is_still_asked(as_admin: Client) -> None:
    owner = forgetful()
    miss = missed(owner)
    misses.explain(miss)
    address = f"/memory/{owner.pk}/misses/{miss.pk}/"
    as_admin.post(address, {"do": "keep"})
    Miss.objects.update(state=Miss.State.OPEN)
    assert "still asked every night, though no repair stands" in as_admin.get(address).content.decode()
    offers = as_admin.get(f"{address}remedies/").content.decode()
    assert "Pin it" in offers
    # Only the remedy that brings another message would change what is asked.
    assert offers.count("and ask it every night") == offers.count('name="remedy" value="message"')


def test_the_palette_leads_to_the_report_with_what_was_typed(as_admin: Client) -> None:
    owner = forgetful()
    for typed, place in (("the assistant forgot the bank", 0), ("bank", 1)):
        found = as_admin.get("/find/", {"q": typed}, headers={"HX-Request": "true"}).content.decode()
        report = f"/memory/{owner.pk}/misses/report/?expected="
        assert report in found
        assert (found.index(report) > found.index("Ask the memory of")) == place


def test_a_remedy_after_which_the_scorer_still_passes_it_over_is_not_offered_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    miss = missed(forgetful())
    why = misses.explain(miss)
    assert why
    assert miss.run
    usual = [offer.remedy for offer in remedies.offers(miss, why, asks_model=False)]
    first = remedies.REMEDIES[usual[0]]
    nothing = Evidence(None)
    row = RunEffect(
        miss.run.pk, QUESTION, miss.at, nothing, nothing, "better", "", is_golden=False, is_passed_over=True
    )
    weak = remedies.Offer(first.name, "", "", effect=Effect(1, 1, 0, 0, (row,)))
    monkeypatch.setitem(remedies.REMEDIES, first.name, replace(first, tries=lambda _case: iter([weak])))
    assert [offer.remedy for offer in remedies.offers(miss, why, asks_model=False)] == [*usual[1:], usual[0]]


def test_the_state_in_the_head_follows_the_run_that_the_page_waits_for(as_admin: Client) -> None:
    owner = forgetful()
    miss = missed(owner)
    answer = as_admin.get(f"/memory/{owner.pk}/misses/{miss.pk}/", headers={"HX-Request": "true"}).content.decode()
    assert 'id="miss-state" hx-swap-oob="true"' in answer
