"""What is done for one memory, and a sweep without work, read as many rows beside many memories as beside a few."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import connection
from django.test import Client
from django.utils import timezone

from memoryapp import erasure
from memoryapp.insight.browsing.quality import qualities
from memoryapp.intake.invariants import counted, violations
from memoryapp.models import ChatUser, EmbeddingProfile, Erasure, Evaluation, Passage, Topic, TopicVector
from memoryapp.search import profiles
from memoryapp.search.vectors import embed_pending
from memoryapp.upkeep import tasks
from tests.conftest import fact_of, talk
from tests.search.test_vectors import Hashing

pytestmark = pytest.mark.django_db

FEW, MANY = 2, 40
READ = """
SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) FROM pg_stat_xact_user_tables WHERE relname LIKE 'memoryapp%'
"""
WITHOUT_INDEX = """
SELECT t.relname FROM pg_class t
JOIN pg_attribute a ON a.attrelid = t.oid AND a.attname = 'owner_id' AND a.attnotnull AND t.relkind = 'r'
WHERE NOT EXISTS (
    SELECT FROM pg_index i WHERE i.indrelid = t.oid AND i.indkey[0] = a.attnum AND i.indpred IS NULL
)
"""


def value_of(query: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(query)
        return cursor.fetchone()


def memory(name: str) -> ChatUser:
    owner = ChatUser.objects.create(name=name)
    topics = talk(owner, (f"Tea of {name}", ["Is it green?", "Yes."]), (f"Boats of {name}", ["Which one?", "The red."]))
    fact_of(owner, f"{name} drinks tea", topics[0], relation="likes", created_at=timezone.now())
    async_to_sync(embed_pending)(Hashing(), owner)
    return owner


def rows_read(act: Callable[[], object]) -> int:
    """How many rows of memories are read, where the database takes an index if there is one."""
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE; SET LOCAL enable_seqscan = off")
    [before] = value_of(READ)
    act()
    [after] = value_of(READ)
    return int(after - before)


def erased(owner: ChatUser) -> None:
    receipt = erasure.finish(erasure.begin_user(owner, "ada"))
    assert receipt.ended_at


def swept(_owner: ChatUser) -> None:
    async_to_sync(embed_pending)(Hashing(), seconds=9.0)


@pytest.mark.parametrize(
    "act",
    [
        pytest.param(erased, id="erase_user"),
        pytest.param(lambda owner: [*violations(owner), counted(owner)], id="check_memory"),
        pytest.param(lambda owner: qualities([owner], now=timezone.now()), id="quality"),
        pytest.param(swept, id="embed_pending"),
        pytest.param(lambda owner: tasks.suggest_due(), id="suggest_due"),
    ],
)
def test_no_more_rows_are_read_beside_more_memories(
    act: Callable[[ChatUser], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profiles, "NEWEST", 4)
    looked_at = [memory("anna"), memory("boris")]
    read = []
    for owner, others in zip(looked_at, (FEW, MANY), strict=True):
        for number in range(others):
            memory(f"{owner.name}-{number}")
        Topic.objects.update(consolidation_checked=True)
        swept(owner)
        read.append(rows_read(lambda owner=owner: act(owner)))
    assert read[1] <= read[0] * 1.5 + 20


def test_every_table_of_memories_is_found_by_its_owner() -> None:
    assert value_of(WITHOUT_INDEX) is None


def test_the_words_of_others_are_told_after_the_rows_are_gone(as_admin: Client) -> None:
    anna, boris = ChatUser.objects.create(name="anna"), ChatUser.objects.create(name="boris")
    hers, shared = "The locker is behind the old gymnasium door", "Everybody knows that tea is best with milk"
    talk(anna, ("Lockers", [hers, shared]))
    talk(boris, ("Tea", [shared, "Yes."]))
    report = Evaluation.objects.create(source="q", strategy="vector", report={"misses": [hers, shared]})
    receipt = erasure.finish(erasure.begin_user(anna, "ada"))
    assert receipt.ended_at
    page, file = f"/erasures/{receipt.pk}/", f"/erasures/{receipt.pk}/file/"
    assert "Keep the receipt" not in as_admin.get(page).content.decode()
    assert as_admin.get(file).status_code == 404
    tasks.verify_asked()
    report.refresh_from_db()
    assert report.report == {"misses": ["[erased]", shared]}
    assert "Keep the receipt" in as_admin.get(page).content.decode()
    assert as_admin.get(file).status_code == 200


def test_a_verification_waits_until_the_receipt_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    anna, boris = ChatUser.objects.create(name="anna"), ChatUser.objects.create(name="boris")
    for owner in (anna, boris):
        talk(owner, ("Tea", ["Everybody knows that tea is best with milk", "Yes."]))
    receipt = erasure.finish(erasure.begin_user(anna, "ada"))
    Erasure.objects.update(verify_asked_at=timezone.now(), ended_at=timezone.now() - 2 * erasure.LOOK_AGAIN)
    with monkeypatch.context() as patch:
        patch.setattr(erasure, "compare", lambda receipt: None)
        tasks.erase_due()
        tasks.verify_asked()
    receipt.refresh_from_db()
    assert receipt.verified_at is receipt.looked_again_at is None
    tasks.verify_asked()
    receipt.refresh_from_db()
    assert (receipt.residue, bool(receipt.verified_at)) == ([], True)


def test_an_old_text_that_lost_its_vector_gets_one_when_all_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiles, "NEWEST", 2)
    owner, _newer = memory("anna"), memory("boris")
    swept(owner)
    whole = EmbeddingProfile.objects.exclude(whole_at=None)
    old = Topic.objects.order_by("pk")[0]
    assert whole.exists()
    TopicVector.objects.filter(topic=old).delete()
    swept(owner)
    assert not TopicVector.objects.filter(topic=old).exists()
    whole.update(whole_at=timezone.now() - profiles.WHOLE_EVERY - timedelta(seconds=1))
    swept(owner)
    assert TopicVector.objects.filter(topic=old).exists()


def test_after_many_new_texts_all_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    owner = memory("anna")
    swept(owner)
    monkeypatch.setattr(profiles, "NEWEST", 2)
    talk(owner, *((f"Talk {number}", ["Who?", "Me."]) for number in range(6)))
    swept(owner)
    swept(owner)
    assert not Passage.objects.filter(passagevector=None).exists()
