"""Undo of any edit, also later and in any allowed order, and where old topics lead."""

from datetime import timedelta

import pytest
from asgiref.sync import async_to_sync
from django.utils import timezone

from memoryapp import curation
from memoryapp.curation import CurationError, Depends, Stale
from memoryapp.intake.invariants import violations
from memoryapp.intake.messages import add_messages
from memoryapp.memory import content
from memoryapp.models import ChatUser, ImportBatch, Message, Topic, TopicEdit
from memoryapp.platform.database import pool
from tests.conftest import record, talk
from tests.curation.test_curation import Kind, batch_of, made, messages, partition


@pytest.fixture
def topics(anna: ChatUser) -> list[Topic]:
    return talk(anna, ("Tea", ["Which?", "Green."]), ("Cats", ["How many?", "Three."]), ("Rain", ["Today?", "Yes."]))


def edited(owner: ChatUser, topic: Topic, summary: str, actor: str = "ada") -> tuple[TopicEdit, Topic]:
    change = curation.plan_edit(owner, topic.pk, summary)
    edit = curation.swap(owner, change, kind="edit", actor=actor)
    return edit, curation.put_in(edit)[0]


class TestUndo:
    def test_the_very_topics_come_back(self, anna: ChatUser, topics: list[Topic]) -> None:
        before = list(Topic.objects.live().order_by("pk").values())
        edit = made(anna, curation.plan_merge(anna, [topic.pk for topic in topics]), Kind.MERGE)
        back = curation.undo(anna, edit, actor="bob", reason="no")
        assert list(Topic.objects.live().order_by("pk").values()) == before
        assert (back.kind, back.undoes, back.actor, back.reason) == ("undo", edit, "bob", "no")
        assert list(violations()) == []

    def test_an_undone_undo_does_it_again(self, anna: ChatUser, topics: list[Topic]) -> None:
        edit, new = edited(anna, topics[0], "Green tea")
        for _round in range(2):
            back = curation.undo(anna, edit, actor="ada")
            assert set(partition(anna)) == {"Tea", "Cats", "Rain"}
            with pytest.raises(CurationError, match="undone already"):
                curation.undo(anna, edit, actor="ada")
            curation.undo(anna, back, actor="ada")
            assert set(Topic.objects.live()) == {new, *topics[1:]}
        assert list(violations()) == []

    def test_what_it_would_do_can_be_read_first(self, anna: ChatUser, topics: list[Topic]) -> None:
        edit = made(anna, curation.plan_merge(anna, [topics[2].pk, topics[0].pk]), Kind.MERGE)
        [new] = curation.put_in(edit)
        for latest in (edit, curation.undo(anna, curation.undo(anna, edit, actor="ada"), actor="ada")):
            plan = curation.plan_undo(anna, latest)
            assert plan.out == (new.pk,)
            assert [(draft.summary, list(draft.messages)) for draft in plan.put] == [
                (topic.summary, messages(topic)) for topic in (topics[0], topics[2])
            ]
        _worded, tea = edited(anna, new, "Tea in the rain")
        with pytest.raises(Depends):
            curation.plan_undo(anna, edit)
        assert set(Topic.objects.live()) == {tea, topics[1]}

    def test_edits_of_other_topics_do_not_matter(self, anna: ChatUser, topics: list[Topic]) -> None:
        first, _new = edited(anna, topics[0], "Green tea")
        edited(anna, topics[1], "Three cats")
        assert curation.dependents(first) == []
        curation.undo(anna, first, actor="ada")
        assert set(partition(anna)) == {"Tea", "Three cats", "Rain"}

    def test_what_stands_on_an_edit_is_undone_first(self, anna: ChatUser, topics: list[Topic]) -> None:
        first, tea = edited(anna, topics[0], "Green tea")
        second = made(anna, curation.plan_merge(anna, [tea.pk, topics[1].pk]), Kind.MERGE)
        [both] = curation.put_in(second)
        third = made(anna, curation.plan_split(anna, both.pk, [messages(both)[3]]), "split")
        before = partition(anna)
        with pytest.raises(Depends, match=r"split \(ada\), merged \(ada\)") as refused:
            curation.undo(anna, first, actor="ada")
        assert refused.value.edits == (third, second)
        assert curation.dependents(first) == [third, second]
        assert partition(anna) == before
        undone = curation.undo_with_dependents(anna, first, actor="ada")
        assert [edit.undoes for edit in undone] == [third, second, first]
        assert set(partition(anna)) == {"Tea", "Cats", "Rain"}
        assert list(violations()) == []

    def test_a_topic_that_went_again_after_an_undo_names_what_took_it(
        self, anna: ChatUser, topics: list[Topic]
    ) -> None:
        first, tea = edited(anna, topics[0], "Green tea")
        second, _new = edited(anna, tea, "Sencha")
        redo = curation.undo(anna, curation.undo(anna, second, actor="ada"), actor="bob")
        with pytest.raises(Depends) as refused:
            curation.undo(anna, first, actor="ada")
        assert refused.value.edits == (redo,)

    def test_archiving_is_not_undone(self, anna: ChatUser, topics: list[Topic]) -> None:
        with pytest.raises(CurationError, match="Archiving is not undone"):
            curation.undo(anna, TopicEdit.objects.filter(kind=Kind.ARCHIVE)[0], actor="ada")

    def test_another_memorys_edit_is_not_there(self, anna: ChatUser, boris: ChatUser, topics: list[Topic]) -> None:
        edit, _new = edited(anna, topics[0], "Green tea")
        with pytest.raises(CurationError, match="no such edit"):
            curation.undo(boris, edit, actor="ada")

    def test_whether_edits_are_in_effect_is_found_for_many_at_once(self, anna: ChatUser, topics: list[Topic]) -> None:
        first, _new = edited(anna, topics[0], "Green tea")
        second, _new = edited(anna, topics[1], "Three cats")
        back = curation.undo(anna, first, actor="ada")
        found = curation.in_effect(anna.pk, [first.pk, second.pk, back.pk])
        assert found == {first.pk: False, second.pk: True, back.pk: True}


