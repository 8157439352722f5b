"""Every invariant can be violated, and is then named."""

import io
import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.apps import apps
from django.core.management import CommandError, call_command
from django.db import IntegrityError, connection, models, transaction
from django.utils import timezone

from memoryapp.curation import knowledge
from memoryapp.engine.events import ModelReplied, RunFinished, to_payload
from memoryapp.intake.invariants import counted, violations
from memoryapp.models import (
    ChatUser,
    EditedTopic,
    KnowledgeEdit,
    Message,
    Passage,
    PassageVector,
    Person,
    Run,
    RunEvent,
    Topic,
    TopicMessage,
    TopicVector,
)
from memoryapp.models.user import Owned
from memoryapp.runs.endings import close_abandoned
from memoryapp.runs.journal import finished_columns
from memoryapp.search import items
from memoryapp.search.vectors import embed_pending
from tests.conftest import lawless, talk
from tests.search.test_vectors import Hashing

REPLIED = ModelReplied(1, "ok", "", (), 10, 2, 0.5, 0.25, "m")
FINISHED = RunFinished((), (), "", "")


def finished_run(owner: ChatUser) -> Run:
    events = [REPLIED, FINISHED]
    run = Run.objects.create(
        owner=owner, strategy="flash", query="tea?", finished_at=timezone.now(), **finished_columns(events, FINISHED)
    )
    for seq, event in enumerate(events, start=1):
        RunEvent.objects.create(
            owner=owner, run=run, seq=seq, kind=event.kind, at=timezone.now(), payload=to_payload(event)
        )
    return run


@pytest.fixture
def memory(anna: ChatUser) -> ChatUser:
    """A healthy memory with topics, vectors and a finished run."""
    talk(anna, ("tea", ["green?", "yes"]), ("cats", ["how many?", "three"]))
    async_to_sync(embed_pending)(Hashing())
    finished_run(anna)
    return anna


def test_a_healthy_memory_breaks_nothing(memory: ChatUser, boris: ChatUser) -> None:
    talk(boris, ("dogs", ["any?", "none"]))
    assert list(violations()) == []
    assert counted(memory) == {
        "messages": 4,
        "topics": 2,
        "passages": Passage.objects.filter(owner=memory).count(),
        "passage_vectors": PassageVector.objects.count(),
        "topic_vectors": 2,
        "runs": 1,
        "events": 2,
    }


def test_an_empty_memory_breaks_nothing(db: None) -> None:
    assert list(violations()) == []


def retire() -> None:
    Topic.objects.filter(summary="tea").update(is_live=False)


def unlist() -> None:
    TopicMessage.objects.filter(topic__summary="tea").latest("pk").delete()


def release() -> None:
    Message.objects.filter(topic__summary="tea").update(topic=None)


def empty() -> None:
    TopicMessage.objects.filter(topic__summary="tea").delete()


def misstate() -> None:
    Topic.objects.filter(summary="tea").update(size_chars=1)


def misdate() -> None:
    Topic.objects.filter(summary="tea").update(ended_at=timezone.now())


def forget_edit() -> None:
    EditedTopic.objects.filter(topic__summary="tea").delete()


def drop_passages() -> None:
    Passage.objects.all().delete()


def shorten_passage_vector() -> None:
    PassageVector.objects.update(vector=[1.0])


def stretch_passage_vector() -> None:
    PassageVector.objects.update(vector=[1.0] * 16)


def shorten_topic_vector() -> None:
    TopicVector.objects.update(vector=[1.0])


def stretch_topic_vector() -> None:
    TopicVector.objects.update(vector=[0.0] * 16)


def skip_number() -> None:
    RunEvent.objects.filter(seq=2).update(seq=3)


def lose_end() -> None:
    RunEvent.objects.filter(seq=2).delete()


def reopen() -> None:
    Run.objects.update(state=Run.State.RUNNING, finished_at=None)


def forget_time() -> None:
    Run.objects.update(finished_at=None)


def fall_silent() -> None:
    Run.objects.update(state=Run.State.RUNNING, heartbeat_at=timezone.now() - timedelta(hours=1))


def miscount() -> None:
    Run.objects.update(input_tokens=11)


def garble() -> None:
    RunEvent.objects.filter(seq=1).update(payload={"turn": 1})


