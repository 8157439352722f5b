"""An erasure that is killed, runs beside other writers, or follows any sequence of edits leaves no residue, and the
memory stays valid."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memoryapp import curation, erasure
from memoryapp.curation import CurationError
from memoryapp.engine.events import ModelReplied, PromptMessage, RunFinished, TurnStarted, to_payload
from memoryapp.erasure import Target, lifecycle, scanner
from memoryapp.intake.invariants import violations
from memoryapp.models import AgentCall, ChatUser, Erasure, Message, Run, RunEvent, Topic, TopicEdit
from memoryapp.upkeep import tasks
from tests.conftest import talk
from tests.erasure.conftest import SECRET, Filled
from tests.erasure.test_part_erasure import places, tables_with
from tests.examples import examples

pytestmark = [pytest.mark.django_db, pytest.mark.slow]

TEXTS = [f"Word {number} of a talk about apples number {number * 7919}" for number in range(8)]
STEPS = st.lists(st.tuples(st.sampled_from(("merge", "split", "move", "edit", "undo")), st.integers(0, 7)), max_size=6)


class Killed(BaseException):
    """Ends a process in the middle of its work."""


@pytest.mark.parametrize("step", ["_store_marks", "cut", "_redact", "redact_calls", "redact_leftovers"])
def test_a_process_that_is_killed_leaves_an_erasure_that_the_worker_ends(
    step: str, filled: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = erasure.begin(Target(filled.owner.pk, (filled.message.pk,)), "ada")

    def dying(*_given: Any, **_named: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(lifecycle, step, dying)
        with pytest.raises(Killed):
            erasure.finish(begun)
    assert list(violations()) == []
    tasks.erase_due()
    ended = Erasure.objects.get()
    assert ended.ended_at
    assert places(ended) == []
    assert tables_with("Zwiebelfisch") == set()
    assert list(violations()) == []


def finished_with(run: Run, *events: Any) -> None:
    for seq, event in enumerate(events, start=1):
        RunEvent.objects.create(
            owner_id=run.owner_id, run=run, seq=seq, kind=event.kind, at=timezone.now(), payload=to_payload(event)
        )
    Run.objects.filter(pk=run.pk).update(state=Run.State.FINISHED, finished_at=timezone.now(), turns=1)


def test_an_erasure_ends_when_the_runs_that_may_have_read_it_have(filled: Filled) -> None:
    run = Run.objects.create(owner=filled.owner, strategy="flash", query="Where?", state=Run.State.RUNNING)
    begun = erasure.finish(erasure.begin(Target(filled.owner.pk, (filled.message.pk,)), "ada"))
    assert begun.cut_at
    assert begun.ended_at is None
    prompt = (PromptMessage("tool", f"Anna: {SECRET}"),)
    reply = ModelReplied(1, "She locks it away.", "", (), 0, 0, 0.0, 0.0, "m")
    finished_with(run, TurnStarted(1, "auto", "none", prompt), reply, RunFinished((), (), ""))
    assert tables_with("Zwiebelfisch") == {"memoryapp_runevent.payload"}
    tasks.erase_due()
    assert Erasure.objects.get().ended_at
    assert tables_with("Zwiebelfisch") == tables_with("She locks it away") == set()


def test_what_an_agent_still_wrote_goes_with_the_second_look(filled: Filled) -> None:
    ended = erasure.finish(erasure.begin(Target(filled.owner.pk, (filled.message.pk,)), "ada"))
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED")
    late = {"kind": "turn_started", "payload": {"turn": 1, "prompt": [{"role": "user", "content": f"<m>{SECRET}</m>"}]}}
    answer = {"kind": "model_replied", "payload": {"turn": 1, "text": "All about a locker."}, "message": "{}"}
    AgentCall.objects.create(owner=filled.owner, agent="splitter", key="k", events=[late, answer])
    tasks.erase_due()
    assert places(ended) != []
    Erasure.objects.update(ended_at=timezone.now() - erasure.LOOK_AGAIN - timedelta(seconds=1))
    tasks.erase_due()
    tasks.verify_asked()
    again = Erasure.objects.get()
    assert again.looked_again_at
    assert again.verified_at
    assert again.residue == []
    assert tables_with("about a locker") == set()


def curate(owner: ChatUser, kind: str, number: int, word: str) -> None:
    """One step of a person, on the topic that the number selects; summaries begin with ``word``."""
    live = list(Topic.objects.of(owner).live().order_by("pk"))
    topic = live[number % len(live)]
    messages = list(Message.objects.filter(topic=topic).in_order().values_list("pk", flat=True))
    if kind == "undo":
        edits = list(TopicEdit.objects.filter(owner=owner).exclude(kind="archive").order_by("pk"))
        curation.undo(owner, edits[number % len(edits)] if edits else TopicEdit(owner=owner), actor="ada")
        return
    plans = {
        "merge": lambda: curation.plan_merge(owner, [live[0].pk, live[-1].pk]),
        "split": lambda: curation.plan_split(owner, topic.pk, messages[1:2]),
        "move": lambda: curation.plan_move(owner, messages[:1], live[-1].pk),
        "edit": lambda: curation.plan_edit(owner, topic.pk, f"{word}: {Message.objects.get(pk=messages[0]).text}"),
    }
    curation.swap(owner, plans[kind](), kind=TopicEdit.Kind(kind), actor="ada")


def attempted(owner: ChatUser, steps: Sequence[tuple[str, int]], word: str) -> None:
    for kind, number in steps:
        try:
            with transaction.atomic():
                curate(owner, kind, number, word)
        except CurationError:
            continue


def test_a_summary_that_quotes_another_topic_is_made_anew(anna: ChatUser, folder: Any) -> None:
    talk(anna, ("One", TEXTS[:3]), ("Two", TEXTS[3:5]))
    quoting, gone = Topic.objects.get(summary="Two"), Message.objects.get(text=TEXTS[0])
    curation.swap(anna, curation.plan_edit(anna, quoting.pk, f"As before: {gone.text}"), kind="edit", actor="ada")
    receipt = erasure.finish(erasure.begin(Target(anna.pk, (gone.pk,)), "ada"))
    topic = Topic.objects.live().get(pk__gt=quoting.pk)
    assert topic.summary == TEXTS[3]
    assert topic.erased_at
    assert places(receipt) == []
    assert list(violations()) == []


@settings(max_examples=examples(8), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=STEPS, after=STEPS, gone=st.sets(st.integers(0, 7), min_size=1, max_size=7))
def test_whatever_was_curated_the_erased_is_gone_and_the_rest_is_whole(
    anna: ChatUser, folder: Any, before: list[tuple[str, int]], after: list[tuple[str, int]], gone: set[int]
) -> None:
    with transaction.atomic():
        talk(anna, ("One", TEXTS[:3]), ("Two", TEXTS[3:5]), ("Three", TEXTS[5:]))
        attempted(anna, before, "Said")
        numbers = tuple(Message.objects.filter(text__in=[TEXTS[each] for each in gone]).values_list("pk", flat=True))
        receipt = erasure.finish(erasure.begin(Target(anna.pk, numbers), "ada"))
        if len(gone) < len(TEXTS):
            # Words of an erased summary are not used, because the scanner would rightly find them again.
            attempted(anna, after, "Noted")
        with connection.cursor() as cursor:
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED")
        assert list(violations()) == []
        assert [found.place for found in scanner.in_database(scanner.receipt(str(receipt.pk)))] == []
        assert Message.objects.count() == len(TEXTS) - len(gone)
        transaction.set_rollback(True)
