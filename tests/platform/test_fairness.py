"""Nobody waits for another: a fault of one row or one memory, or its backlog, is its own."""

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from asgiref.sync import async_to_sync
from django.db import connection, connections
from django.utils import timezone

from memoryapp import erasure
from memoryapp.celery import SCHEDULE
from memoryapp.curation import bulk, extraction, suggestions
from memoryapp.curation.suggestions import consolidation
from memoryapp.doors.traces import arrival as quiet_traces
from memoryapp.engine.embeddings import Profile, Vectors
from memoryapp.erasure import expiry, scanner
from memoryapp.insight.evaluation import nights as alarms
from memoryapp.insight.evaluation import nights as judging
from memoryapp.insight.evaluation import nights as schedule
from memoryapp.insight.evaluation import passes
from memoryapp.insight.misses import misses
from memoryapp.intake import archiving, artifacts
from memoryapp.intake.messages import add_messages
from memoryapp.intake.transfer import files as import_files
from memoryapp.intake.transfer import files as stored_files
from memoryapp.memory import sessions
from memoryapp.memory.sessions import SessionLimits
from memoryapp.models import (
    ApiToken,
    Artifact,
    BulkTopic,
    BulkWork,
    ChatUser,
    Erasure,
    Evaluation,
    ExpiryBatch,
    ExpiryRule,
    GoldenNight,
    ImportBatch,
    ImportFile,
    Message,
    Miss,
    NightlyRun,
    PassageVector,
    Person,
    Run,
    Topic,
    Trace,
    WebhookDelivery,
    Work,
)
from memoryapp.platform import work
from memoryapp.platform.backlog import ages
from memoryapp.platform.database import StagePaused
from memoryapp.platform.llm import clients
from memoryapp.platform.webhooks import sending
from memoryapp.runs import endings, lifecycle
from memoryapp.runs.lifecycle import TooManyRuns, room_for
from memoryapp.search import items, profiles
from memoryapp.search.vectors import EMBED
from memoryapp.upkeep import tasks
from tests.conftest import talk
from tests.intake.test_archiving import HOUR, in_pairs, message_record
from tests.platform.receiver import hooked
from tests.platform.test_work import unlock
from tests.search.test_vectors import Hashing

pytestmark = pytest.mark.django_db(transaction=True)
EARLIER = datetime(2026, 3, 1, tzinfo=UTC)

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
    """Stands for what a sweep calls for one row: raises for the ``bad`` one, counts how often each was asked for, and
    calls ``act`` for the others. ``key`` tells the row by the arguments."""

    def __init__(
        self,
        bad: object = "anna",
        key: Callable[..., object] = lambda owner, *_rest: owner.name,
        act: Callable[..., Any] = lambda *_given, **_named: 0,
    ) -> None:
        self.asked: Counter[object] = Counter()
        self._bad, self._key, self._act = bad, key, act

    def __call__(self, *given: Any, **named: Any) -> Any:
        key = self._key(*given)
        self.asked[key] += 1
        if key == self._bad:
            raise ValueError("The row is poisoned.")
        return self._act(*given, **named)


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


@dataclass
class Rows:
    """Two rows for a sweep, by their keys; the function of a module that is called for each, and how that tells them.

    The second is served by ``act``, by default the function itself.
    """

    keys: list[Any]
    module: Any
    name: str
    key: Callable[..., object] = lambda row, *_rest: row.pk
    act: Callable[..., Any] | None = None


def itself(number: object, *_rest: Any) -> object:
    return number


async def nothing(*_given: Any, **_named: Any) -> None:
    """Serves a row, without what would follow."""


def two_passages(owners: Sequence[ChatUser]) -> Rows:
    for owner in owners:
        backlog(owner, 1)
    return Rows([owner.pk for owner in owners], sessions, "renew")


def two_traces(owners: Sequence[ChatUser]) -> Rows:
    keys = []
    for owner in owners:
        run = Run.objects.create(owner=owner, query="q", origin="other", state="running")
        keys.append(Trace.objects.create(owner=owner, run=run, number=uuid4()).pk)
    Run.objects.update(heartbeat_at=EARLIER)
    return Rows(keys, quiet_traces, "write", lambda _owner, traces: traces[0].pk, lambda *_given, **_named: None)


def two_abandoned_runs(owners: Sequence[ChatUser]) -> Rows:
    keys = [Run.objects.create(owner=owner, query="q", state="running").pk for owner in owners]
    Run.objects.update(heartbeat_at=EARLIER)
    return Rows(keys, endings, "_close", itself)


def two_unclaimed_runs(owners: Sequence[ChatUser]) -> Rows:
    keys = [lifecycle.start(owner, "tea?").pk for owner in owners]
    Run.objects.update(created_at=EARLIER)
    return Rows(keys, lifecycle, "claim", itself, nothing)


