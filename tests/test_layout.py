"""What searches keep of a memory: it holds until an edit, and not a moment longer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from asgiref.sync import async_to_sync
from django.db import transaction

from memoryapp import curation, database, layout, retrieval
from memoryapp.engine.memory import TopicDraft
from memoryapp.engine.scoring import TopicPassages
from memoryapp.ingestion import put_topics
from memoryapp.layout import Called, Layout, Layouts, Passages
from memoryapp.models import ChatUser, Message, Topic, TopicEdit
from memoryapp.retrieval import Search
from memoryapp.signals import Question
from tests.conftest import BEGAN, talk
from tests.test_curation import Kind, batch_of, made, messages

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def topics(anna: ChatUser) -> list[Topic]:
    return talk(anna, ("Tea", ["Which tea?", "Green tea."]), ("Cats", ["How many cats?", "Three cats."]))


def search(owner: ChatUser, layouts: Layouts | None = None) -> Search:
    async def run() -> Search:
        async with database.pool() as connections, connections.connection() as connection:
            asked = Question(owner.pk, "tea and cats", None, 0, 32)
            return await retrieval.search(connection, asked, threshold=0.2, layouts=layouts)

    return async_to_sync(run)()


def found(result: Search) -> set[str]:
    return {candidate.summary for candidate in result.candidates} | set(result.below.summary)


def merged(owner: ChatUser, topics: list[Topic]) -> TopicEdit:
    return made(owner, curation.plan_merge(owner, [topic.pk for topic in topics], "All"), Kind.MERGE)


def edit(owner: ChatUser, topics: list[Topic]) -> None:
    made(owner, curation.plan_edit(owner, topics[0].pk, "Green tea"))


def split(owner: ChatUser, topics: list[Topic]) -> None:
    made(owner, curation.plan_split(owner, topics[0].pk, messages(topics[0])[1:]), Kind.SPLIT)


def move(owner: ChatUser, topics: list[Topic]) -> None:
    made(owner, curation.plan_move(owner, messages(topics[0])[1:], topics[1].pk), Kind.MOVE)


def undo(owner: ChatUser, topics: list[Topic]) -> None:
    curation.undo(owner, merged(owner, topics), actor="ada")


def archive(owner: ChatUser, topics: list[Topic]) -> None:
    talk(owner, ("More cats", ["And more cats?", "Never."]))


@pytest.mark.parametrize("change", [merged, edit, split, move, undo, archive])
def test_after_an_edit_the_memory_is_read_anew(
    anna: ChatUser, topics: list[Topic], change: Callable[[ChatUser, list[Topic]], object]
) -> None:
    layouts = Layouts()
    assert search(anna, layouts) == search(anna)
    change(anna, topics)
    assert search(anna, layouts) == search(anna)


def test_withdrawn_messages_are_found_no_more(anna: ChatUser, topics: list[Topic]) -> None:
    batch, layouts = batch_of(anna, 100, 101), Layouts()
    ids = tuple(Message.objects.filter(batch=batch).values_list("pk", flat=True))
    put_topics(anna, [TopicDraft("Imported", ids)], actor="archive")
    assert found(search(anna, layouts)) == {"Tea", "Cats", "Imported"}
    curation.withdraw(anna, batch, actor="ada")
    assert found(search(anna, layouts)) == {"Tea", "Cats"}


def test_a_memory_without_a_new_edit_is_not_read_again(anna: ChatUser, topics: list[Topic]) -> None:
    layouts = Layouts()
    search(anna, layouts)
    kept = layouts.of(anna.pk)
    assert kept is not None
    edit = TopicEdit.objects.latest("pk")
    assert kept.edit == (edit.pk, edit.at)
    search(anna, layouts)
    assert layouts.of(anna.pk) is kept


def test_an_edit_under_way_is_seen_once_it_is_there(anna: ChatUser, topics: list[Topic]) -> None:
    layouts = Layouts()
    with transaction.atomic():
        merged(anna, topics)
        assert found(search(anna, layouts)) == {"Tea", "Cats"}
    assert found(search(anna, layouts)) == {"All"}


def test_an_edit_that_was_given_up_changes_nothing(anna: ChatUser, topics: list[Topic]) -> None:
    layouts = Layouts()
    with transaction.atomic():
        merged(anna, topics)
        transaction.set_rollback(True)
    assert found(search(anna, layouts)) == {"Tea", "Cats"}
    edit(anna, topics)
    assert found(search(anna, layouts)) == {"Green tea", "Cats"}


def test_one_memory_is_never_taken_for_another(anna: ChatUser, boris: ChatUser, topics: list[Topic]) -> None:
    talk(boris, ("Boris's tea", ["My tea."]))
    layouts = Layouts()
    assert found(search(anna, layouts)) == {"Tea", "Cats"}
    assert found(search(boris, layouts)) == {"Boris's tea"}


def test_where_the_numbers_come_again_the_time_tells_edits_apart(anna: ChatUser, topics: list[Topic]) -> None:
    layouts = Layouts()
    search(anna, layouts)
    kept = layouts.of(anna.pk)
    assert kept is not None
    assert kept.edit is not None
    number, at = kept.edit
    layouts.keep(anna.pk, replace(kept, edit=(number, at - timedelta(days=1)), called={}, topics=NOTHING))
    assert found(search(anna, layouts)) == {"Tea", "Cats"}


NOTHING = TopicPassages.of(np.zeros(0, np.int64), np.zeros(0, np.intp))
PASSAGES = Passages(np.arange(10), np.ones(10), np.zeros(10, np.bool_))
# Of ten passages: two columns of eight bytes and one of a single byte.
TEN = 170


def of_ten() -> Layout:
    return Layout((7, BEGAN), PASSAGES, NOTHING)


def kept(layouts: Layouts, *owners: int) -> list[int]:
    return [owner for owner in owners if layouts.of(owner)]


def test_those_not_searched_for_longest_make_room() -> None:
    layouts = Layouts(most=2 * TEN)
    for owner in (1, 2):
        layouts.keep(owner, of_ten())
    layouts.of(1)
    layouts.keep(3, of_ten())
    assert kept(layouts, 1, 2, 3) == [1, 3]
    layouts.keep(3, layout.laid_out(None, (None, None, None), (None, None)))
    layouts.keep(4, of_ten())
    assert kept(layouts, 1, 3, 4) == [1, 3, 4]


def test_a_memory_larger_than_all_the_room_pushes_nobody_out() -> None:
    layouts = Layouts(most=2 * TEN - 1)
    layouts.keep(1, of_ten())
    many = Passages(np.arange(20), np.ones(20), np.zeros(20, np.bool_))
    layouts.keep(2, Layout((7, BEGAN), many, NOTHING))
    assert kept(layouts, 1, 2) == [1]


def test_what_topics_are_called_takes_room_too() -> None:
    layouts = Layouts(most=2 * TEN + 2_200)
    first, second = of_ten(), of_ten()
    layouts.keep(1, first)
    layouts.keep(2, second)
    for _search in range(2):
        layouts.learn(2, second, [Called(1, "х" * 900, "2026-03-02", 2, 30)])
    assert kept(layouts, 1, 2) == [2]
    assert second.called[1].message_count == 2
