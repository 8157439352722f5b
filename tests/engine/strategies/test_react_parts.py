"""The parts of the agent: routes and filters, plans, coverage, statements, similar texts, and arguments of tools."""

import json
from dataclasses import replace
from datetime import date

import numpy as np
import pytest

from memoryapp.engine.emit import Emit
from memoryapp.engine.events import CandidatesFound, QueryEnriched, ToolCall
from memoryapp.engine.fusion import ReciprocalRanks, Sum, fuse
from memoryapp.engine.memory import ANYWHERE, Where
from memoryapp.engine.parameters import declarations
from memoryapp.engine.strategies.operators import typed
from memoryapp.engine.strategies.react.composing import QuestionTerms
from memoryapp.engine.strategies.react.planning import distinct, filters_of, proposed, route_of
from memoryapp.engine.strategies.react.searching import Document, diverse, is_flat
from memoryapp.engine.strategies.react.statements import borne_out, coverage, covered_share, terms_of
from memoryapp.engine.strategies.react.toolbox import ReactParameters
from memoryapp.engine.strategies.strategy import FoundPassage
from memoryapp.engine.text.lexical import Weighed
from tests.engine.scripted import calls, says
from tests.engine.strategies.react_memory import Memory, Writer, answer
from tests.examples import table

TODAY = date(2026, 3, 1)


@pytest.mark.parametrize(("question", "route", "reason"), table("routes"))
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


@pytest.mark.parametrize(
    ("question", "since", "until"),
    [
        ("Что важного объявил Дуров в августе 2023?", "2023-08-01", "2023-08-31"),
        ("What did we decide in February 2024?", "2024-02-01", "2024-02-29"),
        ("What did she say on 3 August 2025?", "2025-08-03", "2025-08-03"),
        ("Что объявил Дуров в августе?", "", ""),
    ],
)
def test_a_month_is_that_month_and_one_of_any_year_is_no_filter(question: str, since: str, until: str) -> None:
    named = filters_of(question, TODAY)
    assert (named.since, named.until) == (since, until)


@pytest.mark.parametrize(
    ("query", "text", "where"),
    [
        (
            'wallets channel:durov author:"Pavel D" after:2023-08-01 before:2023-08-31',
            "wallets",
            Where("2023-08-01", "2023-08-31", ("durov",), ("Pavel D",)),
        ),
        ("кошелёк автор:«Анна Петрова» с:2023-08", "кошелёк", Where("2023-08-01", "", (), ("Анна Петрова",))),
        ("tax until:2024-02 since:2023", "tax", Where("2023-01-01", "2024-02-29")),
        ("rent since:05.06.2025", "rent", Where("2025-06-05")),
        ("author:Boris", "author:Boris", Where(authors=("Boris",))),
        ("see https://example.org/from:x and 10:30", "see https://example.org/ and 10:30", Where(authors=("x",))),
    ],
)
def test_filters_that_are_typed_are_taken_as_they_are(query: str, text: str, where: Where) -> None:
    found = typed(query)
    assert (found.text, found.where, found.unread) == (text, where, ())


@pytest.mark.parametrize("query", ["wallets after:2023-99-01", "wallets since:yesterday", "wallets until:2023-02-30"])
def test_a_typed_day_that_is_none_stays_in_the_query_and_is_named(query: str) -> None:
    found = typed(query)
    assert (found.text, found.where) == (query, ANYWHERE)
    assert found.unread == (query.split()[1],)


@pytest.mark.parametrize(("question", "channels"), table("named_channels"))
def test_a_chat_that_a_question_names_is_a_filter(question: str, channels: list[str]) -> None:
    assert [*filters_of(question, TODAY).channels] == channels


async def test_a_name_of_no_chat_leaves_the_days_of_the_question() -> None:
    memory = Memory()
    await memory.run("What did @nobody rent on 3 August 2025?", refine="off")
    days = ("2025-08-03", "2025-08-03")
    bounds = [(where.since, where.until, where.channels) for _query, _fusion, _most, where in memory.asked]
    assert bounds[:2] == [(*days, ("nobody",)), (*days, ())]


async def test_a_guessed_filter_is_widened_and_the_answer_says_so() -> None:
    memory = Memory()
    events = await memory.run("What did Dasha ask about the flat in December 2025?", refine="off")
    assert [(where.since, where.until) for _query, _fusion, _most, where in memory.asked] == [
        ("2025-12-01", "2025-12-31"),
        ("", ""),
    ]
    [note] = [note for note in answer(events).notes if note.code == "filters_widened"]
    assert note.values == {"filters": "since:2025-12-01 until:2025-12-31"}
    [found] = [event for event in events if isinstance(event, CandidatesFound)]
    # The page must not say that only those days were searched.
    assert found.understood.where == ANYWHERE


async def test_a_typed_filter_is_never_widened_and_one_hit_is_a_result() -> None:
    kostya = Where(since="2025-12-01", until="2025-12-31")
    memory = Memory(where=kostya)
    answered = answer(await memory.run("What about the cake?"))
    assert [citation.topic for citation in answered.citations] == ["Topic:5"]
    assert "filters_widened" not in [note.code for note in answered.notes]


async def test_filters_that_nothing_meets_are_named() -> None:
    answered = answer(await Memory(where=Where(authors=("Nobody Else",)), unread=("since:soon",)).run("the cake"))
    assert (answered.outcome, answered.citations) == ("passages", ())
    notes = {note.code: note.values for note in answered.notes}
    assert notes["nothing_within"] == {"filters": 'author:"Nobody Else"'}
    assert notes["filters_unread"] == {"filters": ["since:soon"]}


