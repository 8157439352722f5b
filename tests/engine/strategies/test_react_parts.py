"""The parts of the agent: routes and filters, plans, coverage, statements, similar texts, and arguments of tools."""

from __future__ import annotations

from datetime import date

import numpy as np
import pytest

from memoryapp.engine.fusion import ReciprocalRanks, Sum, fuse
from memoryapp.engine.parameters import declarations
from memoryapp.engine.strategies.ports import FoundPassage
from memoryapp.engine.strategies.react import ReactParameters
from memoryapp.engine.strategies.react.coverage import borne_out, coverage, covered_share, terms_of
from memoryapp.engine.strategies.react.planning import distinct
from memoryapp.engine.strategies.react.pool import Document, diverse
from memoryapp.engine.strategies.react.quoting import QuestionTerms
from memoryapp.engine.strategies.react.router import filters_of, route_of
from memoryapp.engine.strategies.react.searching import is_flat
from memoryapp.engine.text.lexical import Weighed
from tests.engine.strategies.react_memory import Memory, answer

TODAY = date(2026, 3, 1)


@pytest.mark.parametrize(
    ("question", "route", "reason"),
    [
        ("что с GPU?", "bm25", "short"),
        ("What did she say about “the blue door” in the end?", "bm25", "quoted"),
        ("What did we decide in August 2023 about the flat?", "bm25", "date"),
        ("Which error did we get after upgrading to CUDA-13 on that box?", "bm25", "number"),
        ("What has @durov announced about wallets lately?", "bm25", "identifier"),
        ("Why did we leave the old provider for the new one?", "dense", "descriptive"),
        ("which of the flats in Vera did we like best", "hybrid", ""),
    ],
)
def test_a_route_prefers_one_order_and_excludes_none(question: str, route: str, reason: str) -> None:
    found = route_of(question, TODAY)
    assert (found.route, found.meaning > 0, found.words > 0) == (route, True, True)
    assert reason in ("", *found.reasons)


@pytest.mark.parametrize(
    "question",
    ["какой формат 2025 выбрали?", "программа 2026", "марковские цепи и горный велосипед", "May I ask what he said?"],
)
def test_what_only_looks_like_a_date_or_a_channel_is_no_filter(question: str) -> None:
    named = filters_of(question, TODAY)
    assert (named.since, named.until, named.channels, named.authors) == ("", "", (), ())


def test_a_month_of_a_year_is_a_filter_that_reaches_a_little_further_and_one_of_any_year_is_none() -> None:
    named = filters_of("Что важного объявил Дуров в августе 2023?", TODAY)
    assert (named.since, named.until) == ("2023-07-29", "2023-09-21")
    assert filters_of("Что объявил Дуров в августе?", TODAY).since == ""


def test_filters_that_are_written_out_are_taken_as_they_are() -> None:
    named = filters_of('wallets channel:durov author:"Pavel D" after:2023-08-01 before:2023-08-31', TODAY)
    assert named.model_dump() == {
        "since": "2023-08-01",
        "until": "2023-08-31",
        "channels": ("durov",),
        "authors": ("Pavel D",),
    }
    assert filters_of("wallets after:2023-99-01", TODAY).since == ""


@pytest.mark.parametrize(
    ("question", "channels"),
    [
        ("Какие важные объявления делал @durov в августе 2023?", ("durov",)),
        ("Что решили в чате «Дача и сад» про забор?", ("Дача и сад",)),
        ("Что писали в канале новости про выборы?", ("новости",)),
        ("What was posted in the channel News about the bridge?", ("News",)),
        ("What did they say in the family chat about Easter?", ("family",)),
        ("What was said in the channel Daily News about tax?", ("Daily News", "Daily")),
        ("Что решили в чате Наша Дача про забор?", ("Наша Дача", "Наша")),
        ("What did they say in the Daily News channel?", ("Daily News", "Daily")),
        ("Write to anna@example.org about the canal", ()),
        ("Кто чаще писал в марте?", ()),
    ],
)
def test_a_chat_that_a_question_names_is_a_filter(question: str, channels: tuple[str, ...]) -> None:
    assert filters_of(question, TODAY).channels == channels


async def test_a_name_of_no_chat_leaves_the_days_of_the_question() -> None:
    memory = Memory()
    await memory.run("What did @nobody rent on 3 August 2025?", refine="off")
    days = ("2025-07-31", "2025-08-24")
    bounds = [(where.since, where.until, where.channels) for _query, _fusion, _most, where in memory.asked]
    assert bounds[:2] == [(*days, ("nobody",)), (*days, ())]


async def test_filters_reach_the_search_and_too_narrow_ones_are_relaxed() -> None:
    memory = Memory()
    await memory.run("What did Anna rent on 3 August 2025?")
    assert [(where.since, where.until) for _query, _fusion, _most, where in memory.asked][0] == (
        "2025-07-31",
        "2025-08-24",
    )
    narrow = Memory()
    await narrow.run("cake author:Nobody")
    assert [where.authors for _query, _fusion, _most, where in narrow.asked][:2] == [("Nobody",), ()]


def test_a_plan_repeats_nothing_and_takes_no_word_out() -> None:
    queries = ["order book", "Order  Book", "what did he ask?", "", "x", "update iOS"]
    assert distinct("What did he ask?", queries) == ["order book", "update iOS"]


@pytest.mark.parametrize(
    ("question", "source", "share"),
    [
        ("нейронные сети", "обучение нейронных сетей", 1.0),
        ("кот", "который час", 0.0),
        ("the vLLM fix", "no word", 0.0),
    ],
)
def test_coverage_compares_stems(question: str, source: str, share: float) -> None:
    assert covered_share(dict.fromkeys(terms_of(question), 1.0), terms_of(source)) == share


