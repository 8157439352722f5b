"""The inbox: suggestions, findings and failures of one memory, counted once everywhere."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from memoryapp.curation.suggestions.inbox import Waiting, waiting_in
from memoryapp.models import Artifact, ChatUser, Finding, ImportFile, Suggestion, Topic, UnreadTopic, Work
from tests.conftest import talk
from tests.support.browsing import cost, get


@pytest.fixture
def topic(anna: ChatUser) -> Topic:
    return talk(anna, ("Honey cake", ["Which cake keeps?", "A honey cake"]))[0]


def something_of_each(owner: ChatUser, topic: Topic, n: int = 1) -> None:
    """Creates ``n`` suggestions, findings and failures of each kind."""
    now = timezone.now()
    for number in range(n):
        key = f"{topic.pk}-{number}-{Suggestion.objects.count()}"
        Suggestion.objects.create(owner=owner, kind="split", key=key, topics=[topic.pk], evidence={})
        Finding.objects.create(owner=owner, noun="fact", topic=topic, values={"content": f"Keeps {number} days"})
        name = f"broken{key}.pdf"
        Artifact.objects.create(
            owner=owner, name=name, file_type="pdf", sha256=key, state="failed", fault="Unreadable.", created_at=now
        )
        ImportFile.objects.create(owner=owner, source="chat.json", size_bytes=1, state="failed", fault="No chat.")


def test_one_number_counts_everything_that_waits(anna: ChatUser, topic: Topic, as_viewer: Client) -> None:
    something_of_each(anna, topic, 2)
    UnreadTopic.objects.create(owner=anna, topic=topic, state="failed", due_at=timezone.now(), fault="Late.")
    Work.objects.create(owner=anna, kind="archive", state="failed", fault="The model is away.")
    assert waiting_in(anna) == Waiting(suggestions=2, findings=2, failures=6)
    page = get(as_viewer, f"/memory/{anna.pk}/inbox/")
    assert set(re.findall(r'inbox-badge"[^>]*>(\d+)<', page)) == {"10"}
    for words in ("Honey cake", "Keeps 1 days", "Unreadable.", "No chat.", "The model is away.", "Late."):
        assert words in page, words
    assert "Try again" not in page, "a viewer repeats nothing"


def test_a_failure_is_tried_again_from_the_inbox(anna: ChatUser, topic: Topic, as_admin: Client) -> None:
    UnreadTopic.objects.create(owner=anna, topic=topic, state="failed", due_at=timezone.now(), fault="Late.")
    page = get(as_admin, f"/memory/{anna.pk}/inbox/failures/")
    assert f'action="/memory/{anna.pk}/extraction/"' in page
    as_admin.post(f"/memory/{anna.pk}/extraction/", {"topic": topic.pk})
    assert "Nothing has failed" in get(as_admin, f"/memory/{anna.pk}/inbox/failures/")


def test_the_inbox_costs_the_same_however_much_waits(anna: ChatUser, topic: Topic, as_admin: Client) -> None:
    something_of_each(anna, topic, 1)
    few = cost(as_admin, f"/memory/{anna.pk}/inbox/")
    something_of_each(anna, topic, 12)
    assert cost(as_admin, f"/memory/{anna.pk}/inbox/") <= few


def test_the_inbox_says_how_long_it_takes_at_ones_pace(anna: ChatUser, topic: Topic, as_admin: Client) -> None:
    something_of_each(anna, topic, 12)
    assert "At your pace" not in get(as_admin, f"/memory/{anna.pk}/inbox/")
    began = timezone.now()
    for number, row in enumerate(Suggestion.objects.order_by("pk")[:3]):
        decided = began + timedelta(seconds=20 * number)
        Suggestion.objects.filter(pk=row.pk).update(state="never", decided_by="ada", decided_at=decided)
    assert "At your pace they take about 7 minutes." in get(as_admin, f"/memory/{anna.pk}/inbox/")


def test_what_waits_in_another_memory_is_not_counted(anna: ChatUser, boris: ChatUser, topic: Topic) -> None:
    something_of_each(anna, topic)
    assert waiting_in(boris) == Waiting()


def test_several_are_rejected_at_once_and_one_undo_brings_all_back(
    anna: ChatUser, topic: Topic, as_admin: Client, as_viewer: Client
) -> None:
    something_of_each(anna, topic, 3)
    address = f"/memory/{anna.pk}/inbox/"
    sent = {
        "decision": "reject",
        "suggestion": [row.pk for row in Suggestion.objects.all()[:2]],
        "finding": [row.pk for row in Finding.objects.all()[:2]],
    }
    assert as_viewer.post(address, sent).status_code == 403
    assert as_admin.post(address, sent)["Location"] == address
    assert waiting_in(anna) == Waiting(suggestions=1, findings=1, failures=6)
    page = get(as_admin, address)
    assert "4 are rejected and not suggested again" in page
    undo = re.search(rf'action="({address}undo/\?[^"]+)"', page)
    assert undo
    as_admin.post(undo[1].replace("&amp;", "&"))
    assert waiting_in(anna) == Waiting(suggestions=3, findings=3, failures=6)
    assert "4 decisions were taken back." in get(as_admin, address)


def test_ticking_nothing_or_what_is_anothers_decides_nothing(
    anna: ChatUser, boris: ChatUser, topic: Topic, as_admin: Client
) -> None:
    something_of_each(anna, topic)
    others = {"decision": "reject", "finding": [Finding.objects.get().pk, "x", "9" * 30]}
    for sent in ({"decision": "reject"}, others):
        as_admin.post(f"/memory/{boris.pk}/inbox/", sent)
        assert "tick what you mean" in get(as_admin, f"/memory/{boris.pk}/inbox/")
    assert waiting_in(anna) == Waiting(1, 1, 2)
