"""What the database itself refuses, whoever writes: raw SQL, a shell, an admin page without a check."""

import os
import re
import subprocess
import threading
import time
from collections.abc import Callable

import pytest
from django.db import IntegrityError, connection, connections, transaction

from memoryapp import curation
from memoryapp.curation import CurationError, Stale
from memoryapp.engine.memory import TopicDraft
from memoryapp.intake.archiving import AlreadyArchived, put_topics
from memoryapp.intake.invariants import violations
from memoryapp.intake.messages import add_messages
from memoryapp.models import ChatUser, EditedTopic, ImportBatch, Message, Topic, TopicEdit, TopicMessage
from tests.conftest import record, talk
from tests.curation.test_curation import Kind, made, messages, partition


def tea() -> Topic:
    return Topic.objects.get(summary="Tea")


def retire() -> None:
    Topic.objects.filter(summary="Tea").update(is_live=False)


def empty() -> None:
    TopicMessage.objects.filter(topic__summary="Tea").delete()


def steal() -> None:
    Message.objects.filter(topic__summary="Tea").update(topic=Topic.objects.get(summary="Cats"))


def release() -> None:
    Message.objects.filter(topic__summary="Tea").update(topic=None)


def hide() -> None:
    Message.objects.filter(topic__summary="Tea").update(is_withdrawn=True)


def rewrite() -> None:
    Topic.objects.filter(summary="Tea").update(summary="Coffee")


def recount() -> None:
    Topic.objects.filter(summary="Tea").update(message_count=7)


def list_more() -> None:
    TopicMessage.objects.create(owner=tea().owner, topic=tea(), message=Message.objects.filter(text="How many?")[0])


def put_empty() -> None:
    live = tea()
    live.pk = None
    live.save(force_insert=True)


def point_at_nothing_listed() -> None:
    message = Message.objects.filter(text="How many?")[0]
    message.pk, message.external_id, message.topic = None, "new", tea()
    message.save(force_insert=True)


def lose_topic() -> None:
    with connection.cursor() as cursor:
        cursor.execute("UPDATE memoryapp_message SET topic_id = NULL")
        cursor.execute("DELETE FROM memoryapp_topic")


def forget_edit() -> None:
    TopicEdit.objects.all().delete()


def forget_side() -> None:
    EditedTopic.objects.all().delete()


def backdate() -> None:
    TopicEdit.objects.update(actor="somebody else")


def change_side() -> None:
    EditedTopic.objects.update(side="out")


def relist() -> None:
    TopicMessage.objects.filter(topic__summary="Tea").update(topic=Topic.objects.get(summary="Cats"))


REFUSED: list[tuple[Callable[[], None], str]] = [
    (retire, "is retired, but 2 messages still point at it"),
    (empty, "History stays"),
    (steal, "cannot point at Topic:"),
    (release, "is held by a live topic and cannot leave it alone"),
    (hide, "message_withdrawn_from_topics"),
    (rewrite, "never changes in what it says"),
    (recount, "never changes in what it says"),
    (list_more, "has all its messages already"),
    (put_empty, "is live and holds no message"),
    (point_at_nothing_listed, "points at Topic:.*, which does not hold it"),
    (lose_topic, "cannot leave it alone"),
    (forget_edit, "History stays"),
    (forget_side, "History stays"),
    (backdate, "row .* of topicedit cannot change"),
    (change_side, "row .* of editedtopic cannot change"),
    (relist, "row .* of topicmessage cannot change"),
]


@transaction.atomic
def committed(write: Callable[[], None]) -> None:
    write()
    connection.check_constraints()


@pytest.mark.parametrize(("write", "sentence"), REFUSED, ids=[write.__name__ for write, _sentence in REFUSED])
def test_a_raw_write_that_breaks_a_law_is_refused(anna: ChatUser, write: Callable[[], None], sentence: str) -> None:
    talk(anna, ("Tea", ["Which?", "Green."]), ("Cats", ["How many?", "Three."]))
    connection.check_constraints()
    with pytest.raises(IntegrityError, match=sentence):
        committed(write)
    assert list(violations()) == []


def test_what_is_no_content_may_be_noted_on_a_topic(anna: ChatUser) -> None:
    talk(anna, ("Tea", ["Which?"]))
    Topic.objects.update(facts_extracted=True, is_consolidated=True, consolidation_checked=True)
    connection.check_constraints()


@pytest.mark.django_db(transaction=True)
def test_a_chat_user_with_all_history_can_be_erased() -> None:
    anna = ChatUser.objects.create(name="anna")
    batch = ImportBatch.objects.create(owner=anna, source="x", format="jsonl")
    one, two = talk(anna, ("Tea", ["Which?", "Green."]), ("Cats", ["How many?"]))
    curation.undo(anna, made(anna, curation.plan_merge(anna, [one.pk, two.pk]), Kind.MERGE), actor="ada")
    add_messages(anna, [record(50, "x")], batch=batch)
    curation.withdraw(anna, batch, actor="ada")
    anna.delete()
    assert not Topic.objects.exists()
    assert not TopicEdit.objects.exists()
    assert not Message.objects.exists()


