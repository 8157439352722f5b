"""What a rule finds is set aside and can be brought back; after its grace it is gone, and nothing else is."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from memoryapp import curation
from memoryapp.curation import CurationError, plan_edit
from memoryapp.engine.chat.media import MediaContent
from memoryapp.engine.events import MediaItem
from memoryapp.erasure import expiry
from memoryapp.intake.invariants import violations
from memoryapp.memory.content import store
from memoryapp.models import (
    AuditEntry,
    ChatUser,
    ExpiringRow,
    ExpiryBatch,
    ExpiryRule,
    Fact,
    GoldenQuestion,
    Judgement,
    Media,
    Message,
    Miss,
    Run,
    RunEvent,
    Topic,
    TopicEdit,
    Webhook,
    WebhookDelivery,
)
from memoryapp.platform import database
from memoryapp.platform.webhooks import announcing
from memoryapp.upkeep import tasks
from tests.conftest import fact_of, talk
from tests.erasure.conftest import PARAPHRASE, SECRET, Filled
from tests.misses.forgetful import DENTIST, forgetful, missed
from tests.support.browsing import run_of

OLD = timezone.now() - timedelta(days=400)


def rule_of(owner: ChatUser | None, noun: str, **values: Any) -> ExpiryRule:
    return ExpiryRule.objects.create(owner=owner, noun=noun, made_by="ada", **{"days": 100, **values})


def home(owner: ChatUser) -> tuple[Any, ...]:
    """All that recall and lists read of the memory."""
    messages = Message.objects.of(owner).order_by("pk").values_list("pk", "topic", "is_withdrawn")
    facts = Fact.objects.filter(owner=owner).order_by("pk").values_list("pk", "recall", "superseded_at")
    return list(messages), list(facts), list(Topic.objects.of(owner).live().order_by("pk").values_list("pk", "summary"))


def aside(rule: ExpiryRule, owner: ChatUser) -> ExpiryBatch:
    batch = expiry.set_aside(rule, owner)
    assert batch
    return batch


def over(batch: ExpiryBatch) -> ExpiryBatch:
    """Its grace is over, and the worker does the rest."""
    ExpiryBatch.objects.filter(pk=batch.pk).update(due_at=timezone.now() - timedelta(minutes=1))
    tasks.expire_due()
    tasks.erase_due()
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED")
    batch.refresh_from_db()
    return batch


def is_clean() -> bool:
    """Runs of these tests have no course."""
    return not [found for found in violations() if not found.subject.startswith("Run:")]


@pytest.fixture
def memory(anna: ChatUser, boris: ChatUser) -> ChatUser:
    first, second = talk(
        anna,
        ("Keys and boats", ["Where is the key?", "Under the pot", "And the boat?"]),
        ("Tea", ["Milk first?", "Never"]),
    )
    for text, topic in (("Owns a boat", first), ("Takes no milk", second)):
        fact_of(anna, text, topic, created_at=OLD, type="status", importance=10, category=text[:5])
    Message.objects.update(role="user")
    Message.objects.filter(text="Under the pot").update(role="assistant")
    talk(boris, ("Keys of mine", ["Where is my key?", "In the drawer"]))
    fact_of(boris, "Owns a bike", created_at=OLD)
    return anna


CASES: tuple[tuple[str, dict[str, Any], int], ...] = (
    ("message", {}, 5),
    ("message", {"kind": "assistant"}, 1),
    ("message", {"condition": "unrecalled"}, 2),
    ("fact", {}, 2),
    ("fact", {"kind": "Owns "}, 1),
    ("fact", {"condition": "unrecalled"}, 1),
    ("fact", {"condition": "stale"}, 1),
)


@pytest.mark.parametrize(("noun", "values", "count"), CASES)
def test_the_rehearsal_is_what_is_set_aside_and_undo_leads_home(
    memory: ChatUser, boris: ChatUser, monkeypatch: pytest.MonkeyPatch, noun: str, values: dict[str, Any], count: int
) -> None:
    monkeypatch.setattr(expiry, "AT_ONCE", 2)
    run_of(memory, Topic.objects.get(summary="Keys and boats"))
    rule, before, others = rule_of(memory, noun, **values), home(memory), home(boris)
    rehearsed = expiry.rehearse(rule)
    assert (rehearsed.total, len(rehearsed.first)) == (count, count)
    tasks.expire_due()
    batches = list(ExpiryBatch.objects.all())
    assert sorted(ExpiringRow.objects.values_list("number", flat=True)) == sorted(row.number for row in rehearsed.first)
    assert home(memory) != before
    assert (home(boris), is_clean()) == (others, True)
    assert expiry.rehearse(rule).total == 0
    for batch in batches:
        expiry.keep(batch, actor="cora")
    assert (home(memory), is_clean()) == (before, True)
    ExpiryRule.objects.update(checked_at=None)
    rule_of(memory, noun, is_on=False)
    tasks.expire_due()
    assert (ExpiryBatch.objects.count(), expiry.rehearse(rule).total) == (len(batches), 0)


class TestUndo(TestCase):
    @given(st.lists(st.sets(st.integers(0, 4)), max_size=3), st.sampled_from(["message", "fact"]))
    def test_keeping_rows_one_after_another_in_any_order_leads_home(self, steps: list[set[int]], noun: str) -> None:
        owner = ChatUser.objects.create(name="carla")
        [topic] = talk(owner, ("Pots and pans", [f"Sentence {number} of it" for number in range(5)]))
        for number in range(5):
            fact_of(owner, f"Fact {number}", topic, created_at=OLD, recall="never" if number else "")
        before, batch = home(owner), aside(rule_of(owner, noun), owner)
        listed = list(batch.rows.order_by("pk").values_list("number", flat=True))
        for places in [*steps, set(range(5)) - set().union(*steps)]:
            if batch.state == "aside":
                expiry.keep(batch, [listed[place] for place in places], actor="cora")
        assert (home(owner), batch.state) == (before, "kept")


def test_messages_are_gone_everywhere_after_the_grace(filled: Filled, settings: Any) -> None:
    settings.AUDIT_LOG = True
    Webhook.objects.create(name="w", address="https://x.example/", kinds=["retention.due"], nonce="n", check_digest="d")
    rule = rule_of(None, "message", kind=filled.message.author)
    tasks.expire_due()
    [batch] = ExpiryBatch.objects.all()
    assert Message.objects.get(pk=filled.message.pk).is_withdrawn
    with pytest.raises(CurationError, match="What expires"):
        curation.undo(filled.owner, batch.edit, actor="ada")
    kept = Message.objects.of(filled.owner).filter(is_withdrawn=True).exclude(pk=filled.message.pk).earliest("pk")
    expiry.keep(batch, [str(kept.pk)], actor="cora")
    # Nor is what was kept withdrawn again by hand.
    with pytest.raises(CurationError, match="What expires"):
        curation.undo(filled.owner, TopicEdit.objects.get(kind="undo"), actor="ada")
    receipt = over(batch).receipt
    assert (receipt.kind, receipt.actor, receipt.ended_at is not None) == ("expired", f"ada, expiry {rule.pk}", True)
    assert receipt.counts["memoryapp_message"] == batch.count - 1
    assert not Message.objects.filter(pk=filled.message.pk).exists()
    assert Message.objects.get(pk=kept.pk).topic is not None
    call_command("verify_erasure", str(receipt.pk))
    assert is_clean()
    bodies = [announcing.body_of(row) for row in WebhookDelivery.objects.order_by("pk")]
    assert [('receipt":null' in body, SECRET in body) for body in bodies] == [(False, False)] * 2
    deeds = AuditEntry.objects.order_by("pk").values_list("who", "deed")
    assert [*deeds] == [("expiry", "change"), ("expiry", "erase")]


def test_facts_go_with_their_findings_and_leave_their_neighbours(filled: Filled) -> None:
    fact = Fact.objects.get(owner=filled.owner, content=PARAPHRASE)
    Fact.objects.filter(pk=fact.pk).update(created_at=OLD, category="communication style")
    young = fact_of(filled.owner, "Answers at once", category="communication style", created_at=timezone.now())
    batch = aside(rule_of(filled.owner, "fact"), filled.owner)
    fact.refresh_from_db()
    assert (fact.recall, over(batch).state) == ("never", "gone")
    assert list(Fact.objects.filter(owner=filled.owner)) == [young]
    call_command("verify_erasure", str(batch.receipt_id))
    assert is_clean()


def test_runs_and_media_go_and_what_asks_the_same_stays(memory: ChatUser, tmp_path: Path, settings: Any) -> None:
    settings.MEDIA_ROOT = settings.DATA_DIR = tmp_path
    topic = Topic.objects.of(memory).live()[0]
    old, same, judged, foreign = (run_of(memory, topic) for _run in range(4))
    Run.objects.exclude(pk=same.pk).update(created_at=OLD)
    Run.objects.filter(pk=foreign.pk).update(origin="other")
    Judgement.objects.create(owner=memory, run=judged, is_good=True)
    item = store(memory, MediaContent(MediaItem("a" * 64, "image", "image/png", "x.png", 3), b"png"))
    Media.objects.update(created_at=OLD)
    for noun, kind in (("run", "flash"), ("trace", "other"), ("media", "image")):
        rule = rule_of(memory, noun, kind=kind)
        rehearsed = expiry.rehearse(rule)
        assert rehearsed.shields == ({"judged": 1} if noun == "run" else {})
        batch = aside(rule, memory)
        assert batch.count == rehearsed.total == 1
        assert over(batch).state == "gone"
        call_command("verify_erasure", str(batch.receipt_id))
    assert set(Run.objects.values_list("pk", flat=True)) == {same.pk, judged.pk}
    assert not RunEvent.objects.filter(run__in=[old.pk, foreign.pk]).exists()
    assert not list(tmp_path.rglob(item.sha256))


def test_what_is_pinned_golden_or_missed_never_goes(anna: ChatUser) -> None:
    first, second, third = talk(anna, ("One", ["aa one", "bb"]), ("Two", ["aa two"]), ("Three", ["aa three", "cc"]))
    Topic.objects.filter(pk=first.pk).update(recall="pinned")
    golden, missed_one = (topic.message_set.get(text__startswith="aa") for topic in (second, third))
    GoldenQuestion.objects.create(owner=anna, collection="g", question="?", evidence=[golden.pk])
    miss = Miss.objects.create(owner=anna, question="?", evidence=[missed_one.pk], moment=timezone.now())
    rule = rule_of(anna, "message")
    assert expiry.rehearse(rule).shields == {"pinned": 2, "golden": 1, "miss": 1}
    batch = aside(rule, anna)
    assert batch.count == 1
    # What comes under a miss while it is set aside stays.
    left = Message.objects.get(pk=int(batch.rows.get().number))
    Miss.objects.filter(pk=miss.pk).update(evidence=[left.pk])
    assert (over(batch).state, batch.receipt, Message.objects.get(pk=left.pk).is_withdrawn) == ("kept", None, False)


def test_a_later_edit_does_not_keep_messages_from_coming_back(memory: ChatUser) -> None:
    batch = aside(rule_of(memory, "message", kind="assistant"), memory)
    left = Topic.objects.of(memory).live().get(summary="Keys and boats")
    curation.swap(memory, plan_edit(memory, left.pk, "Keys, boats and pots"), kind="edit", actor="ada")
    assert expiry.keep(batch, actor="cora") == 1
    back = Message.objects.get(text="Under the pot")
    assert (back.is_withdrawn, back.topic, is_clean()) == (False, None, True)
    with pytest.raises(CurationError):
        expiry.keep(batch, actor="cora")


@pytest.mark.parametrize("state", ["aside", "gone"])
def test_a_crash_leaves_whole_state_and_is_carried_on(
    transactional_db: None, memory: ChatUser, boris: ChatUser, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    rule_of(None, "message")
    if state == "gone":
        tasks.expire_due()
        ExpiryBatch.objects.update(due_at=timezone.now())
    before, tell = home(memory), expiry._tell

    def crash(batch: ExpiryBatch, *given: Any) -> None:
        tell(batch, *given)
        if batch.owner_id == memory.pk:
            raise RuntimeError("killed")

    monkeypatch.setattr(expiry, "_tell", crash)
    ExpiryRule.objects.update(checked_at=None)
    tasks.expire_due()
    assert home(memory) == before
    # The other memory went on.
    assert ExpiryBatch.objects.filter(owner=boris).latest("pk").state == state
    monkeypatch.setattr(expiry, "_tell", tell)
    database.rests.end_all()
    ExpiryRule.objects.update(checked_at=None)
    tasks.expire_due()
    tasks.erase_due()
    tasks.erase_due()
    assert set(ExpiryBatch.objects.values_list("state", flat=True)) == {state}
    assert Message.objects.exists() == (state == "aside")


def test_a_plain_recall_works_when_half_of_the_memory_is_set_aside_and_gone(
    transactional_db: None, folder: Path
) -> None:
    owner = forgetful()
    Message.objects.filter(text=DENTIST).update(author="Dr")
    batch = aside(rule_of(owner, "message", kind="Dr"), owner)
    for _again in range(2):
        run = missed(owner).run
        assert run
        assert run.state == "finished"
        assert DENTIST not in str(list(run.events.exclude(kind="run_started").values_list("payload", flat=True)))
        Miss.objects.all().delete()
        Run.objects.all().delete()
        over(batch)
    assert not Message.objects.filter(text=DENTIST).exists()