def test_coverage_by_meaning_fills_what_words_leave_open() -> None:
    asked, source = dict.fromkeys(terms_of("который торт испекла Даша"), 4.0), ["poppy seed cake"]
    shares = [coverage(asked, source, meaning) for meaning in (0.0, 6.0, 30.0)]
    assert shares == sorted(shares)
    assert (shares[0] < 0.1, shares[2] > 0.9) == (True, True)
    assert coverage(asked, [], 30.0) == 0.0


def test_a_known_cosine_counts_instead_of_deviations() -> None:
    asked, source = {"cake": 3.0, "bake": 3.0}, ["the cake"]
    far, usual = (coverage(asked, source, 12.0, nearness) for nearness in (0.3, 1.0))
    assert far < 0.8 < usual
    assert coverage(asked, source, 0.0, 1.0) == usual
    # Without vectors nothing is near, and only words count.
    assert coverage(asked, source, 0.0, 0.0) == coverage(asked, source, 0.0)


def test_coverage_hangs_on_the_rare_words_and_on_what_one_source_says() -> None:
    weights = {"submarin": 5.0, "work": 0.5, "today": 0.5}
    common, telling = ["we work today"], ["the submarine"]
    assert coverage(weights, common, 3.0) < 0.5 < coverage(weights, telling, 3.0)
    apart = {"submarin": 3.0, "captain": 3.0}
    assert coverage(apart, ["the submarine", "a captain"], 0.0) < coverage(apart, ["captain of the submarine"], 0.0)


def test_a_claim_needs_its_figures() -> None:
    assert borne_out("The price is $23,281 a year [2].", "it is 23281 a year, the price") == 1.0
    assert borne_out("The price is $23,282 a year.", "it is 23281 a year, the price") == 0.0


def test_flat_scores_are_distinguished_from_others() -> None:
    assert is_flat([0.5, 0.51, 0.5], 0.05)
    assert not is_flat([0.9, 0.2, 0.1], 0.05)
    assert not is_flat([0.5], 0.05)


def passage(number: int, text: str, score: float) -> FoundPassage:
    return FoundPassage(number, number, 0.5, 1.0, score, score, text, (number,), (number,))


def test_relevance_and_news_are_weighed_against_each_other() -> None:
    cake, again = passage(1, "poppy seed cake", 0.9), passage(2, "poppy seed cake again", 0.8)
    passages = [cake, again, passage(3, "telescope", 0.5)]
    assert diverse(passages, 1.0, 3) == [1, 2, 3]
    assert diverse(passages, 0.5, 3) == [1, 3, 2]
    assert diverse(passages, 0.5, 1) == [1]


COSINE = np.array([0.9, 0.1, np.nan, 0.5])
WORDS = Weighed(np.array([0.0, 3.0, 2.0, 0.0]), {}, 5.0)
NOTHING = np.zeros(4, dtype=np.bool_)


def test_ranks_are_fused_and_what_has_none_gets_nothing() -> None:
    fused = ReciprocalRanks(60, 50)(COSINE, WORDS, NOTHING)
    shares = fused / fused[0]
    # First by meaning alone; third by meaning and first by words; second by words alone; second by meaning alone.
    assert shares == pytest.approx([1.0, 61 / 63 + 1.0, 61 / 62, 61 / 62])
    shallow = ReciprocalRanks(60, 1)(COSINE, WORDS, NOTHING)
    assert (shallow > 0).tolist() == [True, True, False, False]


def test_a_weighted_sum_prefers_one_order_and_that_of_equal_weights_is_the_usual_one() -> None:
    assert Sum()(COSINE, WORDS, NOTHING) == pytest.approx(fuse(COSINE, WORDS, NOTHING))
    by_meaning, by_words = Sum(1.0, 0.0)(COSINE, WORDS, NOTHING), Sum(0.0, 1.0)(COSINE, WORDS, NOTHING)
    assert (int(np.argmax(by_meaning)), int(np.argmax(by_words))) == (0, 1)
    assert by_meaning + by_words == pytest.approx(fuse(COSINE, WORDS, NOTHING))


def test_every_parameter_has_bounds() -> None:
    for declared in declarations(ReactParameters).values():
        assert declared.options or declared.least < declared.most
        assert declared.allows(declared.default)


async def test_what_is_quoted_is_no_question_where_anything_else_speaks_of_it() -> None:
    entries = [
        (1, "2025-08-03", "Anna", "What did the vet prescribe for Bublik? The vet prescribed wet food for the cat.")
    ]
    events = await Memory(entries).run("What did the vet prescribe for Bublik?", least_coverage=0.0)
    quotes = [citation.quote for citation in answer(events).citations]
    assert quotes == ["The vet prescribed wet food for the cat."]


def test_a_question_that_was_asked_before_is_answered_by_its_reply() -> None:
    rows = [
        (1, "2025-08-03", "Anna", "What froze the replica of vLLM?"),
        (1, "2025-08-03", "Boris", "The new driver. I went back to the old one of CUDA."),
        (1, "2025-08-03", "Anna", "Then the replica may wait until Monday."),
    ]
    question, messages = rows[0][3], Memory(rows).messages
    whole = FoundPassage(1, 1, 0.5, 1.0, 1.0, 0.5, "\n".join(row[3] for row in rows), (1, 2, 3), (1,))
    wanted = QuestionTerms.of(question, dict.fromkeys(terms_of(question), 1.0))
    number, (message, start, end) = wanted.best({7: Document(whole, "Topic:1", tuple(messages))})
    assert (number, messages[message - 1].text[start:end]) == (7, "The new driver.")
