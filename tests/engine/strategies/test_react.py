"""The agent from a question to an answer: its steps, its tools, its citations, and how it expresses uncertainty."""

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from memoryapp.engine.chat.protocol import LLMError
from memoryapp.engine.events import (
    CandidatesFound,
    Event,
    ModelReplied,
    QueryEnriched,
    RunFinished,
    ToolCall,
    TurnStarted,
)
from memoryapp.engine.kinds.react import StepStarted
from memoryapp.engine.strategies.strategy import Found, Ports, PreparedSearch, RerankScores, SearchTimeout
from tests.engine.scripted import calls, fails, says
from tests.engine.strategies.react_memory import TALK, Memory, Writer, answer, trace, used

CAKE = "Which cake did Dasha bake for the birthday?"
REPLICA = "What froze the replica of vLLM?"
NOWHERE = "Who won the chess tournament in Reykjavik?"


def phases(events: Sequence[Event]) -> list[tuple[int, str]]:
    return [(event.step, event.phase) for event in events if isinstance(event, StepStarted)]


def tools(events: Sequence[Event]) -> list[str]:
    return [event.tool for event in used(events)]


def plans(*queries: str) -> Any:
    return says(json.dumps({"queries": queries}))


async def test_the_seconds_of_searching_are_part_of_the_runs_seconds() -> None:
    """Searches at the same time count once."""
    writer = Writer(plans("knee", "swimming", "meniscus"), says("Swimming [1]."))
    began = time.perf_counter()
    events = await Memory(writer=writer).run("What is allowed for the knee?", planner="always", refine="off")
    (found,) = [event for event in events if isinstance(event, CandidatesFound)]
    assert 0 < found.seconds < time.perf_counter() - began


async def test_without_a_model_it_shows_the_nearest_passages_and_calls_none_of_them_an_answer() -> None:
    memory = Memory()
    events = await memory.run(CAKE)
    answered, end = answer(events), events[-1]
    assert phases(events) == [(1, "plan"), (2, "retrieve"), (3, "answer")]
    assert tools(events) == ["router_select", "query_plan", "search", "fetch_docs", "compose_context"]
    assert (answered.outcome, answered.text, answered.support) == ("passages", "", None)
    assert [note.code for note in answered.notes] == ["no_model"]
    assert answered.citations[0].quote == "Dasha baked a poppy seed cake for my birthday."
    assert [citation.n for citation in answered.citations] == list(range(1, len(answered.citations) + 1))
    assert isinstance(end, RunFinished)
    assert [topic.id for topic in end.selected][0] == "Topic:2"
    texts = {message.id: message.text for message in memory.messages}
    pieces = [piece for topic in end.selected for piece in topic.excerpt]
    assert {piece.text for piece in pieces} == {citation.quote for citation in answered.citations}
    assert all(texts[piece.message or 0][piece.start : piece.end] == piece.text for piece in pieces)


async def test_a_passage_is_quoted_whole_and_a_long_message_by_a_sentence_that_no_abbreviation_cuts() -> None:
    sentence = "Marcello runs the samovar, e.g. the old one, at util 0.9 since v1.2 of samovar.log."
    question = "At which util does Marcello run the samovar?"
    for text, quote in ((f"{sentence} It is warm.",) * 2, (f"{sentence} {'It is warm. ' * 60}".strip(), sentence)):
        memory = Memory(entries=(*TALK, (9, "2026-02-12", "Anna", text)))
        assert answer(await memory.run(question)).citations[0].quote == quote


async def test_a_statement_of_a_model_is_not_cut_at_an_abbreviation() -> None:
    chat = Writer(says("Dasha, i.e. Dr. Smith, baked a poppy seed cake. [1] It had 12 candles. [2]"))
    answered = answer(await Memory(writer=chat).run(CAKE, planner="never"))
    assert answered.text == "Dasha, i.e. Dr. Smith, baked a poppy seed cake [1].\nIt had 12 candles [2]."


