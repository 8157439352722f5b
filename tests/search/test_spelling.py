"""A query is read as it would be written with care: one letter of a long word, and capitals."""

from collections.abc import Sequence

import pytest
from asgiref.sync import async_to_sync
from django.template.loader import render_to_string
from django.utils.translation import override

from memoryapp.curation import rescoring
from memoryapp.curation.rescoring import Query
from memoryapp.engine.candidates import UnderstoodQuery
from memoryapp.models import ChatUser, Topic
from memoryapp.platform import database
from memoryapp.runs.clients import open_clients
from memoryapp.search import retrieval, similarity
from memoryapp.search.retrieval import SearchResult
from memoryapp.search.similarity import Question, Wording
from memoryapp.search.spelling import respelled
from tests.conftest import talk

pytestmark = pytest.mark.django_db(transaction=True)

TALK = [
    "I bought a Weltmeister accordion from Grigory in Antwerp",
    "Ask Grigory about the bellows, he pointed at the reeds",
    "В субботу едем с Тимуром смотреть фисгармонию",
]


@pytest.fixture
def owner(anna: ChatUser) -> ChatUser:
    talk(anna, ("Accordion", TALK))
    return anna


def read(owner: ChatUser, query: str) -> str:
    async def asked() -> str:
        async with open_clients() as clients:
            return await respelled(clients.pool, owner.pk, query, clients.embedder.likelier)  # type: ignore[attr-defined]

    return async_to_sync(asked)()


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("Which acxordion did I buy?", "Which accordion did I buy?"),
        ("Which accordoin did I buy?", "Which accordion did I buy?"),
        ("Where is the Weltmiester now?", "Where is the Weltmeister now?"),
        ("Какую фисгрармонию смотрели?", "Какую фисгармонию смотрели?"),
        ("WHAT DID GRIGORY SAY ABOUT THE BELLOWS", "what did Grigory say about the bellows"),
        ("what did grigory sell", "what did Grigory sell"),
    ],
)
def test_a_typo_is_read_as_the_word_of_the_memory(owner: ChatUser, typed: str, meant: str) -> None:
    assert read(owner, typed) == meant


@pytest.mark.parametrize(
    "query",
    [
        "Who painted the bellows?",
        "Кто такой дедушка?",
        "What is a meniscus?",
        "",
        "?!",
        "a" * 5_000,
        "acxordion " * 400,
        "' OR 1=1; -- acxordion" + "'" * 50,
    ],
)
def test_what_is_a_word_or_no_question_stays_as_it_was_typed(owner: ChatUser, query: str) -> None:
    assert read(owner, query).replace("accordion", "acxordion") == query


def test_what_the_talk_itself_mistypes_is_no_typo_and_the_stored_question_is(owner: ChatUser) -> None:
    talk(owner, ("Slip", ["The acxordion is loud"]))
    assert read(owner, "Which acxordion is loud?") == "Which acxordion is loud?"
    talk(owner, ("Asked", ["Where is the Weltmiester?"]))
    assert read(owner, "Where is the Weltmiester?") == "Where is the Weltmeister?"


# Words that too many passages of a large memory contain: a search leaves them out as far as it can, and reports it.


DAYS = 8


@pytest.fixture
def topics(anna: ChatUser) -> list[Topic]:
    """Each day is about the weather; on one of them a kayak sank, on three it rained, on six it was windy."""
    texts = ["The weather of the day", *["The weather and the rain"] * 2, *["The weather and the wind"] * 4]
    days = [(f"Day {day}", [f"{each}, walk {day}", "I see"]) for day, each in enumerate(texts, start=1)]
    return talk(anna, *days, ("Kayak", ["My kayak sank in the weather with wind, rain and wind", "Oh no"]))


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch, topics: list[Topic]) -> list[Topic]:
    """The same memory, where at most three passages are searched for words."""
    monkeypatch.setattr(similarity, "MOST", 3)
    return topics


def search(owner: ChatUser, query: str, rewrite: str = "") -> SearchResult:
    async def run() -> SearchResult:
        async with database.pool() as connections, connections.connection() as connection:
            asked = Question(owner.pk, query, None, 0, 32, Wording(rewrite, None) if rewrite else None)
            return await retrieval.search(connection, asked, threshold=0.2)

    return async_to_sync(run)()


def named(found: SearchResult) -> list[str]:
    return [candidate.summary for candidate in found.shown]


