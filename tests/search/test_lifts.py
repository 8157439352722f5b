"""What raises or lowers the scores of passages beside meaning and words, and how a run shows it."""

from datetime import timedelta

import pytest
from asgiref.sync import async_to_sync
from django.db.models import F
from django.template.loader import render_to_string
from django.utils.translation import override

from memoryapp.curation import rescoring
from memoryapp.curation.rescoring import Query
from memoryapp.engine.candidates import NamedDates, OneTerm, UnderstoodQuery
from memoryapp.engine.fusion import fuse, z_scores
from memoryapp.engine.text.lexical import Floats, Weighed
from memoryapp.models import ChatUser, Message, Topic
from memoryapp.platform import database
from memoryapp.search import retrieval
from memoryapp.search.retrieval import SearchResult
from memoryapp.search.scores import DATES, INSTRUCTED, REPLY_ALONE
from memoryapp.search.similarity import Question
from rerankui.runs.page.result import score_parts, sum_of_parts
from tests.conftest import talk

pytestmark = pytest.mark.django_db(transaction=True)

LONG = "The route has many stages and hills. " * 30


@pytest.fixture
def topics(anna: ChatUser) -> list[Topic]:
    """A race in May, another in March, and a rule about letters; then a long answer about the race."""
    made = talk(
        anna,
        ("Race in March", ["My race went well", "Congratulations"]),
        ("Race in May", ["My race went well again", "Congratulations"]),
        ("Letters", ["From now on keep it under ten lines", "I will"]),
        ("Route", ["Tell me of the race", LONG]),
    )
    Message.objects.filter(topic=made[1]).update(sent_at=F("sent_at") + timedelta(days=70))
    return made


def search(owner: ChatUser, query: str, fusion: retrieval.Fusion = fuse) -> SearchResult:
    async def run() -> SearchResult:
        async with database.pool() as connections, connections.connection() as connection:
            asked = Question(owner.pk, query, None, 0, 32)
            return await retrieval.search(connection, asked, threshold=0.2, fusion=fusion)

    return async_to_sync(run)()


def test_messages_of_the_time_in_the_query_rank_higher_and_the_event_shows_it(
    anna: ChatUser, topics: list[Topic]
) -> None:
    found = search(anna, "How did the race go in May?")
    best = found.candidates[0]
    assert best.summary == "Race in May"
    assert best.parts["dates"] == DATES
    assert best.fused == pytest.approx(sum(best.parts.values()), abs=1e-4)
    assert {each.words for each in found.understood.dates} == {"may"}
    assert NamedDates("may", "2026-05-01", "2026-05-31") in found.understood.dates
    march = search(anna, "How did the race go in March?").candidates[0]
    assert march.summary == "Race in March"


def test_a_question_without_a_date_lifts_nothing_by_it(anna: ChatUser, topics: list[Topic]) -> None:
    found = search(anna, "How did the race go?")
    assert not any("dates" in candidate.parts for candidate in found.candidates)
    assert found.understood.dates == ()


def test_another_form_of_an_irregular_word_is_found_as_one_term(anna: ChatUser, topics: list[Topic]) -> None:
    found = search(anna, "Where did she go?")
    assert {candidate.summary for candidate in found.shown} == {"Race in March", "Race in May"}
    assert {tuple(candidate.terms) for candidate in found.shown} == {("go",)}
    assert found.understood.one_term == (OneTerm("go", ("goes", "went", "gone")),)


def test_names_of_who_speaks_are_taken_out(anna: ChatUser, topics: list[Topic]) -> None:
    assert search(anna, "Which race did Anna win?").understood.names == ("Anna",)
    assert search(anna, "Which race did Boris win?").understood.names == ()


def test_a_reply_without_its_request_sinks(anna: ChatUser, topics: list[Topic]) -> None:
    found = search(anna, "stages and hills of the route")
    route = next(candidate for candidate in found.candidates if candidate.summary == "Route")
    assert route.parts.get("reply_alone", 0.0) in (0.0, REPLY_ALONE)
    (compared,) = rescoring.compared(anna.pk, rescoring.passages(anna.pk), [Query("stages and hills of the route")])
    assert compared.parts["reply_alone"].min() == REPLY_ALONE


def test_standing_instructions_rise_where_something_is_to_be_made(anna: ChatUser, topics: list[Topic]) -> None:
    found = search(anna, "Please write a letter about the race in few lines")
    letters = next(candidate for candidate in found.candidates if candidate.summary == "Letters")
    assert (letters.rank, letters.parts["instruction"]) == (1, INSTRUCTED)
    assert found.understood.instructions
    asked = search(anna, "How many lines did we say?")
    assert not any("instruction" in candidate.parts for candidate in asked.candidates)


def test_between_people_nothing_is_an_instruction(anna: ChatUser, topics: list[Topic]) -> None:
    Message.objects.filter(role="assistant").update(role="peer")
    found = search(anna, "Please write a letter about the race in few lines")
    assert not any({"instruction", "reply_alone"} & candidate.parts.keys() for candidate in found.candidates)


@pytest.mark.parametrize("query", ["How did the race go in May?", "Please write a letter about the lines"])
def test_a_past_run_is_tried_again_with_all_that_lifts(anna: ChatUser, topics: list[Topic], query: str) -> None:
    found = search(anna, query)
    (again,) = rescoring.compared(anna.pk, rescoring.passages(anna.pk), [Query(query)])
    fused = dict(zip(again.ids.tolist(), again.fused.tolist(), strict=True))
    scores = [candidate.fused - candidate.parts.get("summary", 0.0) for candidate in found.candidates]
    assert [fused[candidate.passage_id] for candidate in found.candidates] == pytest.approx(scores)


def test_another_fusion_ranks_by_itself(anna: ChatUser, topics: list[Topic]) -> None:
    def by_words(cosine: Floats, words: Weighed, foreign: Floats) -> Floats:
        return z_scores(words.total)

    found = search(anna, "How did the race go in May?", by_words)
    assert not any("dates" in candidate.parts for candidate in found.candidates)


@pytest.mark.parametrize(
    ("language", "sentences"),
    [
        ("en", ("Names taken out of the query: Anna", "Dates meant:", "May 1, 2026 – May 31, 2026", "go = went")),
        ("ru", ("Имена, убранные из запроса: Anna", "1 мая 2026", "31 мая 2026", "Считаются одним словом:")),
    ],
)
def test_the_run_page_tells_what_was_understood(language: str, sentences: tuple[str, ...]) -> None:
    understood = UnderstoodQuery(
        names=("Anna",),
        dates=(NamedDates("may", "2026-05-01", "2026-05-31"),),
        one_term=(OneTerm("go", ("went",)),),
        instructions=True,
    )
    with override(language):
        page = " ".join(render_to_string("partials/candidates/understood.html", {"understood": understood}).split())
        nothing = render_to_string("partials/candidates/understood.html", {"understood": UnderstoodQuery()})
    assert [words for words in sentences if words not in page] == []
    assert nothing.strip() == ""


def test_the_parts_of_a_score_are_listed_in_their_order() -> None:
    parts = {"dates": 2.1, "words": -0.4, "meaning": 3.14}
    with override("en"):
        assert [(str(name), added) for name, added in score_parts(parts)] == [
            ("meaning", "+3.1"),
            ("words", "-0.4"),
            ("date", "+2.1"),
        ]
        assert sum_of_parts(parts) == " (meaning +3.1, words -0.4, date +2.1)"
    with override("ru"):
        assert sum_of_parts(parts) == " (смысл +3,1, слова -0,4, дата +2,1)"
    assert sum_of_parts({}) == ""