class TestUndoBetween:
    def test_one_persons_hour_is_taken_back_and_nobody_elses(self, anna: ChatUser, topics: list[Topic]) -> None:
        start = timezone.now()
        _edit, tea = edited(anna, topics[0], "Green tea", "ada")
        edited(anna, tea, "Sencha", "ada")
        edited(anna, topics[1], "Three cats", "bob")
        edit, _new = edited(anna, topics[2], "Much rain", "ada")
        curation.undo(anna, edit, actor="ada")
        undone = curation.undo_between(anna, "ada", start, timezone.now(), actor="root")
        assert [edit.actor for edit in undone] == ["root", "root"]
        assert set(partition(anna)) == {"Tea", "Three cats", "Rain"}
        with pytest.raises(CurationError, match="no change in that time"):
            curation.undo_between(anna, "ada", start, timezone.now(), actor="root")

    def test_an_undo_of_theirs_is_taken_back_too(self, anna: ChatUser, topics: list[Topic]) -> None:
        edit, _new = edited(anna, topics[0], "Green tea", "bob")
        start = timezone.now()
        curation.undo(anna, edit, actor="ada")
        curation.undo_between(anna, "ada", start, timezone.now(), actor="root")
        assert "Green tea" in partition(anna)

    def test_all_or_nothing_when_somebody_built_on_it(self, anna: ChatUser, topics: list[Topic]) -> None:
        start = timezone.now()
        _edit, tea = edited(anna, topics[0], "Green tea", "ada")
        edited(anna, topics[1], "Three cats", "ada")
        theirs, _new = edited(anna, tea, "Sencha", "bob")
        before = partition(anna)
        with pytest.raises(Depends) as refused:
            curation.undo_between(anna, "ada", start, timezone.now(), actor="root")
        assert refused.value.edits == (theirs,)
        assert partition(anna) == before

    def test_what_is_outside_the_time_stays(self, anna: ChatUser, topics: list[Topic]) -> None:
        edited(anna, topics[0], "Green tea", "ada")
        now = timezone.now()
        with pytest.raises(CurationError):
            curation.undo_between(anna, "ada", now, now + timedelta(hours=1), actor="root")