def give_away() -> None:
    Message.objects.filter(text="green?").update(owner=ChatUser.objects.create(name="thief"))


def forge_owner() -> None:
    owner = ChatUser.objects.get(name="anna")
    KnowledgeEdit.objects.create(
        owner=owner, kind="edit", noun="fact", before={"1": {"owner_id": 1}}, after={"1": {"owner_id": 2}}, actor="eve"
    )


def give_person_away() -> None:
    owner, thief = ChatUser.objects.get(name="anna"), ChatUser.objects.create(name="thief")
    knowledge.create(owner, KnowledgeEdit.Noun.PERSON, {"display_name": "Dora"}, actor="ada")
    Person.objects.update(owner=thief)


@pytest.mark.parametrize(
    ("broken", "invariant"),
    [
        (retire, "message_in_live_topic"),
        (retire, "topic_comes_and_goes_in_turn"),
        (unlist, "message_listed_by_its_topic"),
        (unlist, "topic_totals"),
        (release, "message_in_one_topic"),
        (empty, "topic_not_empty"),
        (misstate, "topic_totals"),
        (misdate, "topic_totals"),
        (forget_edit, "topic_came_by_an_edit"),
        (drop_passages, "message_in_a_passage"),
        (shorten_passage_vector, "passage_vector_fits"),
        (stretch_passage_vector, "passage_vector_is_unit"),
        (shorten_topic_vector, "topic_vector_fits"),
        (stretch_topic_vector, "topic_vector_is_unit"),
        (skip_number, "events_count_from_one"),
        (lose_end, "one_last_event"),
        (reopen, "one_last_event"),
        (forget_time, "finished_has_its_time"),
        (fall_silent, "unfinished_is_alive"),
        (miscount, "run_totals"),
        (garble, "run_totals"),
        (give_away, "one_owner"),
        (forge_owner, "history_of_fact_values"),
        (give_person_away, "history_of_own_person"),
    ],
)
def test_what_is_broken_is_named(memory: ChatUser, broken: Callable[[], None], invariant: str) -> None:
    with lawless():
        broken()
    found = {violation.invariant for violation in violations()}
    assert invariant in found


def test_every_foreign_key_has_its_owner_and_does_what_the_model_says(db: None) -> None:
    found = """
        SELECT conrelid::regclass::text, confrelid::regclass::text, pg_get_constraintdef(oid) FROM pg_constraint
        WHERE contype = 'f' AND conrelid::regclass::text LIKE 'memoryapp\\_%'"""
    with connection.cursor() as cursor:
        cursor.execute(found)
        made = {(table, parent, law.partition(" DEFERRABLE")[0]) for table, parent, law in cursor.fetchall()}
    wanted = set()
    for model in apps.get_app_config("memoryapp").get_models(include_auto_created=True):
        for field in model._meta.local_fields:
            if isinstance(field, models.ForeignKey):
                wanted.add(law_of(field))
    assert made == wanted


def law_of(field: models.ForeignKey[Any, Any]) -> tuple[str, str, str]:
    """A key's table, its parent's, and its statement, as the database shows them."""
    between_memories = issubclass(field.model, Owned) and issubclass(field.related_model, Owned)
    owner = ", owner_id" if between_memories else ""
    table, parent = field.model._meta.db_table, field.related_model._meta.db_table
    deletes = {models.CASCADE: " ON DELETE CASCADE", models.SET_NULL: f" ON DELETE SET NULL ({field.column})"}
    law = f"FOREIGN KEY ({field.column}{owner}) REFERENCES {parent}({field.target_field.column}{owner})"
    # The chat user goes last, when the erasure has counted and deleted every row.
    does = "" if field.name == "owner" else deletes.get(field.remote_field.on_delete, "")
    return table, parent, law + does


@contextmanager
def at_once() -> Iterator[None]:
    """Has the database check at the end of the block what it else checks when the transaction ends."""
    yield
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED")


def test_no_writer_gives_a_row_to_another_memory(memory: ChatUser, boris: ChatUser) -> None:
    Person.objects.create(owner=memory, display_name="Dora")
    items.refresh(memory)
    for rows in (Person.objects.filter(owner=memory), Message.objects.of(memory), Passage.objects.filter(owner=memory)):
        with pytest.raises(IntegrityError, match="violates foreign key"), transaction.atomic(), at_once():
            rows.update(owner=boris)
    event = RunEvent(owner=boris, run=Run.objects.get(), seq=9, kind="x", at=timezone.now(), payload={})
    with pytest.raises(IntegrityError, match="violates foreign key"), transaction.atomic(), at_once():
        event.save()
    assert list(violations()) == []