def two_messages_to_a_webhook(owners: Sequence[ChatUser]) -> Rows:
    hook, _secret = hooked("http://127.0.0.1:9/")
    rows = [WebhookDelivery.objects.create(webhook=hook, owner=owner, kind="run.finished") for owner in owners]
    return Rows([row.pk for row in rows], sending, "body_of", act=lambda _row: "")


def nightly(**fields: Any) -> NightlyRun:
    fields = {"next_at": timezone.now() + timedelta(hours=1), **fields}
    return NightlyRun.objects.create(collection="garden", strategy="vector", most=5, hour=3, zone="UTC", **fields)


def two_due_nights(owners: Sequence[ChatUser]) -> Rows:
    return Rows([nightly(next_at=EARLIER).pk for _owner in owners], schedule, "_begun")


def two_asked_nights(owners: Sequence[ChatUser]) -> Rows:
    done = Evaluation.objects.create(source="garden", strategy="vector")
    nights = [GoldenNight.objects.create(nightly=nightly(), evaluation=done) for _owner in owners]
    return Rows([night.pk for night in nights], judging, "_judged", itself)


def two_mails(owners: Sequence[ChatUser]) -> Rows:
    waits = {"nightly": nightly(recipients="a@b.example"), "state": "dropped", "mail": "waiting", "mail_at": EARLIER}
    nights = [GoldenNight.objects.create(**waits) for _owner in owners]
    return Rows([night.pk for night in nights], alarms, "_message")


def two_erasures(owners: Sequence[ChatUser], **fields: Any) -> Rows:
    rows = [Erasure.objects.create(owner_number=owner.pk, kind="messages", messages=[1], **fields) for owner in owners]
    return Rows([row.pk for row in rows], erasure, "finish", act=lambda *_given, **_named: None)


def two_receipts(owners: Sequence[ChatUser]) -> Rows:
    now = timezone.now()
    rows = two_erasures(owners, ended_at=now, looked_again_at=now, verify_asked_at=now)
    return Rows(rows.keys, scanner, "verify")


def two_artifacts(owners: Sequence[ChatUser]) -> Rows:
    rows = [artifacts.put(owner, "bread.txt", "text/plain", b"Rye bread.")[0] for owner in owners]
    return Rows([row.pk for row in rows], artifacts, "_read")


def two_media(owners: Sequence[ChatUser]) -> Rows:
    two_artifacts(owners)
    Artifact.objects.all().delete()
    return Rows([owner.pk for owner in owners], artifacts, "_put")


def two_evaluations(owners: Sequence[ChatUser]) -> Rows:
    rows = [Evaluation.objects.create(source="garden", strategy="vector", state="pending") for _owner in owners]
    return Rows([row.pk for row in rows], passes, "carry_on", act=nothing)


def two_misses(owners: Sequence[ChatUser]) -> Rows:
    runs = [Run.objects.create(owner=owner, query="q", state="finished") for owner in owners]
    keys = [Miss.objects.create(owner=run.owner, question="q", run=run, moment=run.created_at).pk for run in runs]
    return Rows(keys, misses, "explain")


def two_rules(owners: Sequence[ChatUser]) -> Rows:
    rows = [ExpiryRule.objects.create(owner=owner, noun="run", days=9, made_by="ada") for owner in owners]
    return Rows([row.pk for row in rows], expiry, "set_aside")


def two_batches(owners: Sequence[ChatUser]) -> Rows:
    rule = ExpiryRule.objects.create(noun="run", days=9, made_by="ada", is_on=False)
    due = {"rule": rule, "count": 1, "due_at": timezone.now()}
    rows = [ExpiryBatch.objects.create(owner=owner, **due) for owner in owners]
    return Rows([row.pk for row in rows], expiry, "erase")


def two_files(owners: Sequence[ChatUser], **fields: Any) -> Rows:
    rows = [ImportFile.objects.create(owner=owner, source="a.jsonl", size_bytes=1, **fields) for owner in owners]
    return Rows([row.pk for row in rows], import_files, "work_on", act=lambda _row: True)


def two_old_files(owners: Sequence[ChatUser]) -> Rows:
    rows = two_files(owners, state="failed")
    ImportFile.objects.update(at=timezone.now() - timedelta(days=400))
    return Rows(rows.keys, stored_files, "discard")


def two_bulk_works(owners: Sequence[ChatUser]) -> Rows:
    rows = [BulkWork.objects.create(owner=owner, kind="extract", asked_by="cora") for owner in owners]
    return Rows([row.pk for row in rows], bulk, "carry_on")


