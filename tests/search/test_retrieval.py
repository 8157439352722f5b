"""Search over one owner's real rows: both signals, only live topics, nobody else's."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from asgiref.sync import async_to_sync
from pgvector import HalfVector

from memoryapp.curation import plan_merge
from memoryapp.curation.topic_writer import put_in, swap
from memoryapp.engine.embeddings import Profile, Vectors, unit
from memoryapp.models import ChatUser, Passage, PassageVector, Topic, TopicEdit
from memoryapp.platform import database
from memoryapp.search import retrieval
from memoryapp.search.profiles import profile_row
from memoryapp.search.retrieval import SearchResult, Sizes
from memoryapp.search.similarity import Question
from memoryapp.search.vectors import embed_pending
from tests.conftest import talk

pytestmark = pytest.mark.django_db(transaction=True)


class Synonyms:
    """Texts are near each other if they share a word, or words with the same meaning."""

    profile = Profile("test", "synonyms", 32, 0.2)
    same = {"joint": "knee", "колено": "knee", "levy": "tax"}

    async def embed(self, texts: Sequence[str]) -> Vectors:
        vectors = np.full((len(texts), 32), 0.01, dtype=np.float32)
        for row, text in enumerate(texts):
            for word in text.lower().replace(":", " ").replace("?", " ").split():
                vectors[row, sum(self.same.get(word, word).encode()) % 32] += 1
        return unit(vectors)


@pytest.fixture
def topics(anna: ChatUser) -> list[Topic]:
    """Four topics with vectors; each is the only one about its subject."""
    made = talk(
        anna,
        ("Knee", ["my knee hurts", "rest the knee"]),
        ("Tax", ["tax forms arrive", "file the tax"]),
        ("GPT", ["GPT-5 is out", "try it"]),
        ("Cats", ["cats sleep a lot", "they do"]),
    )
    async_to_sync(embed_pending)(Synonyms(), anna)
    return made


def search(owner: ChatUser, query: str, *, vector: bool = True, **sizes: Any) -> SearchResult:
    async def run() -> SearchResult:
        profile = await profile_row(Synonyms.profile)
        asked = (await Synonyms().embed([query]))[0] if vector else None
        async with database.pool() as connections, connections.connection() as connection:
            question = Question(owner.pk, query, HalfVector(asked) if asked is not None else None, profile.pk, 32)
            threshold = Synonyms.profile.threshold
            return await retrieval.search(connection, question, threshold=threshold, sizes=Sizes(**sizes))

    return async_to_sync(run)()


def ids(found: SearchResult) -> list[str]:
    """Returns what the model is shown."""
    return [candidate.id for candidate in found.shown]


def named(topic: Topic) -> str:
    return f"Topic:{topic.pk}"


def test_the_topic_that_shares_words_and_meaning_comes_first(anna: ChatUser, topics: list[Topic]) -> None:
    best = search(anna, "what about my knee?").candidates[0]
    assert (best.id, best.rank, best.vector_rank) == (named(topics[0]), 1, 1)
    assert best.terms.keys() == {"knee"}
    assert best.bm25 == pytest.approx(sum(best.terms.values()), abs=1e-5)
    assert best.line.startswith(f"[{best.id}] ({best.score:.2f}) 2026-03-02 | 2 msgs, ~")
    assert best.line.endswith("| Knee")
    assert "knee" in Passage.objects.get(pk=best.passage_id).text


def test_meaning_finds_what_words_miss(anna: ChatUser, topics: list[Topic]) -> None:
    best = search(anna, "joint").candidates[0]
    assert (best.id, best.bm25, dict(best.terms)) == (named(topics[0]), 0, {})
    assert ids(search(anna, "joint", vector=False)) == []


def test_words_alone_find_when_there_is_no_vector_of_the_query(anna: ChatUser, topics: list[Topic]) -> None:
    found = search(anna, "tax", vector=False)
    assert ids(found) == [named(topics[1])]
    assert found.baseline == (named(topics[1]),)
    assert {candidate.vector_rank for candidate in found.candidates} == {0}


def test_a_passage_that_has_no_vector_yet_is_found_by_its_words(anna: ChatUser, topics: list[Topic]) -> None:
    PassageVector.objects.filter(passage__messages__topic=topics[1]).delete()
    found = search(anna, "tax")
    assert ids(found)[0] == named(topics[1])
    assert named(topics[1]) not in found.baseline


@pytest.mark.parametrize("query", ["gpt5", "GPT 5", "gpt-5 release", "ＧＰＴ－５"])
def test_a_names_spelling_does_not_matter(anna: ChatUser, topics: list[Topic], query: str) -> None:
    assert ids(search(anna, query, vector=False))[0] == named(topics[2])


def test_what_is_neither_near_nor_shares_a_word_is_ranked_but_never_shown(anna: ChatUser, topics: list[Topic]) -> None:
    found = search(anna, "knee")
    assert named(topics[3]) not in ids(found)
    assert named(topics[3]) in [candidate.id for candidate in found.candidates]
    assert len(found.candidates) == 4
    assert found.passages == 4


def test_the_baseline_is_plain_vector_order_over_all_topics(anna: ChatUser, topics: list[Topic]) -> None:
    found = search(anna, "joint")
    assert found.baseline[0] == named(topics[0])
    assert set(found.baseline) == {named(topic) for topic in topics}


def test_only_the_first_are_shown_and_only_so_many_are_ranked(anna: ChatUser, topics: list[Topic]) -> None:
    found = search(anna, "knee tax gpt cats", topics=2, ranked=3)
    assert [(candidate.rank, candidate.shown) for candidate in found.candidates] == [(1, True), (2, True), (3, False)]


def test_what_is_not_shown_tells_all_but_its_line(anna: ChatUser, topics: list[Topic]) -> None:
    query = "knee tax gpt cats"
    every = {candidate.id: candidate for candidate in search(anna, query).candidates}
    found = search(anna, query, topics=1)
    assert len(every) == 4
    assert [candidate.shown for candidate in found.candidates] == [True, False, False, False]
    for candidate in found.candidates[1:]:
        assert candidate == replace(every[candidate.id], line="", shown=False)
        assert candidate.terms


def test_a_message_is_found_in_its_current_topic_and_in_no_retired_one(anna: ChatUser, topics: list[Topic]) -> None:
    plan = plan_merge(anna, [topics[0].pk, topics[3].pk], "Knee and cats")
    (merged,) = put_in(swap(anna, plan, kind=TopicEdit.Kind.MERGE, actor="test"))
    for query in ("knee", "cats"):
        found = search(anna, query)
        assert ids(found)[0] == named(merged)
        assert not {named(topics[0]), named(topics[3])} & {*ids(found), *found.baseline}


def test_nobody_elses_memory_is_searched(anna: ChatUser, boris: ChatUser, topics: list[Topic]) -> None:
    [his] = talk(boris, ("Knee of Boris", ["my knee hurts", "rest the knee"]))
    async_to_sync(embed_pending)(Synonyms(), boris)
    assert ids(search(boris, "knee")) == [named(his)]
    assert named(his) not in ids(search(anna, "knee"))
    assert ids(search(boris, "tax gpt")) == []


def test_a_russian_question_reaches_english_talk(anna: ChatUser, topics: list[Topic]) -> None:
    assert ids(search(anna, "колено"))[0] == named(topics[0])


@pytest.mark.parametrize(
    "query", ["", "   ", "и в на", "?!", "\x00", "\ud800", "' | !& <->", "%s %(owner)s", "x" * 50_000]
)
def test_no_query_breaks_the_search(anna: ChatUser, topics: list[Topic], query: str) -> None:
    assert search(anna, query.replace("\ud800", "?")).passages == 4
    assert search(anna, query, vector=False).passages == 4


def test_an_empty_memory_is_searched_in_vain(boris: ChatUser) -> None:
    found = search(boris, "knee")
    assert found == SearchResult((), (), 0, threshold=0.2, newest=found.newest)


def test_searches_run_side_by_side(anna: ChatUser, topics: list[Topic]) -> None:
    async def both() -> list[SearchResult]:
        profile = await profile_row(Synonyms.profile)

        async def one(query: str) -> SearchResult:
            async with database.pool() as connections, connections.connection() as connection:
                question = Question(anna.pk, query, None, profile.pk, 32)
                return await retrieval.search(connection, question, threshold=0.2)

        return await asyncio.gather(*(one(query) for query in ("knee", "tax")))

    knee, tax = async_to_sync(both)()
    assert (ids(knee), ids(tax)) == ([named(topics[0])], [named(topics[1])])
