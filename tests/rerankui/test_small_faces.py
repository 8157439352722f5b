"""Small things that a reader of the pages relies on: words where codes were, and buttons that do what they say."""

import re

import pytest
from django.test import Client

from memoryapp.models import ChatUser, Erasure, Run
from tests.conftest import talk
from tests.support.browsing import get

pytestmark = pytest.mark.django_db


@pytest.fixture
def asked(anna: ChatUser) -> Run:
    return Run.objects.create(owner=anna, query="Which cake?", strategy="vector", parameters={"max_topics": 3})


def test_a_question_is_asked_again_with_its_strategy_and_its_parameters(
    asked: Run, as_admin: Client, as_viewer: Client
) -> None:
    page = get(as_admin, f"/runs/{asked.pk}/")
    form = re.search(r'<form id="ask-again" method="post" action="([^"]+)">(.*?)</form>', page, re.S)
    assert form
    sent = dict(re.findall(r'name="([^"]+)" value="([^"]*)"', form[2]))
    assert (sent["query"], sent["strategy"], sent["max_topics"]) == ("Which cake?", "vector", "3")
    as_admin.post(form[1], sent)
    again = Run.objects.exclude(pk=asked.pk).get()
    assert (again.query, again.strategy, again.parameters["max_topics"]) == ("Which cake?", "vector", 3)
    assert 'id="ask-again"' not in get(as_viewer, f"/runs/{asked.pk}/"), "a viewer asks nothing"


def test_the_buttons_of_the_question_keep_their_places(anna: ChatUser, as_admin: Client) -> None:
    talk(anna, ("Honey cake", ["Which cake keeps?", "A honey cake"]))
    for address in ("ask", "recall"):
        page = get(as_admin, f"/memory/{anna.pk}/{address}/")
        assert page.index(f'formaction="/memory/{anna.pk}/ask/"') < page.index(
            f'formaction="/memory/{anna.pk}/recall/"'
        )


def test_a_receipt_says_in_words_what_was_deleted(as_admin: Client) -> None:
    row = Erasure.objects.create(owner_number=1, actor="ada", counts={"memoryapp_message": 3, "gone_table": 1})
    page = get(as_admin, f"/erasures/{row.pk}/")
    shown = re.findall(r'<span class="grow" title="[^"]+">([^<]+)</span>', page)
    assert shown == ["gone_table", "Messages"]