# The other sweeps. One that does several things stands here for each.
OF_ROWS: tuple[tuple[str, Callable[[Sequence[ChatUser]], Rows]], ...] = (
    ("index_talk", two_passages),
    ("end_quiet_traces", two_traces),
    ("close_abandoned_runs", two_abandoned_runs),
    ("execute_waiting_runs", two_unclaimed_runs),
    ("send_webhooks", two_messages_to_a_webhook),
    ("watch_nights", two_due_nights),
    ("watch_nights", two_asked_nights),
    ("watch_nights", two_mails),
    ("erase_due", two_erasures),
    ("verify_asked", two_receipts),
    ("read_artifacts", two_artifacts),
    ("read_artifacts", two_media),
    ("evaluate_asked", two_evaluations),
    ("explain_misses", two_misses),
    ("import_waiting", two_files),
    ("clear_import_files", two_old_files),
    ("carry_on_bulk", two_bulk_works),
    ("expire_due", two_rules),
    ("expire_due", two_batches),
)
# They serve all at once, and after a fault one by one: see the test below.
TOGETHER = {"embed_pending"}
# One statement for all rows, in which none can be faulty.
ONE_STATEMENT = {"clear_login_sessions", "clear_webhooks", "keep_watch", "seal_audit"}


def test_every_sweep_is_known_to_the_law() -> None:
    known = {*OF_OWNERS, *(name for name, _rows in OF_ROWS), *TOGETHER, *ONE_STATEMENT}
    assert known == {entry["task"].rpartition(".")[2] for entry in SCHEDULE.values()}


@pytest.mark.parametrize(("name", "two"), OF_ROWS, ids=[f"{name}-{two.__name__}" for name, two in OF_ROWS])
def test_a_fault_of_one_row_is_its_own_and_not_repeated_at_once(
    anna: ChatUser, boris: ChatUser, monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path, name: str, two: Any
) -> None:
    settings.MEDIA_ROOT = settings.IMPORT_DIR = tmp_path
    monkeypatch.setattr(clients, "embedder_of", lambda profile, *_rest: of_profile(profile))
    rows = two((anna, boris))
    poisoned = Poisoned(rows.keys[0], rows.key, rows.act or getattr(rows.module, rows.name))
    monkeypatch.setattr(rows.module, rows.name, poisoned)
    for _sweep in range(4):
        getattr(tasks, name)()
    assert poisoned.asked[rows.keys[0]] == 1
    assert poisoned.asked[rows.keys[1]] >= 1


def test_a_fault_among_vectors_is_kept_with_the_one_whom_it_concerns(
    anna: ChatUser, boris: ChatUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    class Choking(Hashing):
        async def embed(self, texts: Sequence[str]) -> Vectors:
            asked.extend(text for text in texts if "poison" in text)
            if any("poison" in text for text in texts):
                raise ValueError("The text is poisoned.")
            return await super().embed(texts)

    def choking(profile: Profile) -> Hashing:
        embedder = Choking()
        embedder.profile = profile
        return embedder

    monkeypatch.setattr(clients, "embedder_of", choking)
    talk(anna, ("Ink", ["poison?", "yes"]))
    talk(boris, ("Tea", ["green?", "yes"]))
    profile = profiles.serving()
    for tries in range(1, 6):
        tasks.embed_pending()
        row = Work.objects.get(owner=anna, kind=EMBED)
        assert (row.state, row.fault, row.tries) == (Work.State.FAILED, "The text is poisoned.", min(tries, 3))
        assert not profiles.passages(profile, boris).exists()
        assert not profiles.topics(profile, boris).exists()
        Work.objects.update(at=timezone.now() - timedelta(days=2))
    assert len(asked) == 2 * work.MOST_TRIES
    person = Person.objects.create(owner=boris, display_name="Vera")
    monkeypatch.setattr(items, "_card", Poisoned(person.pk, lambda row, _noun: row.pk))
    tasks.embed_pending()
    assert Work.objects.get(owner=boris, kind=EMBED).fault == "The row is poisoned."


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
    monkeypatch.setitem(bulk._ACTS, kind, act)
    for _sweep in range(3):
        tasks.carry_on_bulk()
    assert asked[topics[0].pk] == 1
    for _sweep in range(6):
        BulkWork.objects.update(rests_until=None)
        tasks.carry_on_bulk()
    assert asked == {topics[0].pk: bulk.MOST_TRIES, topics[1].pk: 1}
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


def test_what_was_said_last_is_found_and_archived_before_the_backlogs_of_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "embedder_of", of_profile)
    profiles.serving()
    for number in range(25):
        backlog(ChatUser.objects.create(name=f"many{number}"), 8)
    fresh = ChatUser.objects.create(name="fresh")
    backlog(fresh, 1)
    tasks.index_talk()
    assert PassageVector.objects.filter(owner=fresh).exists()
    assert len(sessions.with_bare()) >= 6
    tasks.archive_due()
    assert Topic.objects.filter(owner=fresh).exists()
    for _sweep in range(40):
        tasks.index_talk()
    assert not sessions.with_bare().exists()


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
        assert list(sessions.with_bare()) == [boris]
    finally:
        unlock(other)
    tasks.index_talk()
    assert not sessions.with_bare().exists()


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
    sessions.renew(anna)
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
        first = endings.stoppable(run)
        first.__enter__()
        with endings.stoppable(run) as second:
            first.__exit__(None, None, None)
            return endings._stops.get(run) is second

    assert async_to_sync(twice)()
    assert run not in endings._stops
