"""The review page: one finding beside its messages, decided without a reload; the panels that show the progress."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from memoryapp.curation import extraction
from memoryapp.models import ChatUser, Fact, Finding, Person, UnreadTopic
from tests.conftest import operator, signed_in, talk
from tests.extraction.reading import Archivist, conversations, fact, finds, home, person
from tests.support.browsing import cost

pytestmark = pytest.mark.django_db

HTMX = {"HTTP_HX_REQUEST": "true"}


@pytest.fixture
def curator(anna: ChatUser) -> Client:
    return signed_in(operator("cora", "curator", anna))


def found(owner: ChatUser, *findings: dict[str, object]) -> list[Finding]:
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
    lives, dora = found(anna, home("Lives in Riga."), person("Dora Blau"))
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
    [riga] = found(anna, home("Lives in Riga."))
    sent(curator, riga, "confirm")
    [bonn] = found(anna, home("Lives in Bonn."))
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
    [finding] = found(anna, person("Dora Blau"))
    assert "Choose what it is the same as." in sent(curator, finding, "merge")
    sent(curator, finding, "merge", into=str(dora.pk))
    dora.refresh_from_db()
    assert dora.aliases == ["Dora Blau"]


def test_a_namesake_is_shown_beside_the_known_person_and_becomes_a_second_one(anna: ChatUser, curator: Client) -> None:
    Person.objects.create(owner=anna, display_name="Dora", circle="Family", username="dora", bio="A sister.")
    [finding] = found(anna, person("Dora", circle="Work_Inner", bio="Runs Acme."))
    page = curator.get(f"/memory/{anna.pk}/review/{finding.pk}/").content.decode()
    assert "same person" in page
    assert "A sister." in page
    assert "@dora" in page
    sent(curator, finding, "confirm")
    assert sorted(Person.objects.values_list("display_name", "circle")) == [("Dora", "Family"), ("Dora", "Work_Inner")]


def test_a_bad_value_is_reported_and_nothing_is_lost(anna: ChatUser, curator: Client) -> None:
    [finding] = found(anna, fact("Likes figs."))
    answer = sent(curator, finding, "confirm", content="", relation="enjoys")
    assert "This field is required." in answer
    assert "enjoys" in answer
    assert extraction.waiting(anna).count() == 1


def test_who_only_looks_decides_nothing(anna: ChatUser, as_viewer: Client) -> None:
    [finding] = found(anna, fact("Likes figs."))
    page = as_viewer.get(f"/memory/{anna.pk}/review/")
    assert b"data-confirm" not in page.content
    body = {"decision": "reject"}
    assert as_viewer.post(f"/memory/{anna.pk}/review/{finding.pk}/", body).status_code == 403
    assert as_viewer.post(f"/memory/{anna.pk}/extraction/").status_code == 403


@pytest.mark.slow
def test_a_decision_costs_the_same_however_much_waits(anna: ChatUser, curator: Client) -> None:
    found(anna, fact("Likes figs."))
    few = cost(curator, f"/memory/{anna.pk}/review/")
    for n in range(30):
        Finding.objects.create(owner=anna, noun="fact", values={"content": f"Fact {n}.", "relation": "likes"})
    assert cost(curator, f"/memory/{anna.pk}/review/") == few


@pytest.mark.slow
def test_pages_say_what_is_extracted_and_what_failed(anna: ChatUser, curator: Client, settings: object) -> None:
    [topic] = conversations(anna)
    UnreadTopic.objects.create(owner=anna, topic=topic, state="failed", due_at=topic.ended_at, fault="Unreadable.")
    settings.LLM_BASE_URL = ""  # type: ignore[attr-defined]
    for noun in ("facts", "people", "review", "extraction"):
        assert "No chat model is connected" in curator.get(f"/memory/{anna.pk}/{noun}/").content.decode()
    settings.LLM_BASE_URL = "http://model.example/v1"  # type: ignore[attr-defined]
    page = curator.get(f"/memory/{anna.pk}/facts/").content.decode()
    assert "a person confirms what is extracted" in page
    assert "1 could not be read" in page
    assert "Unreadable." in curator.get(f"/memory/{anna.pk}/extraction/").content.decode()
    curator.post(f"/memory/{anna.pk}/extraction/", {"topic": topic.pk})
    assert UnreadTopic.objects.get().state == "waiting"


@pytest.mark.slow
def test_pages_of_findings_name_the_model_that_reads_and_lead_to_its_settings(
    anna: ChatUser, curator: Client, as_viewer: Client, settings: Any
) -> None:
    def shown(client: Client, noun: str) -> str:
        return str(client.get(f"/memory/{anna.pk}/{noun}/").content.decode())

    found(anna, fact("Likes figs."))
    assert "No chat model is connected: nothing is extracted." in shown(curator, "review")
    settings.LLM_BASE_URL, settings.ARCHIVIST_MODEL = "http://model.example/v1", "acme/archivist"
    for noun in ("review", "facts", "people", "extraction"):
        assert "acme/archivist at model.example reads topics for facts and people." in shown(curator, noun)
    assert f'href="/memory/{anna.pk}/settings/">change it' in shown(curator, "facts")
    assert "change it" not in shown(as_viewer, "facts")


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
