"""Rules are rehearsed, switched on and off; batches are told of, and kept; contradictions are decided side by side."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from memoryapp.curation import extraction
from memoryapp.erasure import expiry
from memoryapp.models import ChatUser, ExpiryBatch, ExpiryRule, Fact, Finding, Topic
from memoryapp.upkeep import tasks
from tests.conftest import fact_of
from tests.support.api_client import Program, token_for
from tests.support.browsing import cost, flat, get, grow, run_of

YEAR = timedelta(days=365)
RULE = {"noun": "fact", "kind": "", "condition": "age", "days": "100", "grace_days": "14"}


@pytest.fixture
def fact(anna: ChatUser, topics: list[Topic]) -> Fact:
    return fact_of(anna, "Lives in Pskov", topics[0], created_at=timezone.now() - YEAR, type="status", importance=9)


def test_rules_are_for_curators_and_those_of_all_memories_for_admins(
    as_curator: Client, as_viewer: Client, as_admin: Client, anna: ChatUser, fact: Fact
) -> None:
    address = f"/memory/{anna.pk}/expiry/"
    rehearsed = flat(get(as_curator, f"{address}?noun=fact&kind=&condition=age&days=100&grace_days=14"))
    assert ("1 row would be set aside now" in rehearsed, "Lives in Pskov" in rehearsed) == (True, True)
    assert as_viewer.post(address, RULE).status_code == as_curator.post("/expiry/", RULE).status_code == 403
    assert as_curator.post(address, {**RULE, "noun": "run", "condition": "stale"}).status_code == 422
    assert not ExpiryRule.objects.exists()
    as_curator.post(address, RULE)
    tasks.expire_due()
    page = f"{address}{ExpiryBatch.objects.get().pk}/"
    for told in ("/", f"/memory/{anna.pk}/history/", f"/memory/{anna.pk}/facts/", address):
        assert "goes on" in get(as_viewer, told), told
    assert ("Lives in Pskov" in get(as_viewer, page), "Keep" in get(as_viewer, page)) == (True, False)
    as_curator.post(page, {"number": str(fact.pk)})
    fact.refresh_from_db()
    assert (fact.recall, "brought back" in get(as_curator, page)) == ("", True)
    as_curator.post(address, {"switch": str(ExpiryRule.objects.get().pk)})
    as_admin.post("/expiry/", RULE)
    tasks.expire_due()
    ExpiryBatch.objects.update(due_at=timezone.now())
    tasks.expire_due()
    tasks.erase_due()
    batch = ExpiryBatch.objects.get(state="gone")
    assert f"/erasures/{batch.receipt_id}/" in get(as_admin, f"{address}{batch.pk}/")
    assert ("gone" in get(as_admin, "/"), "what expired" in get(as_admin, f"/erasures/{batch.receipt_id}/")) == (
        True,
        True,
    )


def test_programs_rehearse_list_and_keep(transactional_db: None, anna: ChatUser, fact: Fact) -> None:
    program = Program(token_for(anna))
    asked = {"user": anna.name, "noun": "fact", "days": 100}
    assert program.post("/v1/expiry/rehearsal", asked).json()["first"][0]["number"] == str(fact.pk)
    assert program.post("/v1/expiry/rehearsal", {**asked, "noun": "run", "condition": "stale"}).status_code == 422
    rule = ExpiryRule.objects.create(owner=anna, noun="fact", days=100, made_by="ada")
    batch = expiry.set_aside(rule, anna)
    assert batch
    told = program.get(f"/v1/expiry?user={anna.name}").json()
    assert [each["rows"] for each in told["batches"]] == [len(told["rules"])] == [1]
    assert program.post(f"/v1/expiry/batches/{batch.pk}/keep", {}).json()["state"] == "kept"
    assert program.post(f"/v1/expiry/batches/{batch.pk}/keep", {}).status_code == 409


def test_the_facet_tells_stale_facts_and_topics(as_viewer: Client, anna: ChatUser, fact: Fact) -> None:
    assert "for 12 months and longer" in get(as_viewer, f"/memory/{anna.pk}/facts/?stale=12")
    assert fact.content in get(as_viewer, f"/memory/{anna.pk}/facts/?stale=12")
    assert fact.topic
    run_of(anna, fact.topic)
    assert fact.content not in get(as_viewer, f"/memory/{anna.pk}/facts/?stale=12")
    assert expiry.lately(anna, "topic", timezone.now() - YEAR).keys() >= {fact.topic.pk}


@pytest.fixture
def finding(anna: ChatUser, fact: Fact) -> Finding:
    values = {"content": "Lives in Tver", "relation": fact.relation, "category": "home", "type": "status"}
    return Finding.objects.create(
        owner=anna, noun="fact", topic=fact.topic, target=fact.pk, values={**values, "importance": 9}
    )


@pytest.mark.parametrize(
    ("decision", "current"),
    [("reject", ["Lives in Pskov"]), ("confirm", ["Lives in Tver"]), ("both", ["Lives in Pskov", "Lives in Tver"])],
)
def test_contradictions_are_decided_and_taken_back(
    as_curator: Client, as_viewer: Client, anna: ChatUser, finding: Finding, decision: str, current: list[str]
) -> None:
    address = f"/memory/{anna.pk}/contradictions/"
    page = get(as_viewer, address)
    assert ("Lives in Pskov" in page, "Lives in Tver" in page, "Replace it" in page) == (True, True, False)
    sent = {"finding": finding.pk, "decision": decision, "next": address}
    assert as_curator.post(f"/memory/{anna.pk}/inbox/", sent)["Location"] == address
    facts: Any = Fact.objects.current().filter(owner=anna, content__startswith="Lives").order_by("content")
    assert [fact.content for fact in facts] == current
    assert "No facts contradict" in get(as_viewer, address)
    as_curator.post(f"/memory/{anna.pk}/inbox/undo/?finding={finding.pk}&next={address}")
    assert [fact.content for fact in facts.all()] == ["Lives in Pskov"]
    assert extraction.waiting(anna).count() == 1


def test_more_rows_cost_no_more_queries(as_curator: Client, anna: ChatUser, finding: Finding) -> None:
    grow(anna, 3)
    rule = ExpiryRule.objects.create(owner=anna, noun="fact", days=100, made_by="ada")
    batch = expiry.set_aside(rule, anna)
    assert batch
    addresses = [f"/memory/{anna.pk}/{page}/" for page in (f"expiry/{batch.pk}", "expiry", "facts", "contradictions")]
    before = [cost(as_curator, address) for address in addresses]
    grow(anna, 9)
    assert expiry.set_aside(rule, anna)
    Finding.objects.bulk_create(
        Finding(owner=anna, noun="fact", topic=finding.topic, target=finding.target, values=finding.values)
        for _more in range(5)
    )
    assert [cost(as_curator, address) for address in addresses] == before
