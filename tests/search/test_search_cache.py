"""The result of a search is used again for some seconds, and not after a change."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from asgiref.sync import async_to_sync
from django.utils import timezone
from pgvector import HalfVector
from prometheus_client import REGISTRY

from memoryapp import curation
from memoryapp.engine.fusion import Fusion, by_meaning, fuse
from memoryapp.models import ChatUser, Person, Topic
from memoryapp.platform import database
from memoryapp.search import items, retrieval
from memoryapp.search.retrieval import CachedResult, SearchCache, SearchResult, Sizes
from memoryapp.search.similarity import Question
from tests.conftest import talk
from tests.curation.test_curation import made
from tests.erasure.conftest import erase_user

pytestmark = pytest.mark.django_db(transaction=True)

HOUR = 3600.0
ALL = Sizes()


@pytest.fixture
def topics(anna: ChatUser) -> list[Topic]:
    return talk(anna, ("Tea", ["Which tea?", "Green tea."]), ("Cats", ["How many cats?", "Three cats."]))


def search(
    owner: ChatUser,
    cache: SearchCache,
    text: str = "tea and cats",
    vector: HalfVector | None = None,
    sizes: Sizes = ALL,
    fusion: Fusion = fuse,
) -> tuple[SearchResult, float | None]:
    async def run() -> tuple[SearchResult, float | None]:
        async with database.pool() as connections, connections.connection() as connection:
            asked = Question(owner.pk, text, vector, 0, 32)
            return await retrieval.cached_search(connection, asked, cache, sizes=sizes, fusion=fusion)

    return async_to_sync(run)()


def _count(outcome: str) -> float:
    return REGISTRY.get_sample_value("mnemoscope_search_cache_total", {"outcome": outcome}) or 0.0


@pytest.mark.usefixtures("topics")
def test_the_same_search_is_made_once(anna: ChatUser) -> None:
    cache = SearchCache(HOUR)
    counted = [_count("hit"), _count("miss")]
    first, new = search(anna, cache)
    again, seconds_ago = search(anna, cache)
    assert [_count("hit") - counted[0], _count("miss") - counted[1]] == [1, 1]
    assert new is None
    assert seconds_ago is not None
    assert seconds_ago >= 0
    assert again is first


@pytest.mark.usefixtures("topics")
def test_what_is_asked_differently_is_searched(anna: ChatUser) -> None:
    cache = SearchCache(HOUR)
    search(anna, cache)
    assert search(anna, cache, "tea")[1] is None
    assert search(anna, cache, sizes=Sizes(topics=1))[1] is None
    assert search(anna, cache, fusion=by_meaning)[1] is None


@pytest.mark.usefixtures("topics")
def test_without_seconds_nothing_is_kept(anna: ChatUser) -> None:
    cache = SearchCache()
    assert [search(anna, cache)[1] for _twice in range(2)] == [None, None]


def _edited(owner: ChatUser, topics: list[Topic]) -> None:
    made(owner, curation.plan_edit(owner, topics[0].pk, "Green tea"))


def _person_added(owner: ChatUser, topics: list[Topic]) -> None:
    Person.objects.create(owner=owner, display_name="Tea master")
    items.refresh(owner)


def _person_renamed(owner: ChatUser, topics: list[Topic]) -> None:
    Person.objects.filter(owner=owner).update(display_name="Cat", updated_at=timezone.now() + timedelta(seconds=1))
    items.refresh(owner)


def _another_erased(owner: ChatUser, topics: list[Topic]) -> None:
    erase_user(ChatUser.objects.create(name="gone"), "ada")


@pytest.mark.parametrize("change", [_edited, _person_added, _person_renamed, _another_erased])
def test_a_change_of_the_memory_ends_it_at_once(
    anna: ChatUser, topics: list[Topic], change: Callable[[ChatUser, list[Topic]], None]
) -> None:
    Person.objects.create(owner=anna, display_name="Boris")
    items.refresh(anna)
    cache = SearchCache(HOUR)
    search(anna, cache)
    change(anna, topics)
    assert search(anna, cache)[1] is None


@pytest.mark.usefixtures("topics")
def test_what_lacks_vectors_is_searched_again(anna: ChatUser) -> None:
    cache, vector = SearchCache(HOUR), HalfVector([1.0] + [0.0] * 31)
    result, _new = search(anna, cache, vector=vector)
    assert result.without_vector
    assert search(anna, cache, vector=vector)[1] is None


@pytest.mark.usefixtures("topics")
def test_an_erased_memory_leaves_the_cache_at_once(anna: ChatUser) -> None:
    cache, version, key = SearchCache(HOUR), (), "key"
    cache.keep(key, CachedResult(search(anna, cache)[0], version, 0.0))
    assert cache.of(key, version)
    erase_user(anna, "ada")
    assert cache.of(key, version) is None