async def test_a_model_plans_and_answers_and_its_numbers_are_put_right() -> None:
    chat = Writer(
        plans("poppy seed cake", "birthday candles", "who bakes"),
        says("It was a poppy seed cake [1][77]. It had 12 candles and cherries on top [2, 77]."),
    )
    memory = Memory(writer=chat)
    events = await memory.run(CAKE, planner="always")
    answered = answer(events)
    assert [query for query, *_rest in memory.asked] == [CAKE, "poppy seed cake", "birthday candles", "who bakes"]
    assert (answered.by, answered.outcome) == ("model", "answered")
    assert (answered.dropped_numbers, answered.support) == ((77,), 1.0)
    assert answered.text == "It was a poppy seed cake [1].\nIt had 12 candles and cherries on top [2]."
    assert [citation.n for citation in answered.citations] == [1, 2]
    assert {citation.topic for citation in answered.citations} == {"Topic:2"}
    turns = [event.turn for event in events if isinstance(event, TurnStarted | ModelReplied)]
    assert turns == [1, 1, 2, 2, 3, 3]


async def test_numbers_are_counted_anew_in_the_order_of_citing() -> None:
    chat = Writer(says("The cake had 12 candles [9]. Dasha baked it with poppy seeds for the birthday [3]."))
    answered = answer(await Memory(writer=chat).run(CAKE, planner="never"))
    assert answered.text == "The cake had 12 candles [1].\nDasha baked it with poppy seeds for the birthday [2]."
    assert [citation.n for citation in answered.citations] == [1, 2]


@pytest.mark.parametrize(
    "cited",
    ["[1-3]", "[1 – 3]", "[Source 1, source 2; 3]", "[источники 1, 2, 3]", "[^1][^2][^3]", "【1†source】【2】 [ 3 ]"],
)
async def test_numbers_are_understood_however_models_write_them(cited: str) -> None:
    chat = Writer(says(f"Dasha baked a poppy seed cake with 12 candles {cited}."))
    answered = answer(await Memory(writer=chat).run(CAKE, planner="never"))
    assert answered.text == "Dasha baked a poppy seed cake with 12 candles [1][2][3]."
    assert (answered.dropped_numbers, answered.dropped_statements) == ((), 0)


async def test_a_statement_without_a_number_gets_that_of_a_source_or_is_left_out() -> None:
    chat = Writer(says("Dasha baked a poppy seed cake. She learned it in a Paris bakery. Cherries on top [2]."))
    answered = answer(await Memory(writer=chat).run(CAKE, planner="never"))
    assert "Paris" not in answered.text
    assert answered.dropped_statements == 1
    assert answered.text.splitlines()[0] == "Dasha baked a poppy seed cake [1]."
    assert [note.code for note in answered.notes][0] == "statements_uncited"


async def test_a_question_that_a_model_repeats_is_no_statement() -> None:
    chat = Writer(says(f"{CAKE} [1]\nDasha baked a poppy seed cake [1]."))
    answered = answer(await Memory(writer=chat).run(CAKE, planner="never"))
    assert answered.text == "Dasha baked a poppy seed cake [1]."
    assert (answered.dropped_statements, answered.support) == (0, 1.0)


async def test_what_the_messages_do_not_bear_out_is_left_out() -> None:
    made_up = Writer(says("Marcello delivered 400 croissants by helicopter [1]."))
    half = says("Dasha baked a poppy seed cake [1]. Marcello delivered 400 croissants by helicopter [1].")
    refused = answer(await Memory(writer=made_up).run(CAKE, planner="never"))
    softened = answer(await Memory(writer=Writer(half)).run(CAKE, planner="never", least_support=0.8))
    kept = answer(await Memory(writer=Writer(half)).run(CAKE, planner="never"))
    assert (refused.outcome, refused.support, refused.citations) == ("refused", None, ())
    assert (softened.outcome, softened.support) == ("softened", 0.5)
    assert softened.text == "The memory bears this out in part only:\nDasha baked a poppy seed cake [1]."
    assert [note.code for note in softened.notes] == ["statements_unsupported", "unsupported"]
    assert (kept.outcome, kept.text) == ("answered", "Dasha baked a poppy seed cake [1].")
    assert kept.unsupported == ("Marcello delivered 400 croissants by helicopter.",)


async def test_all_statements_are_checked_not_only_the_longest() -> None:
    lies = " ".join(f"Penguin number {word} won the lottery [1]." for word in ("one", "two", "three", "four"))
    chat = Writer(says(f"Dasha baked a poppy seed cake [1]. {lies}"))
    answered = answer(await Memory(writer=chat).run(CAKE, planner="never"))
    assert "lottery" not in answered.text
    assert (len(answered.unsupported), answered.support) == (4, 0.2)


