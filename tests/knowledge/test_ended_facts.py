"""A fact that is no longer true never comes without its end: in what is handed over, on pages, in files, by API."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from memoryapp.curation import knowledge
from memoryapp.memory import content, past
from memoryapp.models import ChatUser, Fact, Person, Topic
from tests.conftest import talk
from tests.support.api_client import Program, token_for
from tests.support.executing import background_of

FORMER, TODAY = "Rents a flat at Thistle Lane", "Rents a flat at Birch Square"
ENDED = datetime(2026, 3, 1, 12, tzinfo=UTC)
# How pages say it, in a list, on the page of the fact, and in a change.
ENDS = ("until", "True until", "replaced", "2026-03-01")


def ended(owner: ChatUser, topic: Topic) -> tuple[Fact, Fact]:
    """Two facts of this topic that weigh enough for every query; the second took the place of the first."""
    values = {"relation": "rents", "category": "home", "type": "identity", "importance": 95}
    noted = datetime(2025, 1, 1, tzinfo=UTC)
    fixed: dict[str, Any] = {"topic": topic}
    knowledge.create(owner, "fact", {**values, "content": FORMER}, actor="cora", created_at=noted, **fixed)
    old = Fact.objects.get(content=FORMER)
    knowledge.replace(owner, old, {**values, "content": TODAY}, actor="cora", created_at=ENDED, **fixed)
    return Fact.objects.get(content=FORMER), Fact.objects.get(content=TODAY)


@pytest.fixture
def facts(anna: ChatUser) -> tuple[Fact, Fact]:
    Person.objects.create(
        owner=anna, display_name="Thistle", circle="family", first_seen=timezone.now(), last_seen=timezone.now()
    )
    return ended(anna, talk(anna, ("The flat", ["I moved", "Where to?"]))[0])


def test_every_page_and_file_tells_its_end(anna: ChatUser, facts: tuple[Fact, Fact], as_admin: Client) -> None:
    old, new = facts
    listed, memory = reverse("facts", args=[anna.pk]), reverse("memory", args=[anna.pk])
    mine = [reverse("fact", args=[anna.pk, each.pk]) for each in facts]
    files = [f"{listed}?time={time}&as={kind}" for time in ("", "past", "all") for kind in ("csv", "jsonl")]
    pages = [f"{listed}?time=all", f"{listed}?time=past", reverse("history", args=[anna.pk])]
    people = [reverse("person", args=[anna.pk, row.pk]) for row in Person.objects.filter(owner=anna)]
    others = [reverse("topic", args=[old.topic_id]), reverse("find"), f"{reverse('find')}?q=Thistle"]
    told = 0
    for address in (memory, *mine, *files, *pages, *people, *others, f"{memory}?at=2026-06-01"):
        answer = as_admin.get(address)
        text = b"".join(answer).decode() if answer.streaming else answer.content.decode()
        assert answer.status_code == 200, address
        assert FORMER not in text or any(end in text for end in ENDS), address
        told += FORMER in text
    assert told >= 4
    assert FORMER not in as_admin.get(memory).content.decode()
    assert TODAY in as_admin.get(memory).content.decode()
    assert new.superseded_at is None


@pytest.mark.django_db(transaction=True)
def test_programs_get_its_end_with_it(anna: ChatUser, facts: tuple[Fact, Fact]) -> None:
    listed = Program(token_for(anna)).get(f"/v1/users/{anna.name}/facts")
    assert listed.status_code == 200
    ends = {row["content"]: (row["state"], row["superseded_at"]) for row in json.loads(listed.content)["facts"]}
    assert ends[TODAY] == ("current", None)
    assert FORMER not in ends or (ends[FORMER][0] == "past" and ends[FORMER][1].startswith("2026-03-01"))
    answer: Any = Program(token_for()).get(f"/v1/users/{anna.name}/export")
    assert answer.status_code == 200
    rows = [json.loads(line) for line in b"".join(answer).decode().splitlines()]
    [told] = [row for row in rows if row.get("content") == FORMER or row.get("values", {}).get("content") == FORMER]
    assert "2026-03-01" in json.dumps(told)


@pytest.mark.parametrize("recall", ["", "pinned"])
def test_it_is_in_no_profile_of_planners_and_agents(anna: ChatUser, facts: tuple[Fact, Fact], recall: str) -> None:
    Fact.objects.filter(owner=anna).update(recall=recall)
    assert TODAY in content.profile(anna)
    assert FORMER not in content.profile(anna)
    then = content.background(
        past.background_at(anna.pk, datetime(2026, 6, 1, tzinfo=UTC)) | {"last": (), "decided": ()}
    )
    assert FORMER not in then.profile


@pytest.mark.django_db(transaction=True)
async def test_no_run_begins_with_it() -> None:
    """What ``/v1/recall``, the chat door and the tools of agents hand over begins with this."""

    def memory() -> ChatUser:
        owner = ChatUser.objects.create(name="anna")
        ended(owner, talk(owner, ("The flat", ["I moved", "Where to?"]))[0])
        Fact.objects.filter(content=FORMER).update(recall="pinned")
        return owner

    owner = await sync_to_async(memory)()
    found = await background_of(owner.pk)
    assert TODAY in found.profile
    assert FORMER not in found.profile
    assert not found.decided
