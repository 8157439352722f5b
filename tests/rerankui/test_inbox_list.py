"""The findings of the inbox are a list like all others: searched, narrowed, paged, handed out as a file."""

import json

import pytest
from django.test import Client

from memoryapp.models import ChatUser, Finding
from tests.conftest import talk
from tests.support.browsing import HTMX, get

pytestmark = pytest.mark.django_db


@pytest.fixture
def address(anna: ChatUser) -> str:
    """Two facts of one topic and a person wait."""
    topic = talk(anna, ("Honey cake", ["Which cake keeps?", "A honey cake"]))[0]
    for content, relation in (("Bakes honey cakes", "likes"), ("Lives in Riga", "lives_in")):
        values = {"content": content, "relation": relation}
        Finding.objects.create(owner=anna, noun="fact", topic=topic, values=values)
    Finding.objects.create(owner=anna, noun="person", values={"display_name": "Dora", "aliases": ["Дора"]})
    return f"/memory/{anna.pk}/inbox/"


def test_findings_are_searched_and_narrowed(address: str, as_admin: Client) -> None:
    page = get(as_admin, address)
    assert "<h1>Inbox</h1>" in page
    assert 'href="?kind=person"' in page
    assert 'href="?relation=lives_in"' in page
    for query, found in (("q=RIGA", ["Riga"]), ("q=дора", ["Dora"]), ("kind=fact", ["Riga", "honey"])):
        part = get(as_admin, f"{address}?{query}", **HTMX)
        assert [word for word in ("Riga", "honey", "Dora") if word in part] == found, query
        assert "<h1>" not in part
    assert "No finding matches" in get(as_admin, f"{address}?q=coffee")


def test_findings_are_paged_and_handed_out_as_a_file(address: str, anna: ChatUser, as_admin: Client) -> None:
    Finding.objects.bulk_create(
        Finding(owner=anna, noun="fact", values={"content": f"Fact {number}"}) for number in range(60)
    )
    page = get(as_admin, address)
    assert ("Fact 10" in page, "Fact 59" in page, 'rel="next"' in page) == (True, False, True)
    listed = json.loads(as_admin.get(f"{address}?format=json&q=riga").content)
    assert [row["values"]["content"] for row in listed] == ["Lives in Riga"]


def test_a_decision_keeps_what_the_list_is_narrowed_to(address: str, as_admin: Client) -> None:
    riga = Finding.objects.get(values__content="Lives in Riga")
    sent = {"decision": "reject", "finding": [riga.pk]}
    assert as_admin.post(f"{address}?kind=fact", sent)["Location"] == f"{address}?kind=fact"
    assert "Lives in Riga" not in as_admin.get(f"{address}?kind=fact&format=json").content.decode()