OPERATION = (
    (1, "2026-02-01", "Саркисян", "Операция НЕ нужна, колено заживёт само."),
    (2, "2026-02-02", "Анна", "Билеты в Скандинавию куплены, операция переводов в банке прошла."),
    (3, "2026-02-03", "Саркисян", "8 недель без бега и прыжков."),
)


@pytest.mark.parametrize(
    ("claim", "stands"),
    [
        ("Операция нужна [1].", False),
        ("Операция не нужна [1].", True),
        ("8 недель без бега и прыжков [2].", True),
        ("8 недель бега и прыжков [2].", False),
    ],
)
async def test_the_opposite_of_a_message_is_not_borne_out_by_it(claim: str, stands: bool) -> None:
    # Cites the source with the most of its words, wherever the search put it.
    for number in (1, 2, 3):
        chat = Writer(says(f"{claim.partition(' [')[0]} [{number}]."))
        found = answer(
            await Memory(OPERATION, writer=chat).run(
                "Нужна ли операция на колене?", planner="never", refine="off", least_coverage=0.0
            )
        )
        if not stands:
            assert (found.outcome, found.citations, found.support) == ("refused", (), None)
        else:
            assert found.text.startswith(claim.partition(" [")[0])


async def test_a_wrong_citation_is_named_and_the_message_that_says_so_is_cited() -> None:
    candles, knee = 3, 4
    for judged in (None, [[candles]]):
        chat = Writer(says(f"The cake had 12 candles and cherries on top [{knee}]."), judged=judged)
        answered = answer(await Memory(writer=chat).run(CAKE, planner="never"))
        assert answered.text == "The cake had 12 candles and cherries on top [1]."
        assert answered.citations[0].quote == "The cake had 12 candles and cherries on top."
        assert (answered.misquoted, "wrong_citations" in [note.code for note in answered.notes]) == (1, True)


async def test_a_model_judges_all_statements_in_one_question() -> None:
    text = "Dasha made a dessert with poppy seeds [1]. It had 12 candles [2]. Marcello came by helicopter [1]."
    chat = Writer(says(text), judged=[[1], [2], []])
    events = await Memory(writer=chat).run(CAKE, planner="never")
    answered = answer(events)
    assert answered.text == "Dasha made a dessert with poppy seeds [1].\nIt had 12 candles [2]."
    assert (answered.judged, answered.support, len(chat.judgements)) == (True, round(2 / 3, 16), 1)
    assert answered.unsupported == ("Marcello came by helicopter.",)
    shown = str(chat.judgements[0].messages[-1]["content"])
    assert "1. Dasha made a dessert" in shown
    assert '<source n="1"' in shown


async def test_no_yes_of_a_model_verifies_what_the_messages_contradict() -> None:
    text = "The cake had 13 candles [2]. Dasha baked a poppy seed cake [1]. It pleased the guests with poppy seeds [1]."
    chat = Writer(says(text), judged=[[2], [1], [1]])
    answered = answer(await Memory(writer=chat).run(CAKE, planner="never"))
    thirteen, poppy, guests = answered.statements
    assert (thirteen.support, thirteen.turned, thirteen.judged) == ("contradicted", ("13",), True)
    assert (thirteen.kept, thirteen.is_verified) == (False, False)
    assert (poppy.support, poppy.is_verified, poppy.numbers) == ("in_words", True, (1,))
    assert (guests.support, guests.missing, guests.is_verified) == ("differs", ("pleased", "guests"), True)
    assert "13" not in answered.text
    assert (answered.judged, answered.judge, answered.support) == (True, "", round(2 / 3, 16))


async def test_another_model_may_judge_what_one_wrote() -> None:
    writer = Writer(says("Dasha baked a poppy seed cake [1]."))
    judge = Writer(says("unused"), judged=[[1]])
    judge.model = "a-judge"
    answered = answer(await Memory(writer=writer, judge=judge).run(CAKE, planner="never"))
    assert (answered.judge, len(judge.judgements), len(writer.judgements)) == ("a-judge", 1, 0)
    assert answered.statements[0].is_verified


