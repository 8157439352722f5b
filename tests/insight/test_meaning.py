"""Lists searched by meaning find what a recall finds, in its order, and say when vectors are missing or late."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from asgiref.sync import async_to_sync
from django.test import Client

from memoryapp.engine.embeddings import EmbeddingError, Profile, Vectors
from memoryapp.models import ChatUser, Fact, Message, Person, Topic
from memoryapp.platform.llm import clients
from memoryapp.search import neighbours
from memoryapp.search.items import refresh
from memoryapp.search.vectors import embed_pending
from tests.conftest import fact_of, talk
from tests.rerankui.test_facets import facet
from tests.support.browsing import get, rows
from tests.support.executing import TOPICS

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]
WORDS = "sport injury of the leg"


@pytest.fixture
def memory(anna: ChatUser) -> list[Topic]:
    """The topics, whose summaries share no word with ``WORDS``; vectors are made by the embedded model."""
    made = talk(anna, *TOPICS)
    Person.objects.create(owner=anna, display_name="Dr. Weber", bio="Treats knees after running injuries")
    Person.objects.create(owner=anna, display_name="Masha", bio="Turns ten in May")
    for topic, content in zip(made, ("Has an H100", "Bakes honey cakes", "Had a torn meniscus"), strict=True):
        fact_of(anna, content, topic, relation="r", category="c")
    refresh(anna)
    async_to_sync(embed_pending)(clients.offline_embedder())
    return made


def address(owner: ChatUser, noun: str, words: str = WORDS, more: str = "") -> str:
    return f"/memory/{owner.pk}/{noun}/?q={words.replace(' ', '+')}&by=meaning{more}"


def test_each_list_begins_with_what_is_nearest_and_shows_the_scores(
    anna: ChatUser, memory: list[Topic], as_viewer: Client
) -> None:
    assert "No topic matches" in get(as_viewer, f"/memory/{anna.pk}/topics/?q={WORDS}")
    knee = memory[2]
    page = get(as_viewer, address(anna, "topics"))
    assert rows(page, "topic")[0] == knee.pk
    assert "score of the recall’s search" in page
    assert "as a recall would find them, with its scores" in page
    message = Message.objects.get(text__startswith="My meniscus")
    assert rows(get(as_viewer, address(anna, "messages")), "message")[0] == message.pk
    assert rows(get(as_viewer, address(anna, "people")), "person")[0] == Person.objects.get(display_name="Dr. Weber").pk
    facts = get(as_viewer, address(anna, "facts"))
    assert rows(facts, "fact")[0] == Fact.objects.get(topic=knee).pk
    assert "Facts have no vectors of their own" in facts


def test_facets_and_files_go_by_what_was_found(anna: ChatUser, memory: list[Topic], as_viewer: Client) -> None:
    found = get(as_viewer, address(anna, "topics"))
    sizes = facet(get(as_viewer, address(anna, "topics", more="&script=latin")), "Letters")
    assert sizes == {"Latin letters": ""}
    file = as_viewer.get(address(anna, "topics", more="&format=json")).content
    assert [each["id"] for each in json.loads(file)] == rows(found, "topic")
    assert rows(get(as_viewer, address(anna, "topics", more="&script=cyrillic")), "topic") == []


def test_merging_all_that_match_means_all_that_were_found(
    anna: ChatUser, memory: list[Topic], as_admin: Client
) -> None:
    found = rows(get(as_admin, address(anna, "topics")), "topic")
    merged = as_admin.get(f"/memory/{anna.pk}/merge/?all=1&q={WORDS}&by=meaning").content.decode().split("<main")[1]
    for topic in memory:
        assert (f"Topic:{topic.pk}" in merged) == (topic.pk in found)


def test_another_memory_is_not_searched(anna: ChatUser, boris: ChatUser, memory: list[Topic], as_admin: Client) -> None:
    assert rows(get(as_admin, address(boris, "topics")), "topic") == []


@dataclass
class Away:
    """An embedder that fails or never answers."""

    profile: Profile
    is_silent: bool = False

    async def embed(self, texts: Sequence[str]) -> Vectors:
        if self.is_silent:
            await asyncio.Event().wait()
        raise EmbeddingError("The endpoint is away.")


@pytest.mark.parametrize("is_silent", [False, True])
def test_without_a_vector_of_the_query_the_list_goes_by_words_and_says_so_until_one_comes(
    is_silent: bool, anna: ChatUser, memory: list[Topic], as_viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(neighbours, "VECTOR_SECONDS", 0.05)
    with monkeypatch.context() as away:
        away.setattr(clients, "embedder_of", lambda profile, http=None: Away(profile, is_silent))
        page = get(as_viewer, address(anna, "topics", "meniscus"))
        assert "gave no vector of your words in time" in page
        assert rows(page, "topic") == [memory[2].pk], "its words are found"
    monkeypatch.setattr(neighbours, "VECTOR_SECONDS", 30.0)
    assert "with its scores" in get(as_viewer, address(anna, "topics"))


def test_a_search_that_is_late_ends_in_a_sentence(
    anna: ChatUser, memory: list[Topic], as_viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as late:
        late.setattr(neighbours, "SECONDS", 0.0)
        page = get(as_viewer, address(anna, "topics"))
        assert "The search was not done in time" in page
        assert rows(page, "topic") == []
    assert rows(get(as_viewer, address(anna, "topics")), "topic")


def test_texts_without_vectors_are_counted(anna: ChatUser, as_viewer: Client) -> None:
    talk(anna, *TOPICS)
    page = get(as_viewer, address(anna, "topics", "meniscus"))
    assert "found by their words alone" in page