async def test_a_model_that_searches_stays_within_the_typed_filters() -> None:
    more = calls(ToolCall("c1", "search", json.dumps({"queries": ["telescope"], "authors": ["Anna"]})))
    chat = Writer(more, says("NOT_IN_MEMORY"))
    memory = Memory(where=Where(authors=("Boris",)), writer=chat)
    events = await memory.run("What froze?", planner="never", enough_coverage=0.0)
    messages = {each.id: each.author for each in memory.messages}
    [found] = [event for event in events if isinstance(event, CandidatesFound)]
    assert {messages[each.passage_id or 1] for each in found.candidates} <= {"Boris", "Anna"}
    sent = str([request.messages for request in chat.requests])
    assert "telescope for his fortieth birthday" not in sent


async def test_a_plan_may_propose_filters_and_only_valid_ones_count() -> None:
    plan = {
        "queries": ["cake", "candles"],
        "since": "2025-08-01",
        "until": "2025-99-01",
        "channels": "News",
        "authors": ["Dasha", "x" * 300],
    }
    asked = []
    for question in ("What did she say in August 2025?", "What did she say?"):
        memory = Memory(writer=Writer(says(json.dumps(plan)), says("NOT_IN_MEMORY")))
        await memory.run(question, planner="always", refine="off", date_filter="on")
        asked.append(memory.asked[0][3])
    assert proposed(plan).where == Where(since="2025-08-01")
    # Days that the question does not name are invented.
    assert (asked[0].since, asked[1].since) == ("2025-08-01", "")
    assert proposed({**plan, "authors": ["Dasha "]}).where.authors == ("Dasha",)
    assert proposed({"since": "2025-02-01", "until": "2025-01-01", "queries": []}).where == ANYWHERE


async def test_the_router_reads_the_query_as_the_model_resolved_it() -> None:
    memory = Memory(writer=Writer(says("NOT_IN_MEMORY")))

    async def enrich(emit: Emit) -> QueryEnriched:
        return QueryEnriched(memory.query, "What did Anna rent in August 2025?", note="", seconds=0.0)

    await memory.run("What did she rent last summer?", replace(memory.ports, enrich=enrich), planner="never")
    assert memory.asked[0][3] == Where("2025-08-01", "2025-08-31")


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


@pytest.mark.parametrize(("claim", "text"), table("negated_claims"))
def test_a_negation_turns_support_into_none(claim: str, text: str) -> None:
    assert borne_out(claim, text) == 0.0
    assert borne_out(text, text) == 1.0


@pytest.mark.parametrize(
    ("claim", "text"),
    [
        ("The operation is needed.", "No, the operation is needed."),
        ("Операция нужна.", "Нет, операция нужна."),
        ("Anna plays the violin and the piano.", "Anna plays not only the violin, but also the piano."),
        ("Анна купила билеты.", "Анна не пришла, но купила билеты."),
        ("The trip is in May.", "The trip is in May, isn't it?"),
        ("She bakes cakes.", "She does not run. She bakes cakes."),
    ],
)
def test_a_negation_of_something_else_takes_nothing_away(claim: str, text: str) -> None:
    assert borne_out(claim, text) == 1.0


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


def test_a_question_that_was_asked_before_is_answered_by_its_reply() -> None:
    rows = [
        (1, "2025-08-03", "Anna", "What froze the replica of vLLM?"),
        (1, "2025-08-03", "Boris", "The new driver. I went back to the old one of CUDA."),
        (1, "2025-08-03", "Anna", "Then the replica may wait until Monday."),
    ]
    question, messages = rows[0][3], Memory(rows).messages
    whole = FoundPassage(1, 1, 0.5, 1.0, 1.0, 0.5, "\n".join(row[3] for row in rows), (1, 2, 3), (1,))
    wanted = QuestionTerms.of(question, dict.fromkeys(terms_of(question), 1.0))
    message, start, end = wanted.best(Document(whole, "Topic:1", tuple(messages)))
    assert messages[message - 1].text[start:end] == "The new driver."


async def test_passages_far_below_the_best_are_shown_only_where_several_things_are_asked_for() -> None:
    one = answer(await Memory().run("Who has a telescope?", refine="off"))
    assert [citation.topic for citation in one.citations] == ["Topic:5"]
    several = answer(await Memory().run("What birthdays were there, all of them?", refine="off"))
    assert {"Topic:2", "Topic:5"} <= {citation.topic for citation in several.citations}
    assert len(several.citations) > len(one.citations)


async def test_a_passage_that_adds_no_message_is_not_shown() -> None:
    shown = answer(await Memory().run("What froze?", refine="off")).citations
    messages = [citation.passage for citation in shown]
    assert len(messages) == len(set(messages))


@pytest.mark.parametrize(
    ("question", "is_noted"),
    [
        ("Did the kitchen of Anna arrive with a discount?", True),
        ("Did the kitchen of Boris arrive with a discount?", False),
    ],
)
async def test_a_reader_is_noted_when_somebody_else_said_it(question: str, *, is_noted: bool) -> None:
    answered = answer(await Memory().run(question))
    notes = [note.values for note in answered.notes if note.code == "said_by_others"]
    assert notes == ([{"named": "Anna", "who": "Boris"}] if is_noted else [])
    assert (answered.coverage <= 0.4) == is_noted


async def test_what_is_noted_about_the_one_who_is_named_counts_as_theirs() -> None:
    answered = answer(await Memory().run("Which cake did Dasha bake for the birthday?"))
    assert "said_by_others" not in [note.code for note in answered.notes]