@pytest.mark.parametrize("verdict", [fails(LLMError("down")), says(""), says("I think so"), says('{"statements": []}')])
async def test_when_no_verdict_comes_words_decide(verdict: Any) -> None:
    chat = Writer(says("Dasha baked a poppy seed cake [1]. Marcello came by helicopter [1]."), verdict=verdict)
    answered = answer(await Memory(writer=chat).run(CAKE, planner="never"))
    assert (answered.text, answered.judged) == ("Dasha baked a poppy seed cake [1].", False)
    assert answered.support == 0.5


async def test_a_late_verdict_does_not_outlast_the_run() -> None:
    waiting = replace(says("?"), seconds=600.0)
    chat = Writer(says("Dasha baked a poppy seed cake [1]."), verdict=waiting)
    memory = Memory(writer=chat, seconds=3.0)
    answered = answer(await memory.run(CAKE, planner="never", enough_coverage=0.0))
    assert (answered.outcome, answered.judged, answered.support) == ("answered", False, 1.0)
    assert memory.seconds == 3.0


async def test_a_figure_that_no_message_holds_is_no_support() -> None:
    chat = Writer(says("The cake had 13 candles and cherries on top [1]."))
    answered = answer(await Memory(writer=chat).run(CAKE, planner="never"))
    assert (answered.support, answered.outcome) == (None, "refused")


async def test_what_the_memory_does_not_hold_is_looked_for_once_more() -> None:
    memory = Memory()
    events = await memory.run(NOWHERE)
    answered, end = answer(events), events[-1]
    assert phases(events) == [(1, "plan"), (2, "retrieve"), (3, "refine"), (4, "answer")]
    assert [most for _query, _fusion, most, _where in memory.asked] == [10, 30]
    assert (answered.outcome, answered.text, answered.coverage < 0.5) == ("passages", "", True)
    assert isinstance(end, RunFinished)
    assert end.fallback == ""


@pytest.mark.parametrize(
    "question",
    [
        "Which orthopedist sells cherries and a kitchen telescope?",
        "What discount did the orthopedist give for the telescope?",
    ],
)
async def test_words_that_nobody_says_together_are_no_answer(question: str) -> None:
    chat = Writer(says("Nobody knows."))
    answered = answer(await Memory(writer=chat).run(question, planner="never", refine="off"))
    assert (answered.outcome, answered.coverage < 0.5, answered.citations) == ("refused", True, ())


async def test_looking_once_more_moves_no_topic() -> None:
    once, twice = [await Memory().run(NOWHERE, refine=refine) for refine in ("off", "on")]
    first, second = [
        [each.id for event in events if isinstance(event, CandidatesFound) for each in event.candidates]
        for events in (once, twice)
    ]
    assert first == second


async def test_topics_stay_in_the_order_of_the_search_where_no_cross_encoder_reads() -> None:
    memory = Memory()
    events = await memory.run(REPLICA, rerank="always")
    (found,) = [event for event in events if isinstance(event, CandidatesFound)]
    searched = memory._found(REPLICA, memory.asked[0][1], 10, memory.asked[0][3]).event
    assert [each.id for each in found.candidates] == [each.id for each in searched.candidates]
    assert used(events, "rerank")[0].result["moved"] == 0


async def test_a_model_that_finds_no_answer_in_the_sources_is_believed() -> None:
    answered = answer(await Memory(writer=Writer(says("NOT_IN_MEMORY"))).run(CAKE, planner="never"))
    assert (answered.outcome, [note.code for note in answered.notes]) == ("refused", ["nothing_found"])


async def test_looking_again_adds_other_words_and_takes_nothing_away() -> None:
    chat = Writer(
        says(json.dumps({"passage": "Kostya won the tournament.", "paraphrases": ["chess champion", "winner"]})),
        says("NOT_IN_MEMORY"),
    )
    memory = Memory(writer=chat)
    events = await memory.run(NOWHERE)
    queries = [query for query, *_rest in memory.asked]
    assert queries == [NOWHERE, NOWHERE, "Kostya won the tournament.", "chess champion", "winner"]
    first, second = used(events, "search")
    assert second.result["hits"] >= first.result["hits"]
    (found,) = [event for event in events if isinstance(event, CandidatesFound)]
    ids = [candidate.id for candidate in found.candidates]
    assert len(ids) == len(set(ids))
    assert [candidate.rank for candidate in found.candidates] == list(range(1, len(ids) + 1))