@pytest.mark.django_db(transaction=True)
class TestAtOnce:
    """Two people, or a person and the archive, on separate connections."""

    @pytest.fixture
    def anna(self) -> ChatUser:
        return ChatUser.objects.create(name="anna")

    @staticmethod
    def together(*works: Callable[[], object]) -> list[object]:
        """Returns what each piece of work returned or raised; all begin at the same moment."""
        results: list[object] = [None] * len(works)
        barrier = threading.Barrier(len(works))

        def work(place: int) -> None:
            barrier.wait()
            try:
                results[place] = works[place]()
            except CurationError as error:
                results[place] = error
            except AlreadyArchived as error:
                results[place] = error
            finally:
                connections.close_all()

        threads = [threading.Thread(target=work, args=(place,)) for place in range(len(works))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return results

    def test_of_two_who_change_the_same_topic_one_wins_and_the_other_is_informed(self, anna: ChatUser) -> None:
        for round_ in range(10):
            [topic] = talk(anna, (f"Tea {round_}", ["Which?", "Green.", "Why?"]))
            [other] = talk(anna, (f"Cats {round_}", ["How many?"]))
            edit = curation.plan_edit(anna, topic.pk, f"Green {round_}")
            merge = curation.plan_merge(anna, [other.pk, topic.pk])
            results = self.together(
                lambda edit=edit: made(anna, edit), lambda merge=merge: made(anna, merge, Kind.MERGE)
            )
            won = [result for result in results if isinstance(result, TopicEdit)]
            lost = [result for result in results if isinstance(result, Stale)]
            assert (len(won), len(lost)) == (1, 1), results
            assert topic.pk in lost[0].successors
        assert list(violations()) == []

    def test_an_undo_pressed_twice_is_made_once(self, anna: ChatUser) -> None:
        [topic] = talk(anna, ("Tea", ["Which?"]))
        edit = made(anna, curation.plan_edit(anna, topic.pk, "Green"))
        results = self.together(*[lambda: curation.undo(anna, edit, actor="ada")] * 3)
        assert sorted(type(result).__name__ for result in results) == ["CurationError", "CurationError", "TopicEdit"]
        assert set(partition(anna)) == {"Tea"}

    def test_edits_and_the_archive_do_not_wait_for_each_other_for_ever(self, anna: ChatUser) -> None:
        topics = talk(anna, *((f"Talk {number}", ["a", "b"]) for number in range(6)))
        add_messages(anna, [record(number, f"new {number}") for number in range(100, 130)])
        active = list(Message.objects.active().order_by("-pk").values_list("pk", flat=True))
        ids = [topic.pk for topic in topics]

        def archive() -> list[Topic]:
            return [put_topics(anna, [TopicDraft("n", (pk,))], actor="archive")[0] for pk in active]

        def curate() -> list[TopicEdit]:
            first = made(anna, curation.plan_merge(anna, ids[::-1]), Kind.MERGE)
            return [first, curation.undo(anna, first, actor="ada")]

        results = self.together(archive, archive, curate, curate)
        assert {type(result) for result in results[:2]} == {list, AlreadyArchived}
        assert any(isinstance(result, list) for result in results[2:])
        assert list(violations()) == []

    def test_two_people_never_archive_the_same_message(self, anna: ChatUser) -> None:
        add_messages(anna, [record(1, "x")])
        pk = Message.objects.get().pk
        results = self.together(*[lambda: put_topics(anna, [TopicDraft("n", (pk,))], actor="archive")] * 2)
        assert sorted(type(result).__name__ for result in results) == ["AlreadyArchived", "list"]

    def test_a_process_killed_in_the_middle_leaves_nothing_behind(self, anna: ChatUser) -> None:
        one, two = talk(anna, ("Tea", ["Which?", "Green."]), ("Cats", ["How many?"]))
        before = partition(anna)
        change = curation.plan_merge(anna, [one.pk, two.pk])
        connections.close_all()
        child = os.fork()
        if child == 0:
            with transaction.atomic():
                made(anna, change, Kind.MERGE)
                os._exit(9)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
        assert partition(anna) == before
        assert not TopicEdit.objects.filter(kind=Kind.MERGE).exists()
        made(anna, change, Kind.MERGE)
        assert messages(Topic.objects.live().get())

    def processor_seconds(self) -> float:
        """Returns the processor time of this process and of its database server, whose hours and minutes `ps` separates
        by colons."""
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            [pid] = cursor.fetchone()
        taken = subprocess.run(["ps", "-o", "time=", "-p", str(pid)], capture_output=True, text=True, check=True).stdout
        units = zip(reversed(re.split("[-:]", taken.strip())), (1, 60, 3600, 86400), strict=False)
        return time.process_time() + sum(float(count) * seconds for count, seconds in units)

    def test_three_large_topics_merge_at_once(self, anna: ChatUser) -> None:
        add_messages(anna, (record(number, "a line of talk " * 5) for number in range(6_000)))
        ids = list(Message.objects.of(anna).in_order().values_list("pk", flat=True))
        parts = [TopicDraft(f"part {at}", tuple(ids[at : at + 2_000])) for at in range(0, 6_000, 2_000)]
        topics = put_topics(anna, parts, actor="archive")
        began = self.processor_seconds()
        edit = made(anna, curation.plan_merge(anna, [topic.pk for topic in topics]), Kind.MERGE)
        merged = self.processor_seconds()
        curation.undo(anna, edit, actor="ada")
        assert merged - began < 5
        assert self.processor_seconds() - merged < 5
        assert Topic.objects.live().count() == 3
