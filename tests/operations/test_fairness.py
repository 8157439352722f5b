"""Nobody waits for another: a fault of one row or one memory, or its backlog, is its own."""

from __future__ import annotations

import threading
from collections import Counter
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from asgiref.sync import async_to_sync
from django.db import connection, connections
from django.utils import timezone

from memoryapp import extraction, suggestions, tasks, work
from memoryapp.bulk import carrying_out
from memoryapp.engine.embeddings import Profile
from memoryapp.ingestion import archiving
from memoryapp.ingestion.messages import add_messages
from memoryapp.llm import clients
from memoryapp.models import (
    ApiToken,
    BulkTopic,
    BulkWork,
    ChatUser,
    ImportBatch,
    Message,
    PassageVector,
    Run,
    Topic,
    Work,
)
from memoryapp.operations.backlog import ages
from memoryapp.operations.pauses import StagePaused
from memoryapp.runs import lifecycle, stops
from memoryapp.runs.lifecycle import TooManyRuns, room_for
from memoryapp.search import profiles
from memoryapp.sessions import passages
from memoryapp.sessions.cutting import SessionLimits
from memoryapp.suggestions import consolidation
from tests.conftest import talk
from tests.ingestion.test_archiving import HOUR, in_pairs, message_record
from tests.operations.test_work import unlock
from tests.search.test_vectors import Hashing

pytestmark = pytest.mark.django_db

# The sweeps that serve one chat user after another: the module and the function that each calls for one of them, the
# module and the function that list them, and the kind of work in whose row a fault is kept.
OF_OWNERS: dict[str, tuple[Any, str, Any, str, str]] = {
    "archive_due": (archiving, "archive", archiving, "with_active_sessions", "archive"),
    "archive_asked": (archiving, "archive", work, "asked_to_archive", "archive"),
    "extract_due": (extraction, "extract", extraction, "with_due", "extract"),
    "suggest_due": (suggestions, "suggest", suggestions, "with_unchecked", "consolidate"),
    "consolidate_due": (consolidation, "consolidate", consolidation, "due", "consolidate"),
}


