"""The index cache of a memory is used until an edit, and not afterwards."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from asgiref.sync import async_to_sync
from django.db import transaction

from memoryapp import curation
from memoryapp.engine.fusion import TopicPassages
from memoryapp.engine.memory import TopicDraft
from memoryapp.intake.archiving import put_topics
from memoryapp.memory.sessions import ActiveTalk
from memoryapp.models import ChatUser, Message, Topic, TopicEdit
from memoryapp.platform import database
from memoryapp.search import memory_index, retrieval
from memoryapp.search.memory_index import Archive, IndexCache, MemoryIndex, Messages, Passages, TopicFacts, build_index
from memoryapp.search.retrieval import SearchResult
from memoryapp.search.scores import PassageOrigins
from memoryapp.search.similarity import Question
from tests.conftest import BEGAN, talk
from tests.curation.test_curation import Kind, batch_of, made, messages
from tests.erasure.conftest import erase_user

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def topics(anna: ChatUser) -> list[Topic]:
    return talk(anna, ("Tea", ["Which tea?", "Green tea."]), ("Cats", ["How many cats?", "Three cats."]))


def search(owner: ChatUser, cache: IndexCache | None = None) -> SearchResult:
    async def run() -> SearchResult:
        async with database.pool() as connections, connections.connection() as connection:
            asked = Question(owner.pk, "tea and cats", None, 0, 32)
            return await retrieval.search(connection, asked, threshold=0.2, cache=cache)

    return async_to_sync(run)()


def found(result: SearchResult) -> set[str]:
    return {candidate.summary for candidate in result.candidates}


def merged(owner: ChatUser, topics: list[Topic]) -> TopicEdit:
    return made(owner, curation.plan_merge(owner, [topic.pk for topic in topics], "All"), Kind.MERGE)


def edit(owner: ChatUser, topics: list[Topic]) -> None:
    made(owner, curation.plan_edit(owner, topics[0].pk, "Green tea"))


def split(owner: ChatUser, topics: list[Topic]) -> None:
    made(owner, curation.plan_split(owner, topics[0].pk, messages(topics[0])[1:]), "split")


def move(owner: ChatUser, topics: list[Topic]) -> None:
    made(owner, curation.plan_move(owner, messages(topics[0])[1:], topics[1].pk), "move")


def undo(owner: ChatUser, topics: list[Topic]) -> None:
    curation.undo(owner, merged(owner, topics), actor="ada")


def archive(owner: ChatUser, topics: list[Topic]) -> None:
    talk(owner, ("More cats", ["And more cats?", "Never."]))


@pytest.mark.parametrize("change", [merged, edit, split, move, undo, archive])
def test_after_an_edit_the_memory_is_read_anew(
    anna: ChatUser, topics: list[Topic], change: Callable[[ChatUser, list[Topic]], object]
) -> None:
    cache = IndexCache()
    assert search(anna, cache) == search(anna)
    change(anna, topics)
    assert search(anna, cache) == search(anna)


def test_withdrawn_messages_are_found_no_more(anna: ChatUser, topics: list[Topic]) -> None:
    batch, cache = batch_of(anna, 100, 101), IndexCache()
    ids = tuple(Message.objects.filter(batch=batch).in_order().values_list("pk", flat=True))
    put_topics(anna, [TopicDraft("Imported", ids)], actor="archive")
    assert found(search(anna, cache)) == {"Tea", "Cats", "Imported"}
    curation.withdraw(anna, batch, actor="ada")
    assert found(search(anna, cache)) == {"Tea", "Cats"}


def test_a_memory_without_a_new_edit_is_not_read_again(anna: ChatUser, topics: list[Topic]) -> None:
    cache = IndexCache()
    search(anna, cache)
    kept = cache.of(anna.pk)
    assert kept is not None
    edit = TopicEdit.objects.latest("pk")
    assert kept.version[:2] == (edit.pk, edit.at)
    search(anna, cache)
    assert cache.of(anna.pk) is kept


def test_an_edit_under_way_is_seen_once_it_is_there(anna: ChatUser, topics: list[Topic]) -> None:
    cache = IndexCache()
    with transaction.atomic():
        merged(anna, topics)
        assert found(search(anna, cache)) == {"Tea", "Cats"}
    assert found(search(anna, cache)) == {"All"}


def test_an_edit_that_was_given_up_changes_nothing(anna: ChatUser, topics: list[Topic]) -> None:
    cache = IndexCache()
    with transaction.atomic():
        merged(anna, topics)
        transaction.set_rollback(True)
    assert found(search(anna, cache)) == {"Tea", "Cats"}
    edit(anna, topics)
    assert found(search(anna, cache)) == {"Green tea", "Cats"}


def test_one_memory_is_never_taken_for_another(anna: ChatUser, boris: ChatUser, topics: list[Topic]) -> None:
    talk(boris, ("Boris's tea", ["My tea."]))
    cache = IndexCache()
    assert found(search(anna, cache)) == {"Tea", "Cats"}
    assert found(search(boris, cache)) == {"Boris's tea"}


def test_where_the_numbers_come_again_the_time_tells_edits_apart(anna: ChatUser, topics: list[Topic]) -> None:
    cache = IndexCache()
    search(anna, cache)
    kept = cache.of(anna.pk)
    assert kept is not None
    number, at, talk = kept.version
    assert at is not None
    cache.keep(anna.pk, replace(kept, version=(number, at - timedelta(days=1), talk), facts={}, topics=NOTHING))
    assert found(search(anna, cache)) == {"Tea", "Cats"}


def test_an_erased_memory_leaves_the_cache_of_the_process_that_erases_at_once(
    anna: ChatUser, boris: ChatUser, topics: list[Topic]
) -> None:
    cache = IndexCache()
    for owner in (anna, boris):
        search(owner, cache)
    number = anna.pk
    erase_user(anna, "ada")
    assert kept(cache, number, boris.pk) == [boris.pk]


def test_an_erased_memory_leaves_the_cache_of_another_process_with_its_next_search(
    anna: ChatUser, boris: ChatUser, topics: list[Topic], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_index, "_caches", set())
    cache = IndexCache()
    memory_index._caches.clear()
    number = anna.pk
    for owner in (anna, boris):
        search(owner, cache)
    erase_user(anna, "ada")
    assert kept(cache, number, boris.pk) == [number, boris.pk]
    for _search in range(2):
        search(boris, cache)
    assert kept(cache, number, boris.pk) == [boris.pk]
    known = cache.of(boris.pk)
    search(boris, cache)
    assert cache.of(boris.pk) is known


NOTHING = TopicPassages.of(np.zeros(0, np.int64), np.zeros(0, np.intp))
PASSAGES = Passages(np.arange(10), np.ones(10), np.zeros(10, np.bool_))
SILENT = PassageOrigins(np.zeros(10), np.zeros(10, np.bool_))
NO_MESSAGES = Messages(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0), np.zeros(0, np.bool_))
ARCHIVE = Archive(PASSAGES, NO_MESSAGES, (np.zeros(0, np.int64), np.zeros(0, np.int64)), ())
# For ten passages: three columns of eight bytes and two of a single byte, and the first three again in the archive.
TEN = 430


NONE = np.zeros(0, np.int64)
EMPTY = Archive(Passages.of(None, None, None), Messages.of((None, None, None, None)), (NONE, NONE), ())


def of_ten() -> MemoryIndex:
    return MemoryIndex((7, BEGAN, 0), ARCHIVE, ActiveTalk(), PASSAGES, NOTHING, SILENT)


def kept(cache: IndexCache, *owners: int) -> list[int]:
    return [owner for owner in owners if cache.of(owner)]


def test_those_not_searched_for_longest_make_room() -> None:
    cache = IndexCache(most=2 * TEN)
    for owner in (1, 2):
        cache.keep(owner, of_ten())
    cache.of(1)
    cache.keep(3, of_ten())
    assert kept(cache, 1, 2, 3) == [1, 3]
    cache.keep(3, build_index((7, BEGAN, 0), EMPTY, ActiveTalk(), ()))
    cache.keep(4, of_ten())
    assert kept(cache, 1, 3, 4) == [1, 3, 4]


def test_a_memory_larger_than_all_the_room_pushes_nobody_out() -> None:
    cache = IndexCache(most=2 * TEN - 1)
    cache.keep(1, of_ten())
    many = Passages(np.arange(40), np.ones(40), np.zeros(40, np.bool_))
    cache.keep(2, MemoryIndex((7, BEGAN, 0), ARCHIVE, ActiveTalk(), many, NOTHING, SILENT))
    assert kept(cache, 1, 2) == [1]


def test_what_topics_are_called_takes_room_too() -> None:
    cache = IndexCache(most=2 * TEN + 2_200)
    first, second = of_ten(), of_ten()
    cache.keep(1, first)
    cache.keep(2, second)
    for _search in range(2):
        cache.learn(2, second, [TopicFacts(1, "х" * 900, "2026-03-02", 2, 30)], {})
    assert kept(cache, 1, 2) == [2]
    assert second.facts[1].message_count == 2