def test_a_check_of_one_chat_user_sees_nothing_of_another(memory: ChatUser, boris: ChatUser) -> None:
    with lawless():
        misstate()
        drop_passages()
        miscount()
    assert list(violations(boris)) == []
    assert {violation.invariant for violation in violations(memory)} == {
        "topic_totals",
        "message_in_a_passage",
        "run_totals",
    }


def test_the_command_prints_a_line_a_violation_and_fails(memory: ChatUser, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("check_memory")
    assert capsys.readouterr().out.startswith("Every invariant holds (messages 4, topics 2")
    with lawless():
        misstate()
    with pytest.raises(CommandError, match="1 violation"):
        call_command("check_memory", "--user", memory.name)
    topic = Topic.objects.get(summary="tea")
    assert capsys.readouterr().out.startswith(f"Topic:{topic.pk} topic_totals: it says 2, 1, ")


def test_the_report_is_one_json_document(memory: ChatUser) -> None:
    miscount()
    out = io.StringIO()
    with pytest.raises(CommandError):
        call_command("check_memory", "--json", stdout=out)
    report = json.loads(out.getvalue())
    assert report["checked"]["runs"] == 1
    [violation] = report["violations"]
    assert violation["invariant"] == "run_totals"
    assert uuid.UUID(violation["subject"].removeprefix("Run:"))
    assert violation["sentence"] == "input_tokens is 11, its events say 10"


def drop_first() -> None:
    RunEvent.objects.filter(seq=1).delete()


def drop_all() -> None:
    RunEvent.objects.all().delete()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("broken", "last", "removed"), [(skip_number, 1, 1), (lose_end, 1, 0), (drop_first, 0, 1), (drop_all, 0, 0)]
)
def test_runs_that_lost_events_are_repaired_and_the_command_says_so(
    memory: ChatUser,
    boris: ChatUser,
    capsys: pytest.CaptureFixture[str],
    broken: Callable[[], None],
    last: int,
    removed: int,
) -> None:
    run = Run.objects.get()
    with lawless():
        broken()
    whole = finished_run(boris)
    call_command("check_memory", "--repair")
    repair, verdict = capsys.readouterr().out.splitlines()
    assert repair == (
        f"Run:{run.pk} had lost events: it ends as crashed after event {last}, events removed: {removed}."
    )
    assert verdict.startswith("Every invariant holds")
    run.refresh_from_db()
    assert (run.fallback, run.query, run.finished_at is None) == ("crashed", "tea?", False)
    assert [event.seq for event in run.events.all()] == list(range(1, last + 2))
    assert run.events.get(seq=last + 1).payload["notes"] == [{"code": "events_lost", "values": {}}]
    assert whole.events.count() == 2
    out = io.StringIO()
    call_command("check_memory", "--repair", "--json", stdout=out)
    assert json.loads(out.getvalue())["repaired"] == []


def test_a_run_that_was_cut_off_and_lost_events_is_closed_behind_the_last_whole_one(memory: ChatUser) -> None:
    with lawless():
        skip_number()
        Run.objects.update(state=Run.State.RUNNING, finished_at=None)
    assert close_abandoned(timedelta(0)) == 1
    assert Run.objects.get().fallback == "crashed"
    assert list(violations()) == []


def test_a_name_nobody_has_is_one_sentence(db: None) -> None:
    with pytest.raises(CommandError, match="There is no chat user “nobody”"):
        call_command("check_memory", "--user", "nobody")


@pytest.mark.slow
def test_a_large_memory_is_checked_in_a_fixed_number_of_queries(memory: ChatUser) -> None:
    with connection.execute_wrapper(lambda execute, *rest: seen.append(rest[0]) or execute(*rest)):
        seen: list[str] = []
        list(violations())
        few = len(seen)
        talk(ChatUser.objects.create(name="more"), *[(f"t{n}", ["a", "b"]) for n in range(10)])
        seen.clear()
        list(violations())
    assert len(seen) == few
