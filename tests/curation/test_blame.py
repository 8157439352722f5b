"""Blame: the edit that put each message into a topic, and the one that wrote its summary."""

import re

import pytest
from django.test import Client

from memoryapp.curation import blame, plan_edit, plan_merge, plan_move, plan_split, put_in, swap, undo
from memoryapp.models import ChatUser, Topic, TopicEdit
from tests.support.api_client import Program, token_for
from tests.support.browsing import cost, get, message_ids, topic_of

Kind = TopicEdit.Kind


def deeds(topic: Topic) -> list[tuple[str, str]]:
    """Each message of the topic with the kind of the edit that put it in, and who made it."""
    ids = message_ids(topic)
    found = blame(topic).put_in(ids)
    return [(found[number].edit.kind, found[number].edit.actor) for number in ids if found[number].edit]


@pytest.fixture
def talks(anna: ChatUser) -> tuple[Topic, Topic]:
    return topic_of(anna, "Cake", ["a", "b", "c", "d"]), topic_of(anna, "Tea", ["e", "f"], day=1)


def test_a_merge_puts_in_what_the_smaller_topic_gave(anna: ChatUser, talks: tuple[Topic, Topic]) -> None:
    [party] = put_in(
        swap(anna, plan_merge(anna, [topic.pk for topic in talks]), kind=Kind.MERGE, actor="cora", reason="one party")
    )
    merged = [("archive", "test")] * 4 + [("merge", "cora")] * 2
    assert deeds(party) == merged
    [later] = put_in(swap(anna, plan_edit(anna, party.pk, "A party"), kind="edit", actor="ada"))
    assert deeds(later) == merged, "another summary moves no message"
    versions = blame(later).versions
    assert [(each.summary, each.step.edit.actor) for each in versions if each.step.edit] == [
        ("A party", "ada"),
        (party.summary, "cora"),
        ("Cake", "test"),
    ]
    assert versions[0].before == party.summary


def test_the_larger_part_of_a_split_goes_on_and_the_smaller_begins(anna: ChatUser, talks: tuple[Topic, Topic]) -> None:
    ids = message_ids(talks[0])
    first, second = put_in(swap(anna, plan_split(anna, talks[0].pk, [ids[3]]), kind="split", actor="cora"))
    assert deeds(first) == [("archive", "test")] * 3
    assert deeds(second) == [("split", "cora")]


def test_a_moved_message_is_of_the_move_and_an_undo_leaves_no_trace(anna: ChatUser, talks: tuple[Topic, Topic]) -> None:
    cake, tea = talks
    edit = swap(anna, plan_move(anna, message_ids(tea)[:1], cake.pk), kind="move", actor="cora")
    now = next(topic for topic in put_in(edit) if topic.message_count == 5)
    assert deeds(now) == [("archive", "test")] * 4 + [("move", "cora")]
    undo(anna, edit, actor="ada")
    cake.refresh_from_db()
    assert cake.is_live
    assert deeds(cake) == [("archive", "test")] * 4


def test_the_page_names_edits_with_their_reasons_at_a_fixed_cost(
    anna: ChatUser, talks: tuple[Topic, Topic], as_viewer: Client, as_stranger: Client
) -> None:
    [party] = put_in(
        swap(anna, plan_merge(anna, [topic.pk for topic in talks]), kind=Kind.MERGE, actor="cora", reason="one party")
    )
    page = get(as_viewer, f"/topics/{party.pk}/blame/")
    assert "one party" in page
    merge = TopicEdit.objects.get(kind=Kind.MERGE)
    assert f"/memory/{anna.pk}/history/?q=Topic:{party.pk}#edit-{merge.pk}" in page
    assert len(re.findall('class="blame-group"', page)) == 2
    assert f'href="/topics/{party.pk}/blame/"' in get(as_viewer, f"/topics/{party.pk}/")
    before = cost(as_viewer, f"/topics/{party.pk}/blame/")
    for number in range(4):
        [party] = put_in(swap(anna, plan_edit(anna, party.pk, f"Party {number}"), kind="edit", actor="cora"))
    assert cost(as_viewer, f"/topics/{party.pk}/blame/") == before
    assert as_stranger.get(f"/topics/{party.pk}/blame/").status_code == 404


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("thread_closed")
def test_programs_read_the_same(anna: ChatUser, talks: tuple[Topic, Topic]) -> None:
    cake, tea = talks
    [party] = put_in(swap(anna, plan_merge(anna, [cake.pk, tea.pk]), kind=Kind.MERGE, actor="cora", reason="one party"))
    answer = Program(token_for(anna, scopes=("read",))).get(f"/v1/topics/{party.pk}/blame").json()
    assert [message["edit"]["kind"] for message in answer["messages"]] == ["archive"] * 4 + ["merge"] * 2
    assert answer["messages"][-1]["edit"]["reason"] == "one party"
    assert [each["summary"] for each in answer["summaries"]] == [party.summary, "Cake"]