async def test_what_a_model_says_twice_is_searched_once() -> None:
    same = says(json.dumps({"passage": "Kostya won it.", "paraphrases": ["Kostya won it.", NOWHERE]}))
    memory = Memory(writer=Writer(same, says("NOT_IN_MEMORY")))
    await memory.run(NOWHERE)
    assert [query for query, *_rest in memory.asked] == [NOWHERE, NOWHERE, "Kostya won it."]


async def test_a_model_may_search_once_more_and_the_numbers_of_its_sources_stay() -> None:
    more = calls(ToolCall("c1", "search", json.dumps({"queries": ["Kostya got a telescope"], "k": 1})))
    chat = Writer(more, says("Dasha baked a poppy seed cake [1]. Kostya got a telescope [4]."))
    events = await Memory(writer=chat).run(CAKE, planner="never", hits=3, enough_coverage=0.0)
    answered, asked = answer(events), [event for event in used(events) if event.asked_by == "model"]
    assert [(event.tool, event.outcome, event.step) for event in asked] == [("search", "done", 3)]
    assert phases(events)[-2:] == [(3, "answer"), (4, "answer")]
    assert [citation.topic for citation in answered.citations] == ["Topic:2", "Topic:5"]
    # The last step accepts no more calls.
    assert [bool(request.tools) for request in chat.requests] == [True, False]


@pytest.mark.parametrize(
    ("name", "arguments", "code"),
    [
        ("search", '{"queries": []}', "bad_input: queries too_short"),
        ("search", '{"queries": ["x"], "k": 5000}', "bad_input: k less_than_equal"),
        ("search", '{"queries": ["x"], "rm": "-rf"}', "bad_input: rm extra_forbidden"),
        ("search", '{"queries": ["x"], "since": "tomorrow"}', "bad_input: since string_pattern_mismatch"),
        ("search", "[" * 5000, "bad_input: queries missing"),
        ("verify", '{"claim": ""}', "bad_input: claim string_too_short"),
        ("launch_rockets", "{}", "no_such_tool"),
        ("fetch_docs", '{"ids": [1]}', "no_such_tool"),
    ],
)
async def test_a_call_that_is_not_valid_is_refused_and_answered(name: str, arguments: str, code: str) -> None:
    chat = Writer(calls(ToolCall("c1", name, arguments)), says("Dasha baked a poppy seed cake [1]."))
    events = await Memory(writer=chat).run(CAKE, planner="never", enough_coverage=0.0)
    (refused,) = [event for event in used(events) if event.asked_by == "model"]
    assert (refused.outcome, refused.code) == ("refused", code)
    assert answer(events).outcome == "answered"


async def test_a_tool_that_is_late_is_cancelled_and_the_run_goes_on() -> None:
    cancelled = asyncio.Event()

    async def never(query: str, texts: Sequence[str]) -> RerankScores:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        raise AssertionError

    ports = replace(Memory().ports, rerank_scores=never)
    events = await Memory().run(CAKE, ports, rerank="always", tool_seconds=1.5)
    (late,) = used(events, "rerank")
    assert (late.outcome, late.code, late.result) == ("late", "out_of_time", {})
    assert cancelled.is_set()
    assert isinstance(events[-1], RunFinished)


async def test_queries_wait_for_their_vectors_side_by_side() -> None:
    queries = ("cake with poppy seeds", "candles and cherries", "what Dasha bakes")
    memory = Memory(writer=Writer(plans(*queries), says("Dasha baked a poppy seed cake [1].")))
    all_wait = asyncio.Barrier(len(queries))

    async def search(line: QueryEnriched) -> PreparedSearch:
        if line.query in queries:
            await all_wait.wait()
        return await memory.ports.search(line)

    events = await memory.run(CAKE, replace(memory.ports, search=search), planner="always", refine="off")
    assert {query for query, *_rest in memory.asked} == {CAKE, *queries}
    assert used(events, "search")[0].outcome == "done"


def late(ports: Ports, times: int) -> Ports:
    """The first searches, so many of them, end with their tool."""
    left = [times]

    async def search(line: QueryEnriched) -> PreparedSearch:
        prepared = await ports.search(line)

        async def find(**given: Any) -> Found:
            if left[0] > 0:
                left[0] -= 1
                await asyncio.Event().wait()
            return await prepared.find(**given)

        return replace(prepared, find=find)

    return replace(ports, search=search)