class TestLineage:
    def test_old_numbers_lead_to_the_live_topics_most_messages_first(self, anna: ChatUser, topics: list[Topic]) -> None:
        tea, cats, rain = topics
        [both] = curation.put_in(made(anna, curation.plan_merge(anna, [tea.pk, cats.pk]), Kind.MERGE))
        change = curation.plan_move(anna, [messages(both)[0]], rain.pk)
        rest, wet = curation.put_in(made(anna, change, "move"))
        assert curation.successors(anna.pk, [tea.pk, cats.pk, both.pk, rain.pk, rest.pk, 10**9]) == {
            tea.pk: (rest.pk, wet.pk),
            cats.pk: (rest.pk,),
            both.pk: (rest.pk, wet.pk),
            rain.pk: (wet.pk,),
            rest.pk: (rest.pk,),
        }

    def test_a_page_shows_the_topic_with_most_of_the_messages_first(self, anna: ChatUser, topics: list[Topic]) -> None:
        [both] = curation.put_in(made(anna, curation.plan_merge(anna, [topics[0].pk, topics[1].pk]), Kind.MERGE))
        split = curation.plan_split(anna, both.pk, [messages(both)[1]])
        small, large = curation.put_in(made(anna, split, "split"))
        assert small.pk < large.pk
        assert curation.successor_topics(both) == [large, small]

    def test_a_topic_brought_back_is_its_own_successor(self, anna: ChatUser, topics: list[Topic]) -> None:
        edit, new = edited(anna, topics[0], "Green tea")
        curation.undo(anna, edit, actor="ada")
        assert curation.successors(anna.pk, [topics[0].pk, new.pk]) == {
            topics[0].pk: (topics[0].pk,),
            new.pk: (topics[0].pk,),
        }

    def test_withdrawn_messages_lead_nowhere_and_other_memories_are_closed(
        self, anna: ChatUser, boris: ChatUser, topics: list[Topic]
    ) -> None:
        batch = ImportBatch.objects.create(owner=anna, source="x", format="jsonl")
        Message.objects.filter(topic=topics[0]).update(batch=batch)
        curation.withdraw(anna, batch, actor="ada")
        assert curation.successors(anna.pk, [topics[0].pk]) == {topics[0].pk: ()}
        assert curation.successors(boris.pk, [topics[0].pk]) == {}

    def test_a_topic_knows_its_parents_and_children(self, anna: ChatUser, topics: list[Topic]) -> None:
        merge = made(anna, curation.plan_merge(anna, [topics[0].pk, topics[1].pk]), Kind.MERGE)
        [both] = curation.put_in(merge)
        split = made(anna, curation.plan_split(anna, both.pk, [messages(both)[2]]), "split")
        both.refresh_from_db()
        line = curation.lineage(both)
        assert line.edits == (split, merge)
        assert line.parents == tuple(topics[:2])
        assert line.children == tuple(curation.put_in(split))

    def test_a_live_topic_that_came_back_has_no_children(self, anna: ChatUser, topics: list[Topic]) -> None:
        edit, _new = edited(anna, topics[0], "Green tea")
        back = curation.undo(anna, edit, actor="ada")
        topics[0].refresh_from_db()
        line = curation.lineage(topics[0])
        assert line.edits[:2] == (back, edit)
        assert line.children == ()
        assert line.parents == ()


@pytest.mark.django_db(transaction=True)
def test_a_retired_topic_is_read_as_the_model_saw_it() -> None:
    anna = ChatUser.objects.create(name="anna")
    tea, cats = talk(anna, ("Tea", ["Which?", "Green."]), ("Cats", ["How many?"]))
    made(anna, curation.plan_merge(anna, [tea.pk, cats.pk], "Both"), Kind.MERGE)

    async def read() -> list[tuple[str, list[str]]]:
        async with pool() as connections, connections.connection() as connection:
            found = await content.read_topics(connection, anna.pk, [tea.pk, cats.pk])
        return [(topic.summary, [message.text for message in topic.messages]) for topic in found]

    assert async_to_sync(read)() == [("Tea", ["Which?", "Green."]), ("Cats", ["How many?"])]


def test_new_messages_and_edits_do_not_meet(anna: ChatUser) -> None:
    batch = batch_of(anna, 1, 2)
    edit = curation.withdraw(anna, batch, actor="ada")
    add_messages(anna, [record(3, "later")], batch=batch)
    assert Message.objects.active().count() == 1
    curation.undo(anna, edit, actor="ada")
    assert Message.objects.active().count() == 3


def test_a_stale_sentence_says_when_nothing_is_left(anna: ChatUser) -> None:
    batch = batch_of(anna, 1)
    [topic] = talk(anna, ("x", ["y"]))
    Message.objects.filter(topic=topic).update(batch=batch)
    curation.withdraw(anna, batch, actor="ada")
    with pytest.raises(Stale) as refused:
        curation.plan_edit(anna, topic.pk, "z")
    assert refused.value.successors == {topic.pk: ()}
