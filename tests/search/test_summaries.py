"""A topic is also found by the words of its summary, as far as its passages do not contain them."""

import numpy as np
import pytest
from asgiref.sync import async_to_sync
from django.utils.translation import override

from memoryapp import curation
from memoryapp.engine.fusion import ReciprocalRanks, Sum, fuse
from memoryapp.models import ChatUser, Topic
from memoryapp.platform import database
from memoryapp.search import retrieval, similarity
from memoryapp.search.retrieval import SearchResult, Sizes
from memoryapp.search.similarity import Question, Wording
from rerankui.runs.page.result import sum_of_parts
from tests.conftest import talk
from tests.curation.test_curation import made

pytestmark = pytest.mark.django_db(transaction=True)

TRIP = "Отпуск в Грузии: чем ехали, и что ещё сломалось; рейс SU-1850"


@pytest.fixture
def topics(anna: ChatUser) -> list[Topic]:
    """A trip that only the summary calls a trip, a repair whose summary repeats the messages, and other topics."""
    talks = [(f"Day {day}", [f"We walked to the park on day {day}", "I see"]) for day in range(6)]
    return talk(
        anna,
        (TRIP, ["Мы поехали в горы", "Хорошо"]),
        ("The kitchen tap leaks", ["The kitchen tap leaks", "Close the valve"]),
        *talks,
    )


def search(
    owner: ChatUser, query: str, rewrite: str = "", fusion: retrieval.Fusion = fuse, shown: int = 50
) -> SearchResult:
    async def run() -> SearchResult:
        async with database.pool() as connections, connections.connection() as connection:
            asked = Question(owner.pk, query, None, 0, 32, Wording(rewrite, None) if rewrite else None)
            return await retrieval.search(connection, asked, threshold=0.2, fusion=fusion, sizes=Sizes(topics=shown))

    return async_to_sync(run)()


def named(found: SearchResult) -> list[str]:
    return [candidate.summary for candidate in found.shown]


def test_a_topic_is_found_by_what_its_summary_alone_says(anna: ChatUser, topics: list[Topic]) -> None:
    (trip,) = search(anna, "Каким был отпуск?").shown
    assert (trip.summary, trip.bm25, trip.terms) == (TRIP, 0.0, {})
    assert trip.parts["summary"] > 1
    assert sum(trip.parts.values()) == pytest.approx(trip.fused, abs=1e-5)


def test_a_summary_that_repeats_the_messages_adds_nothing(anna: ChatUser, topics: list[Topic]) -> None:
    (tap,) = search(anna, "Which tap leaks in the kitchen?").shown
    assert tap.summary == "The kitchen tap leaks"
    assert "summary" not in tap.parts


@pytest.mark.parametrize("query", ["еще", "SU 1850", "su-1850", "Грузия"])
def test_summaries_are_folded_as_queries_are(anna: ChatUser, topics: list[Topic], query: str) -> None:
    assert named(search(anna, f"{query} отпуск"))[0] == TRIP
    assert (
        search(anna, f"{query} отпуск").candidates[0].parts["summary"]
        >= (search(anna, "отпуск").candidates[0].parts["summary"])
    )


def test_a_new_summary_counts_with_the_edit_that_brings_it(anna: ChatUser, topics: list[Topic]) -> None:
    made(anna, curation.plan_edit(anna, topics[0].pk, "Поездка к брату"))
    assert named(search(anna, "отпуск")) == []
    assert named(search(anna, "поездка")) == ["Поездка к брату"]


def test_a_rewritten_query_finds_summaries_too(anna: ChatUser, topics: list[Topic]) -> None:
    assert set(named(search(anna, "tap", "отпуск"))) == {"The kitchen tap leaks", TRIP}


def test_words_weigh_in_summaries_what_they_weigh_in_passages(anna: ChatUser, topics: list[Topic]) -> None:
    once, thrice = (search(anna, "отпуск", fusion=Sum(1.0, words)).candidates[0] for words in (1.0, 3.0))
    assert thrice.parts["summary"] == pytest.approx(3 * once.parts["summary"])


def test_ranks_alone_know_nothing_of_summaries(anna: ChatUser, topics: list[Topic]) -> None:
    found = search(anna, "отпуск и кран", fusion=ReciprocalRanks())
    assert not any("summary" in each.parts for each in found.candidates)


def test_common_words_of_a_large_memory_count_in_no_summary(
    anna: ChatUser, topics: list[Topic], monkeypatch: pytest.MonkeyPatch
) -> None:
    talk(anna, ("The park of the kayak", ["It sank", "Oh no"]))
    monkeypatch.setattr(similarity, "MOST", 3)
    found = search(anna, "the kayak or the tap in the park")
    assert found.understood.common == ("park",)
    assert set(named(found)) == {"The park of the kayak", "The kitchen tap leaks"}


def test_what_a_summary_found_stays_shown_behind_a_cross_encoder(anna: ChatUser, topics: list[Topic]) -> None:
    found = search(anna, "the tap of the отпуск", shown=1)
    scores = np.array([0.01, 0.99, *[0.5] * 6])
    again = retrieval.reranked(found, scores, 1)
    assert {*named(found), *named(again)} == {TRIP, "The kitchen tap leaks"}


@pytest.mark.parametrize(("language", "words"), [("en", " (summary +1.5)"), ("ru", " (сводка +1,5)")])
def test_the_part_has_a_name(language: str, words: str) -> None:
    with override(language):
        assert sum_of_parts({"summary": 1.5}) == words