def test_a_small_memory_is_searched_for_all_words(anna: ChatUser, topics: list[Topic]) -> None:
    found = search(anna, "the kayak in the weather")
    assert found.understood.common == ()
    assert len(found.shown) == DAYS


def test_common_words_count_beside_rarer_ones_alone(anna: ChatUser, large: list[Topic]) -> None:
    found = search(anna, "the kayak in the weather and the wind")
    assert set(found.understood.common) == {"weather", "wind"}
    assert named(found) == ["Kayak"]
    assert found.candidates[0].terms.keys() == {"kayak", "weather", "wind"}


def test_what_a_rarer_word_finds_weighs_as_if_all_were_counted(
    anna: ChatUser, topics: list[Topic], monkeypatch: pytest.MonkeyPatch
) -> None:
    full = search(anna, "the kayak in the weather and the wind")
    monkeypatch.setattr(similarity, "MOST", 3)
    found = search(anna, "the kayak in the weather and the wind")
    assert found.candidates[0].terms == full.candidates[0].terms
    assert found.rarity == full.rarity


def test_the_numbers_of_a_candidate_add_up(anna: ChatUser, large: list[Topic]) -> None:
    for candidate in search(anna, "the rain in the weather and the wind").candidates:
        assert sum(candidate.terms.values()) == pytest.approx(candidate.bm25, abs=1e-5)
        assert sum(candidate.parts.values()) == pytest.approx(candidate.fused, abs=1e-5)


def test_where_all_words_are_common_the_rarest_is_searched_for(anna: ChatUser, large: list[Topic]) -> None:
    found = search(anna, "the wind and the weather")
    assert found.understood.common == ("weather",)
    assert set(named(found)) == {"Kayak", "Day 4", "Day 5", "Day 6", "Day 7"}


def test_an_unknown_word_replaces_no_other_word(anna: ChatUser, large: list[Topic]) -> None:
    found = search(anna, "a zebra in the weather")
    assert found.understood.common == ()
    assert len(found.shown) == DAYS


def test_a_rare_word_that_the_sample_lacks_is_counted(
    anna: ChatUser, large: list[Topic], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(similarity, "SAMPLE", 2)
    found = search(anna, "the kayak in the weather")
    assert found.understood.common == ("weather",)
    assert named(found) == ["Kayak"]


@pytest.mark.parametrize("sample", [2, 1_000])
@pytest.mark.parametrize("rewrite", ["", "the rain and the wind"])
def test_a_past_run_is_tried_again_without_the_same_words(
    anna: ChatUser, large: list[Topic], monkeypatch: pytest.MonkeyPatch, rewrite: str, sample: int
) -> None:
    monkeypatch.setattr(similarity, "SAMPLE", sample)
    typed = Query("the kayak in the weather and the wind")
    found = search(anna, typed.text, rewrite)
    (again,) = rescoring.compared(
        anna.pk, rescoring.passages(anna.pk), [Query(rewrite, typed=typed) if rewrite else typed]
    )
    fused = dict(zip(again.ids.tolist(), again.fused.tolist(), strict=True))
    assert [fused[c.passage_id] for c in found.shown] == pytest.approx([c.fused for c in found.shown])


@pytest.mark.parametrize(
    ("holding", "common"),
    [
        ({"rare": 5, "rarer": 2, "common": 3}, ("rare",)),
        ({"go": 2, "went": 3, "rare": 4}, ("go", "went")),
        ({"never": 0, "all": 9}, ()),
        ({}, ()),
    ],
)
def test_the_rarest_words_are_searched_for_as_far_as_the_bound(
    monkeypatch: pytest.MonkeyPatch, holding: dict[str, int], common: Sequence[str]
) -> None:
    monkeypatch.setattr(similarity, "MOST", 5)
    assert sorted(similarity.common(holding).words) == sorted(common)


@pytest.mark.parametrize(
    ("language", "sentence"),
    [
        ("en", "So frequent that they count only together with rarer words: weather, wind"),
        ("ru", "Такие частые, что учитываются только вместе с более редкими словами: weather, wind"),
    ],
)
def test_the_run_page_tells_which_words_are_common(language: str, sentence: str) -> None:
    with override(language):
        understood = UnderstoodQuery(common=("weather", "wind"))
        page = render_to_string("partials/candidates/understood.html", {"understood": understood})
    assert sentence in " ".join(page.split())
