"""The pages of misses: reported from a run or pasted, put right and taken back, with and without scripts."""

import json
import re

import pytest
from django.test import Client

from memoryapp.models import ChatUser, Miss, Role, Topic
from tests.conftest import operator, signed_in
from tests.misses.forgetful import DENTIST, QUESTION, ended, forgetful, missed
from tests.support.browsing import cost

pytestmark = pytest.mark.django_db(transaction=True)
HTMX = {"HX-Request": "true"}


@pytest.fixture
def owner() -> ChatUser:
    return forgetful()


def test_a_pasted_chat_becomes_a_miss_with_its_repair(owner: ChatUser, as_admin: Client) -> None:
    chat = f"User: {QUESTION}\nAssistant: Only the bank and the passport."
    answer = as_admin.post(f"/memory/{owner.pk}/misses/report/", {"pasted": chat, "expected": DENTIST})
    miss = Miss.objects.select_related("run").get()
    assert (answer.status_code, answer.url) == (302, f"/memory/{owner.pk}/misses/{miss.pk}/")
    assert (miss.question, miss.answer) == (QUESTION, "Only the bank and the passport.")
    assert "asked again as at that moment" in as_admin.get(answer.url).content.decode()
    ended(miss.run)
    page = as_admin.get(answer.url).content.decode()
    assert "read, not chosen" in page
    assert "Winter tyres" in page
    offers = as_admin.get(f"{answer.url}remedies/").content.decode()
    assert "Pin it" in offers
    topic = Topic.objects.get(summary__startswith="Winter")
    sent = {"do": "repair", "remedy": "pin", "values": json.dumps({"id": f"Topic:{topic.pk}"}), "keep": "1"}
    assert as_admin.post(answer.url, sent).status_code == 302
    miss = Miss.objects.select_related("again").get()
    assert miss.state == Miss.State.KEPT
    ended(miss.again)
    page = as_admin.get(answer.url).content.decode()
    assert "Asked again: found" in page
    assert "It is asked every night" in page
    assert as_admin.post(answer.url, {"do": "undo"}).status_code == 302
    topic.refresh_from_db()
    assert topic.recall == ""


def test_a_run_is_reported_from_its_page_and_misses_stand_in_the_inbox(owner: ChatUser, as_admin: Client) -> None:
    run = missed(owner).run
    assert run
    assert f"misses/report/?run={run.pk}" in as_admin.get(f"/runs/{run.pk}/").content.decode()
    form = as_admin.get(f"/memory/{owner.pk}/misses/report/?run={run.pk}").content.decode()
    assert QUESTION in form
    as_admin.post(f"/memory/{owner.pk}/misses/report/", {"run": str(run.pk), "expected": "the bank"})
    assert Miss.objects.filter(run=run).count() == 2
    inbox = as_admin.get(f"/memory/{owner.pk}/inbox/").content.decode()
    assert inbox.count(f"/memory/{owner.pk}/misses/") >= 3
    listed = as_admin.get(f"/memory/{owner.pk}/misses/?state=open").content.decode()
    assert "Misses of the last 30 days" in listed
    assert "the bank" in listed


@pytest.mark.parametrize("sent", [{}, {"pasted": "I know nothing.\nReally."}, {"question": "x" * 4_001}, {"run": "no"}])
def test_what_has_no_question_is_said_on_the_form(owner: ChatUser, as_admin: Client, sent: dict[str, str]) -> None:
    answer = as_admin.post(f"/memory/{owner.pk}/misses/report/", sent)
    assert answer.status_code == 422
    assert 'role="alert"' in answer.content.decode()
    assert not Miss.objects.exists()


@pytest.mark.parametrize("sent", [{"values": "["}, {"values": "7"}, {"values": "{}", "remedy": "pin"}, {"remedy": "x"}])
def test_a_repair_that_cannot_be_is_a_sentence(owner: ChatUser, as_admin: Client, sent: dict[str, str]) -> None:
    miss = missed(owner)
    answer = as_admin.post(f"/memory/{owner.pk}/misses/{miss.pk}/", {"do": "repair", **sent})
    assert answer.status_code == 409
    assert re.search(r'role="alert">\w', answer.content.decode())
    assert as_admin.get(f"/memory/{owner.pk}/misses/{miss.pk}/").status_code == 200


def test_who_may_only_look_changes_nothing(owner: ChatUser) -> None:
    miss = missed(owner)
    vera = signed_in(operator("vera", Role.VIEWER, owner))
    page = vera.get(f"/memory/{owner.pk}/misses/{miss.pk}/")
    assert page.status_code == 200
    assert '<button class="button" name="do"' not in page.content.decode()
    assert vera.post(f"/memory/{owner.pk}/misses/{miss.pk}/", {"do": "dismiss"}).status_code == 403
    assert vera.post(f"/memory/{owner.pk}/misses/report/", {"question": "x?"}).status_code == 403
    miss.refresh_from_db()
    assert miss.state == Miss.State.OPEN


def test_more_misses_cost_no_more_statements(owner: ChatUser, as_admin: Client) -> None:
    missed(owner)
    for path in (f"/memory/{owner.pk}/misses/", f"/memory/{owner.pk}/inbox/"):
        as_admin.get(path)
        few = cost(as_admin, path)
        for number in range(5):
            missed(owner, expected=f"{path} {number}")
        assert cost(as_admin, path) == few