async def test_when_every_search_is_late_the_run_ends_as_such() -> None:
    async def find(**given: Any) -> Any:
        raise SearchTimeout

    async def search(line: Any) -> PreparedSearch:
        return PreparedSearch(line, find)

    with pytest.raises(SearchTimeout):
        await Memory().run(CAKE, replace(Memory().ports, search=search))


async def test_when_both_looks_are_late_the_question_is_searched_for_and_answered_once() -> None:
    chat = Writer(says("It was a poppy seed cake [1]."))
    for memory, outcome in ((Memory(), "passages"), (Memory(writer=chat), "answered")):
        events = await memory.run(CAKE, late(memory.ports, 2), planner="never", tool_seconds=0.05)
        assert [(event.outcome, event.tool) for event in used(events)][1:] == [("late", "search")] * 2
        answered, end = answer(events), events[-1]
        assert (answered.outcome, "searched_plainly" in [note.code for note in answered.notes]) == (outcome, True)
        assert answered.citations[0].quote.startswith("Dasha baked a poppy seed cake")
        assert isinstance(end, RunFinished)
        assert (end.fallback, end.selected[0].id) == ("", "Topic:2")
    assert [request.tools for request in chat.requests] == [()]


async def test_late_searches_leave_time_for_an_answer_within_the_seconds_of_the_run() -> None:
    memory = Memory(seconds=1.5)
    answered = answer(await memory.run(CAKE, late(memory.ports, 2), tool_seconds=30.0))
    assert answered.citations[0].topic == "Topic:2"


async def test_a_refused_call_has_no_result_of_an_earlier_one() -> None:
    made = (
        ToolCall("c1", "search", json.dumps({"queries": ["Kostya got a telescope"]})),
        ToolCall("c2", "launch_rockets", "{}"),
        ToolCall("c3", "search", json.dumps({"queries": ["x"], "k": 5000})),
        ToolCall("c4", "fetch_docs", json.dumps({"ids": [1]})),
    )
    chat = Writer(calls(*made), says("Dasha baked a poppy seed cake [1]."))
    events = await Memory(writer=chat).run(CAKE, planner="never", enough_coverage=0.0)
    done, *refused = [event for event in used(events) if event.asked_by == "model"]
    assert (done.outcome, bool(done.result)) == ("done", True)
    assert [(event.outcome, event.result, event.topics) for event in refused] == [("refused", {}, ())] * 3


@pytest.mark.parametrize("step", [fails(LLMError("out of order")), says(""), calls(ToolCall("c", "search", "{}"))])
async def test_a_model_that_gives_no_answer_is_stood_in_for(step: Any) -> None:
    chat = Writer(step, says(""), says(""), says(""))
    answered = answer(await Memory(writer=chat).run(CAKE, planner="never", enough_coverage=0.0))
    assert (answered.text, answered.outcome, answered.notes[0].code) == ("", "passages", "no_answer")
    assert answered.citations


async def test_a_cross_encoder_decides_the_order_where_there_is_one() -> None:
    plain = await Memory().run(CAKE, rerank="always")
    encoded = await Memory(cross_encoder="reranker-v2").run(CAKE, rerank="always")
    assert used(plain, "rerank")[0].result["by"] == "scorer"
    assert used(encoded, "rerank")[0].result["by"] == "reranker-v2"
    assert used(encoded, "rerank")[0].result["moved"] > used(plain, "rerank")[0].result["moved"]


async def test_many_hits_are_scored_again_unless_that_is_switched_off() -> None:
    entries = (*TALK, *((topic + 10, day, author, f"Again: {text}") for topic, day, author, text in TALK))
    assert len(used(await Memory(entries).run(CAKE, hits=24), "rerank")) == 1
    assert used(await Memory(entries).run(CAKE, hits=24, rerank="never"), "rerank") == []


async def test_few_hits_that_differ_are_not_scored_again() -> None:
    memory = Memory()
    events = await memory.run(CAKE)
    assert memory.rescored == []
    assert used(events, "rerank") == []


async def test_the_same_question_gives_the_same_run() -> None:
    assert trace(await Memory().run(REPLICA)) == trace(await Memory().run(REPLICA))