class Poisoned:
    """Stands for the work for one chat user: raises for Anna, and counts who was served."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()

    def __call__(self, owner: ChatUser, *rest: Any, **more: Any) -> int:
        self.asked[str(owner.name)] += 1
        if owner.name == "anna":
            raise ValueError("The row is poisoned.")
        return 0


@pytest.mark.parametrize("name", OF_OWNERS)
def test_a_fault_of_one_memory_is_its_own_rests_and_is_given_up(
    anna: ChatUser, boris: ChatUser, monkeypatch: pytest.MonkeyPatch, settings: Any, name: str
) -> None:
    settings.LLM_BASE_URL = "http://model.invalid/v1"
    module, act, listing, listed, kind = OF_OWNERS[name]
    poisoned, sweep = Poisoned(), getattr(tasks, name)
    monkeypatch.setattr(clients, "embedder_of", lambda profile: Hashing())
    monkeypatch.setattr(module, act, poisoned)
    monkeypatch.setattr(listing, listed, lambda: ChatUser.objects.filter(pk__in=[anna.pk, boris.pk]).order_by("pk"))
    sweep()
    sweep()
    assert poisoned.asked == {"anna": 1, "boris": 2}
    row = Work.objects.get(owner=anna, kind=kind)
    assert (row.state, row.fault, row.tries) == (Work.State.FAILED, "The row is poisoned.", 1)
    for _sweep in range(5):
        Work.objects.update(at=timezone.now() - timedelta(days=2))
        sweep()
    assert poisoned.asked == {"anna": work.MOST_TRIES, "boris": 7}
    assert [shown.work.owner for shown in work.unfinished(ChatUser.objects.filter(pk=anna.pk))] == [anna]
    work.try_again(anna, kind)
    sweep()
    assert poisoned.asked["anna"] == work.MOST_TRIES + 1


@pytest.mark.parametrize("kind", BulkWork.Kind)
def test_a_fault_of_one_topic_ends_as_its_state_and_the_others_are_done(
    anna: ChatUser, monkeypatch: pytest.MonkeyPatch, kind: BulkWork.Kind
) -> None:
    topics = talk(anna, ("Tea", ["green?", "yes"]), ("Cake", ["which?", "plum"]))
    asked: Counter[int] = Counter()

    def act(of: BulkWork, row: BulkTopic, topic: Topic) -> None:
        asked[topic.pk] += 1
        if topic == topics[0]:
            raise ValueError("The row is poisoned.")
        BulkTopic.objects.filter(pk=row.pk).update(state=BulkTopic.State.DONE)

    begun = BulkWork.objects.create(owner=anna, kind=kind, asked_by="cora")
    for topic in topics:
        BulkTopic.objects.create(owner=anna, work=begun, topic=topic)
    monkeypatch.setitem(carrying_out._ACTS, kind, act)
    for _sweep in range(3):
        tasks.carry_on_bulk()
    assert asked[topics[0].pk] == 1
    for _sweep in range(6):
        BulkWork.objects.update(rests_until=None)
        tasks.carry_on_bulk()
    assert asked == {topics[0].pk: carrying_out.MOST_TRIES, topics[1].pk: 1}
    failed = BulkTopic.objects.get(topic=topics[0])
    assert (failed.state, failed.fault) == (BulkTopic.State.FAILED, "The row is poisoned.")
    assert BulkWork.objects.get().state == BulkWork.State.DONE


def of_profile(profile: Profile) -> Hashing:
    """An embedder of the profile that serves."""
    embedder = Hashing()
    embedder.profile = profile
    return embedder


def backlog(owner: ChatUser, count: int = 40) -> None:
    """Messages of a file, which wait for their passages."""
    batch = ImportBatch.objects.create(owner=owner, source="a.jsonl", format="chat")
    records = [message_record(n, f"old words {n} of {owner.name}", minutes=n * 3_000) for n in range(count)]
    add_messages(owner, records, batch=batch)


def test_what_was_said_last_is_found_and_archived_before_the_backlogs_of_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(clients, "embedder_of", of_profile)
    profiles.serving()
    for number in range(25):
        backlog(ChatUser.objects.create(name=f"many{number}"), 8)
    fresh = ChatUser.objects.create(name="fresh")
    backlog(fresh, 1)
    tasks.index_talk()
    assert PassageVector.objects.filter(owner=fresh).exists()
    assert len(passages.with_bare()) >= 6
    tasks.archive_due()
    assert Topic.objects.filter(owner=fresh).exists()
    for _sweep in range(40):
        tasks.index_talk()
    assert not passages.with_bare().exists()


@pytest.mark.django_db(transaction=True)
def test_a_memory_that_another_process_writes_is_left_out_and_the_others_are_served(
    anna: ChatUser, boris: ChatUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "embedder_of", of_profile)
    profiles.serving()
    backlog(anna, 1)
    backlog(boris, 1)
    other = connections.create_connection("default")
    try:
        with other.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_lock(hashtextextended('messages', %s))", [boris.pk])
        tasks.index_talk()
        assert list(passages.with_bare()) == [boris]
    finally:
        unlock(other)
    tasks.index_talk()
    assert not passages.with_bare().exists()


def test_a_turn_of_archiving_ends_and_what_was_asked_for_stays_asked_for(anna: ChatUser) -> None:
    add_messages(anna, [message_record(n, minutes=n * 3_000) for n in range(4)])
    work.ask_to_archive(anna, "cora")
    limits = SessionLimits(HOUR, 400, 25_000)
    with pytest.raises(StagePaused):
        archiving.archive(anna, in_pairs, limits, until=lambda: True)
    assert Topic.objects.get().summary == "about message 0"
    assert list(work.asked_to_archive()) == [anna]
    archiving.archive(anna, in_pairs, limits)
    assert not Message.objects.active().exists()
    assert not work.asked_to_archive().exists()


def test_the_ages_say_what_waits_and_nothing_when_all_is_done(anna: ChatUser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "embedder_of", of_profile)
    profiles.serving()
    assert ages() == {"passage": 0.0, "vector": 0.0, "topic": 0.0}
    backlog(anna, 4)
    ImportBatch.objects.update(started_at=timezone.now() - timedelta(hours=2))
    assert ages() == {"passage": pytest.approx(7200, abs=60), "vector": 0.0, "topic": pytest.approx(7200, abs=60)}
    passages.renew(anna)
    assert ages()["vector"] == pytest.approx(7200, abs=60)
    tasks.index_talk()
    tasks.archive_due()
    tasks.embed_pending()
    assert ages() == {"passage": 0.0, "vector": 0.0, "topic": 0.0}


@pytest.mark.django_db(transaction=True)
def test_requests_at_once_take_no_more_runs_than_a_token_may_have(anna: ChatUser, settings: Any) -> None:
    settings.API_MAX_RUNS = 2
    token = ApiToken.objects.create(name="t", digest="d")
    refused: list[TooManyRuns] = []
    together = threading.Barrier(6)

    def ask() -> None:
        together.wait()
        try:
            with room_for(token):
                lifecycle.start(anna, "tea?", token=token)
        except TooManyRuns as error:
            refused.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(refused), Run.objects.filter(token=token).count()) == (4, 2)


def test_a_run_that_is_claimed_again_in_a_process_keeps_its_own_stop() -> None:
    run = uuid4()

    async def twice() -> bool:
        first = stops.stoppable(run)
        first.__enter__()
        with stops.stoppable(run) as second:
            first.__exit__(None, None, None)
            return stops._stops.get(run) is second

    assert async_to_sync(twice)()
    assert run not in stops._stops
