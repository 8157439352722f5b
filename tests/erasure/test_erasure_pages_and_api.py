"""Pages and the API: who may erase and export, what is shown before an erasure, and what is answered."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest
from django.test import Client

from memoryapp.curation import knowledge
from memoryapp.erasure import scanner
from memoryapp.intake import artifacts
from memoryapp.models import (
    Artifact,
    ChatUser,
    Erasure,
    Fact,
    Finding,
    FindingMessage,
    ImportFile,
    KnowledgeEdit,
    Media,
    Message,
    Person,
    Role,
    Run,
)
from memoryapp.upkeep import tasks
from tests.conftest import operator, signed_in
from tests.erasure.conftest import REMAINING, SECRET, Filled
from tests.extraction.reading import fact
from tests.support.api_client import Program, error_of, token_for
from tests.support.browsing import flat

pytestmark = pytest.mark.django_db(transaction=True)


def noted(content: str) -> dict[str, Any]:
    """Returns the values of a fact that a person writes."""
    return {name: value for name, value in fact(content).items() if name != "only_one"}


def page_of(client: Client, address: str) -> str:
    return flat(client.get(address).content.decode())


def test_a_message_is_erased_from_its_page_after_the_word_is_typed(filled: Filled, as_admin: Client) -> None:
    owner, number = filled.owner.pk, filled.message.pk
    address = f"/memory/{owner}/erase/part/?message={number}"
    assert address in page_of(as_admin, f"/memory/{owner}/messages/?at={number}")
    asked = page_of(as_admin, address)
    assert "cannot be undone" in asked
    assert "<b>1</b><span>message is erased" in asked
    assert "edited by hand" in asked
    refused = as_admin.post(address, {"word": "yes"})
    assert (refused.status_code, Erasure.objects.count()) == (422, 0)
    begun = as_admin.post(address, {"word": "Erase"})
    receipt = Erasure.objects.get()
    assert begun["Location"] == f"/erasures/{receipt.pk}/"
    assert "hx-trigger" in page_of(as_admin, begun["Location"])
    tasks.erase_due()
    assert not Message.objects.filter(pk=number).exists()
    assert "memoryapp_passage" in page_of(as_admin, begun["Location"])
    as_admin.post(f"{begun['Location']}verify/")
    tasks.erase_due()
    assert "no erased words were found" not in page_of(as_admin, begun["Location"]), "an erasure waits for no check"
    tasks.verify_asked()
    checked = page_of(as_admin, begun["Location"])
    assert "no erased words were found" in checked
    assert SECRET not in checked
    assert "nothing left" in page_of(as_admin, "/erasures/")
    kept = json.loads(as_admin.get(f"{begun['Location']}file/").content)
    assert (kept["erasure"], bool(kept["marks"])) == (receipt.pk, True)
    assert as_admin.get(address).status_code == 404


def test_topic_and_person_have_the_same_page(filled: Filled, as_admin: Client) -> None:
    owner = filled.owner.pk
    topic, person = (
        f"/memory/{owner}/erase/part/?topic={filled.topic.pk}",
        f"/memory/{owner}/erase/part/?person={filled.person.pk}",
    )
    assert topic in page_of(as_admin, f"/topics/{filled.topic.pk}/")
    assert person in page_of(as_admin, f"/memory/{owner}/people/{filled.person.pk}/")
    assert "<b>2</b><span>messages are erased" in page_of(as_admin, topic)
    as_admin.post(person, {"word": "erase"})
    as_admin.post(topic, {"word": "erase"})
    tasks.erase_due()
    assert [erasure.kind for erasure in Erasure.objects.order_by("pk")] == ["person", "topic"]
    assert not Person.objects.exists()
    assert (
        "messages of it were erased" in page_of(as_admin, f"/topics/{filled.other.pk}/") or Message.objects.count() == 5
    )


def test_each_page_counts_the_findings_that_wait_and_go(filled: Filled, as_admin: Client) -> None:
    owner, state = filled.owner, Finding.State
    of_message = Finding.objects.create(owner=owner, noun="fact", values={"content": SECRET}, state=state.WAITING)
    FindingMessage.objects.create(owner=owner, finding=of_message, message=filled.message)
    of_person = {"owner": owner, "noun": "person", "target": filled.person.pk}
    Finding.objects.create(**of_person, values={"bio": "swims"}, state=state.WAITING)
    Finding.objects.create(**of_person, values={"bio": "rows"}, state=state.REJECTED)
    for part in (f"message={filled.message.pk}", f"person={filled.person.pk}"):
        address = f"/memory/{owner.pk}/erase/part/?{part}"
        assert "<b>1</b><span>waiting finding is erased" in page_of(as_admin, address), part
    assert "<b>2</b><span>findings that wait in the review" in page_of(as_admin, f"/memory/{owner.pk}/erase/")
    as_admin.post(f"/memory/{owner.pk}/erase/part/?person={filled.person.pk}", {"word": "erase"})
    tasks.erase_due()
    assert list(Finding.objects.all()) == [of_message]


def test_what_quotes_a_message_is_named_before_and_goes_with_it(filled: Filled, as_admin: Client) -> None:
    owner = filled.owner
    knowledge.create(owner, KnowledgeEdit.Noun.FACT, noted(f"I wrote down: {SECRET}"), actor="ada")
    knowledge.create(owner, KnowledgeEdit.Noun.FACT, noted(REMAINING), actor="ada")
    quoting, _is_new = artifacts.put(owner, "note.txt", "text/plain", f"A note. {SECRET}. End.".encode())
    artifacts.put(owner, "boat.txt", "text/plain", REMAINING.encode())
    assert artifacts.process_due(owner) == 2
    ImportFile.objects.create(owner=owner, source="chat.jsonl", size_bytes=9, state=ImportFile.State.READY)
    address = f"/memory/{owner.pk}/erase/part/?message={filled.message.pk}"
    asked = page_of(as_admin, address)
    assert "Facts that quote it go too, artifacts that do with their files" in asked
    assert "<b>1</b><span>uploaded chat file goes" in asked
    as_admin.post(address, {"word": "erase"})
    tasks.erase_due()
    assert [row.content for row in Fact.objects.filter(owner=owner)] == [REMAINING]
    assert [row.name for row in Artifact.objects.filter(owner=owner)] == ["boat.txt"]
    assert not Media.objects.filter(sha256=quoting.sha256).exists()
    receipt = Erasure.objects.get()
    assert list(scanner.residues(scanner.receipt(str(receipt.pk)))) == []
    assert not ImportFile.objects.exists()


def test_pages_are_for_admins(filled: Filled) -> None:
    curator, owner = signed_in(operator("cora", Role.CURATOR, filled.owner)), filled.owner.pk
    part = f"/memory/{owner}/erase/part/?message={filled.message.pk}"
    assert "/erase/part/" not in page_of(curator, f"/memory/{owner}/messages/?at={filled.message.pk}")
    for address in (part, f"/memory/{owner}/export/", "/erasures/", "/erasures/1/file/"):
        assert curator.get(address).status_code == 403
    assert curator.post(part, {"word": "erase"}).status_code == 403
    assert curator.post("/erasures/1/verify/").status_code == 403
    assert not Erasure.objects.exists()


def test_programs_erase_a_message_and_a_person(filled: Filled) -> None:
    everyones = Program(token_for())
    answer = everyones.ask("delete", f"/v1/messages/{filled.message.external_id}?user=anna").json()
    assert (answer["kind"], answer["counts"]["memoryapp_message"]) == ("messages", 1)
    assert error_of(everyones.ask("delete", f"/v1/messages/{filled.message.external_id}?user=anna"))[0] == 404
    person = f"/v1/users/anna/people/Person:{filled.person.pk}"
    assert everyones.ask("delete", person).json()["counts"]["memoryapp_person"] == 1
    assert error_of(everyones.ask("delete", person))[0] == 404
    assert error_of(everyones.ask("delete", "/v1/users/anna/people/Topic:1"))[0] == 404


def test_an_erasure_that_waits_for_a_run_is_asked_for_at_its_address(filled: Filled, boris: ChatUser) -> None:
    run = Run.objects.create(owner=filled.owner, strategy="flash", query="Where?", state=Run.State.RUNNING)
    of_anna, of_boris = (Program(token_for(owner, scopes=("forget",))) for owner in (filled.owner, boris))
    begun = of_anna.ask("delete", f"/v1/messages/{filled.message.external_id}?user=anna")
    assert (begun.status_code, begun["Retry-After"]) == (202, "30")
    assert of_anna.get(begun["Location"]).status_code == 202
    assert error_of(of_boris.get(begun["Location"]))[0] == 404
    Run.objects.filter(pk=run.pk).update(state=Run.State.FINISHED)
    tasks.erase_due()
    ended = of_anna.get(begun["Location"])
    assert (ended.status_code, ended.json()["counts"]["memoryapp_message"]) == (200, 1)


def test_a_chat_user_is_erased_by_a_name_that_reads_like_another_address(filled: Filled) -> None:
    named = ChatUser.objects.create(name=f"anna/people/Person:{filled.person.pk}")
    everyones, address = Program(token_for()), f"/v1/users?user={quote(named.name)}"
    assert everyones.ask("delete", address).json()["kind"] == "user"
    assert error_of(everyones.ask("delete", address))[0] == 404
    assert [user.name for user in ChatUser.objects.all()] == ["anna"]
    assert Person.objects.filter(pk=filled.person.pk).exists()


def test_a_token_for_some_memories_erases_and_exports_nothing(filled: Filled) -> None:
    limited = Program(token_for(filled.owner, scopes=("recall", "ingest", "read", "curate")))
    for method, path in (
        ("delete", f"/v1/messages/{filled.message.external_id}?user=anna"),
        ("delete", f"/v1/users/anna/people/Person:{filled.person.pk}"),
        ("delete", "/v1/users?user=anna"),
        ("get", "/v1/users/anna/export"),
    ):
        assert error_of(limited.ask(method, path))[0] == 403
    assert Message.objects.filter(pk=filled.message.pk).exists()


def test_an_export_comes_as_lines_from_page_and_program(filled: Filled, as_admin: Client) -> None:
    page: Any = as_admin.get(f"/memory/{filled.owner.pk}/export/")
    assert page["Content-Disposition"] == 'attachment; filename="memory.jsonl"'
    answer: Any = Program(token_for()).ask("get", "/v1/users/anna/export")
    texts = [b"".join(each).decode() for each in (page, answer)]
    assert texts[0] == texts[1]
    lines = [json.loads(line) for line in texts[0].splitlines()]
    assert (lines[0]["user"], lines[-1]["lines"]) == ("anna", len(lines) - 1)