# Each parameter with two values that lead to different runs of a question.
SETTINGS: list[tuple[str, Any, Any, str, dict[str, Any]]] = [
    ("max_steps", 4, 2, CAKE, {}),
    ("max_steps", 4, 3, NOWHERE, {}),
    ("planner", "auto", "never", CAKE, {}),
    ("hits", 10, 2, CAKE, {}),
    ("wider_hits", 30, 11, NOWHERE, {}),
    ("fusion", "zsum", "rrf", CAKE, {}),
    ("rrf_k", 60, 1, REPLICA, {"fusion": "rrf"}),
    ("rank_depth", 50, 1, REPLICA, {"fusion": "rrf"}),
    ("mmr", "off", "on", REPLICA, {}),
    ("mmr_lambda", 1.0, 0.0, REPLICA, {"mmr": "on"}),
    ("mmr_hits", 40, 2, REPLICA, {"mmr": "on"}),
    ("date_filter", "on", "off", "What did Anna rent in October 2025?", {}),
    ("rerank", "auto", "always", CAKE, {}),
    ("rerank_hits", 40, 2, CAKE, {"rerank": "always"}),
    ("context_tokens", 1800, 200, CAKE, {"hits": 12}),
    ("refine", "on", "off", NOWHERE, {}),
    ("enough_coverage", 0.8, 0.0, NOWHERE, {}),
    ("candidates", 50, 1, CAKE, {}),
]


@pytest.mark.parametrize(("name", "one", "other", "query", "given"), SETTINGS)
async def test_every_setting_changes_a_run(name: str, one: Any, other: Any, query: str, given: dict[str, Any]) -> None:
    first = await Memory().run(query, **{**given, name: one})
    second = await Memory().run(query, **{**given, name: other})
    assert without_bounds(first) != without_bounds(second)


def without_bounds(events: Sequence[Event]) -> list[Any]:
    """Returns a run without the bounds that its events repeat, so that only their effect counts."""
    kept = [event for event in trace(events) if not isinstance(event, StepStarted)]
    return [replace(event, arguments={}) if hasattr(event, "arguments") else event for event in kept] + phases(events)


async def test_settings_of_a_model_change_a_run() -> None:
    planned = ("cake with poppy seeds", "candles and cherries", "what Dasha bakes", "birthday of Anna", "gifts")
    spoken = says("Dasha baked a poppy seed cake [1]. It had 12 candles [2]. Cherries stood on top [2].")

    async def run(**given: Any) -> tuple[list[str], int, Any]:
        memory = Memory(writer=Writer(plans(*planned), spoken))
        events = await memory.run(CAKE, **{"planner": "always", "enough_coverage": 0.0, **given})
        return [query for query, *_rest in memory.asked], len(used(events, "verify")), answer(events)

    assert [len((await run(subqueries=most))[0]) for most in (3, 5)] == [4, 6]
    assert [(await run(claims=most))[1] for most in (1, 3)] == [1, 3]
    invented = says("Dasha baked a poppy seed cake [1]. It came by helicopter from Marcello [2].")
    outcomes = []
    for least in (0.4, 0.6):
        memory = Memory(writer=Writer(invented))
        outcomes.append(
            answer(await memory.run(CAKE, planner="never", enough_coverage=0.0, least_support=least)).outcome
        )
    assert outcomes == ["answered", "softened"]
    unsure = says("Dasha baked a poppy seed cake [1].")
    for name, values in (("least_coverage", (0.0, 1.0)), ("verify", ("on", "off")), ("claim_evidence", (3, 1))):
        runs = [
            await Memory(writer=Writer(unsure)).run(CAKE, planner="never", enough_coverage=0.0, **{name: value})
            for value in values
        ]
        assert without_bounds(runs[0]) != without_bounds(runs[1])


async def test_the_seconds_of_a_turn_and_of_the_run_bound_the_model() -> None:
    for bound in ({"turn_seconds": 1.5}, {"seconds": 1.5}):
        waiting = replace(says("Dasha baked a poppy seed cake [1]."), seconds=600.0)
        memory = Memory(writer=Writer(waiting), seconds=bound.get("seconds", 30.0))
        answered = answer(await memory.run(CAKE, planner="never", enough_coverage=0.0, **bound))
        assert answered.outcome == "passages"
