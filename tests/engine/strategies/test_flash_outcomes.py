"""Every way a rerank can end: the model's choice, nothing, or a fallback with its reason."""

from __future__ import annotations

from typing import Any

import pytest

from memoryapp.engine.budget import Usage
from memoryapp.engine.chat.protocol import LLMRefused, LLMTimeout, LLMUnavailable, Reply
from memoryapp.engine.events import ModelReplied, ToolCall, TopicsRead, TurnStarted
from memoryapp.engine.notes import english
from memoryapp.engine.parameters import Limits
from memoryapp.engine.prompts.rerank import TOOL_NAME
from memoryapp.engine.strategies.flash import rerank
from memoryapp.engine.strategies.strategy import fall_back
from tests.engine.reranks import VECTOR_TOP, end, ids, of, run
from tests.engine.scripted import (
    ScriptedChat,
    Step,
    asks,
    calls,
    chooses,
    emitted,
    fails,
    limited,
    request,
    says,
    slow,
    topic_reader,
)
from tests.support.clock import passes


async def test_a_valid_empty_choice_is_respected() -> None:
    finished = end(await run(asks(1), says('{"topics": []}')))
    assert (finished.selected, finished.fallback) == ((), "")
    assert english(finished.notes) == "The model found nothing relevant among the candidates."


async def test_a_choice_of_foreign_ids_only_stays_empty() -> None:
    finished = end(await run(asks(1), says("[98, 99]")))
    assert (finished.selected, finished.fallback) == ((), "all_hallucinated")
    assert finished.hallucinated == ("Topic:98", "Topic:99")


async def test_an_answer_without_reading_is_a_protocol_violation_in_forced_mode() -> None:
    finished = end(await run(chooses(1)))
    assert finished.fallback == "protocol_violation"
    assert ids(finished) == VECTOR_TOP
    assert [s.vector_rank for s in finished.selected] == [1, 2, 3, 4, 5]


async def test_an_answer_without_reading_is_accepted_in_auto_mode() -> None:
    events = await run(chooses(1), tool_mode="auto")
    assert (end(events).fallback, ids(end(events))) == ("", ["Topic:1"])
    assert of(TurnStarted, events)[0].tool_choice == "auto"


async def test_an_answer_in_words_is_the_choice_with_a_note_but_not_where_it_was_cut() -> None:
    words = "The relevant ones are [Topic:2] and [Topic:1]."
    finished = end(await run(asks(1, 2), says(words)))
    assert (ids(finished), finished.fallback, [note.code for note in finished.notes]) == (
        ["Topic:2", "Topic:1"],
        "",
        ["answer_in_words"],
    )
    cut = end(await run(asks(1, 2), limited(words[:-2])))
    assert (cut.fallback, cut.cut, finished.cut) == ("parse_error", True, False)


async def test_a_choice_that_ran_into_its_limit_is_kept_as_far_as_it_came_and_is_cut() -> None:
    finished = end(await run(asks(1, 2), limited('{"topics": [{"id": "Topic:2", "reason": "trip"}, {"id": "Top')))
    assert (ids(finished), finished.fallback, finished.cut) == (["Topic:2"], "", True)
    assert [note.code for note in finished.notes] == ["reply_at_limit"]


async def test_an_unreadable_answer_falls_back_to_the_first_requested_topics() -> None:
    finished = end(await run(asks(6, 5, 4, 3, 2, 1), says("I would rather talk about it.")))
    assert finished.fallback == "parse_error"
    assert ids(finished) == ["Topic:6", "Topic:5", "Topic:4", "Topic:3", "Topic:2"]
    assert english(finished.notes) == "The model's answer could not be read; the first topics it asked for stand in."


async def test_an_unreadable_answer_with_nothing_requested_falls_back_to_the_vector_order() -> None:
    finished = end(await run(calls(ToolCall("a", TOOL_NAME, "{}")), says("hm"), tool_mode="auto"))
    assert (finished.fallback, ids(finished)) == ("parse_error", VECTOR_TOP)
    assert english(finished.notes) == "The model's answer could not be read; the nearest topics by vector stand in."


@pytest.mark.parametrize(
    "call",
    [
        ToolCall("a", "launch_rockets", '{"ids": [1]}'),
        ToolCall("a", TOOL_NAME, "{}"),
        ToolCall("a", TOOL_NAME, '{"ids": []}'),
        ToolCall("a", TOOL_NAME, '{"ids": [98, 99]}'),
    ],
    ids=["another tool", "no ids", "an empty list", "unknown ids"],
)
async def test_a_call_that_reads_nothing_does_not_count_as_having_read(call: ToolCall) -> None:
    chat = ScriptedChat(calls(call), chooses(1))
    events = await emitted(rerank, request(1, 2, 3, 4, 5, 6, 7), chat=chat, read_topics=topic_reader(), limits=Limits())
    assert (end(events).fallback, ids(end(events)), end(events).requested) == ("protocol_violation", VECTOR_TOP, ())
    assert [turn.tool_choice for turn in of(TurnStarted, events)] == ["forced", "forced"]
    assert [asked.answer_schema for asked in chat.requests] == [None, None]


async def test_a_model_may_read_after_a_call_that_read_nothing() -> None:
    events = await run(asks(99), asks(2, call="b"), chooses(2))
    assert (end(events).fallback, ids(end(events)), end(events).requested) == ("", ["Topic:2"], ("Topic:2",))
    assert [turn.tool_choice for turn in of(TurnStarted, events)] == ["forced", "forced", "auto"]


async def test_an_answer_in_the_last_turn_counts_only_where_something_was_read() -> None:
    events = await run(asks(99), asks(98, call="b"), asks(97, call="c"), chooses(1))
    assert end(events).fallback == "protocol_violation"
    assert of(TurnStarted, events)[-1].tool_choice == "none"


async def test_a_topic_that_was_chosen_without_being_read_is_marked() -> None:
    finished = end(await run(asks(1), chooses(1, 2)))
    assert [(topic.id, topic.unread) for topic in finished.selected] == [("Topic:1", False), ("Topic:2", True)]


def declines(text: str = "", **fields: Any) -> Step:
    return Step(Reply(text=text, usage=Usage(100, 10), **fields))


@pytest.mark.parametrize(
    ("step", "code", "note"),
    [
        (declines(refusal="I can't help with that."), "refused", "The model refused to answer"),
        (declines(finish_reason="refusal"), "refused", "The model refused to answer"),
        (declines('{"topics": [1', finish_reason="content_filter"), "content_filter", "content filter stopped"),
    ],
    ids=["refusal", "as finish reason", "content filter"],
)
async def test_a_model_that_declines_is_an_outcome_of_its_own(step: Step, code: str, note: str) -> None:
    first = await run(step)
    assert (end(first).fallback, ids(end(first))) == (code, VECTOR_TOP)
    assert note in english(end(first).notes)
    (replied,) = of(ModelReplied, first)
    assert (replied.refusal, replied.error) == (step.outcome.refusal, "")  # type: ignore[union-attr]
    later = end(await run(asks(2), step))
    assert (later.fallback, ids(later)) == (code, ["Topic:2"])


async def test_the_run_ends_when_its_time_is_over_before_any_reading() -> None:
    events = await run(slow(asks(1)), seconds=5)
    finished = end(events)
    assert (finished.fallback, ids(finished)) == ("timeout", VECTOR_TOP)
    (replied,) = of(ModelReplied, events)
    assert replied.error.startswith("No answer within")


async def test_the_run_ends_when_its_time_is_over_after_reading() -> None:
    finished = end(await run(asks(2, 1), slow(chooses(1)), seconds=5))
    assert (finished.fallback, ids(finished)) == ("timeout", ["Topic:2", "Topic:1"])


async def test_a_timeout_of_a_turn_is_distinguished_from_one_of_the_run() -> None:
    finished = end(await run(asks(2), slow(chooses(1)), turn_seconds=20, seconds=50))
    assert (finished.fallback, ids(finished)) == ("turn_timeout", ["Topic:2"])
    assert end(await run(slow(asks(2)), turn_seconds=20, seconds=50)).fallback == "turn_timeout"


async def test_a_timeout_the_client_reports_counts_as_one() -> None:
    finished = end(await run(fails(LLMTimeout("endpoint gave no answer.")), turn_seconds=1, seconds=30))
    assert finished.fallback == "turn_timeout"
    assert end(await run(fails(LLMTimeout("late")), turn_seconds=30, seconds=30)).fallback == "timeout"


async def test_topics_that_cannot_be_loaded_in_time_end_the_run_with_what_was_requested() -> None:
    async def stuck(numbers: object) -> list[Any]:
        await passes(60)
        return []

    chat = ScriptedChat(asks(2))
    events = await emitted(rerank, request(1, 2), chat=chat, read_topics=stuck, limits=Limits(seconds=20))
    assert (end(events).fallback, ids(end(events))) == ("timeout", ["Topic:2"])
    assert "could not be loaded" in english(of(TopicsRead, events)[0].notes)


async def test_tool_calls_in_the_final_turn_end_the_run_with_what_was_requested() -> None:
    events = await run(asks(3), asks(2, call="b"), asks(1, call="c"), asks(4, call="d"))
    finished = end(events)
    assert finished.fallback == "max_tool_calls"
    assert ids(finished) == ["Topic:3", "Topic:2", "Topic:1"]
    assert len(of(ModelReplied, events)) == 4


@pytest.mark.parametrize("error", [LLMUnavailable("down"), LLMRefused("no key")], ids=["unavailable", "refused"])
async def test_a_failing_model_leads_to_the_vector_order_or_to_what_was_requested(error: LLMUnavailable) -> None:
    first = await run(fails(error))
    assert (end(first).fallback, ids(end(first))) == ("llm_error", VECTOR_TOP)
    later = end(await run(asks(2), fails(error)))
    assert (later.fallback, ids(later)) == ("llm_error", ["Topic:2"])


async def test_a_failed_turn_keeps_its_error_and_its_cost() -> None:
    error = LLMUnavailable("endpoint cannot answer now.", spent=Usage(120, 3, 0.25))
    (replied,) = of(ModelReplied, await run(fails(error)))
    assert replied.error == "endpoint cannot answer now."
    assert (replied.input_tokens, replied.output_tokens, replied.cost_usd) == (120, 3, 0.25)


async def test_an_empty_reply_is_asked_once_more() -> None:
    events = await run(asks(1), says(""), chooses(1))
    assert (end(events).fallback, ids(end(events))) == ("", ["Topic:1"])
    assert of(TurnStarted, events)[-1].prompt == ()


async def test_two_empty_replies_end_the_run() -> None:
    assert ids(end(await run(says(""), says("  ")))) == VECTOR_TOP
    finished = end(await run(asks(2), says(""), says("")))
    assert (finished.fallback, ids(finished)) == ("empty_response", ["Topic:2"])


async def test_without_candidates_no_model_is_asked() -> None:
    finished = end(await run(ids=()))
    assert (finished.selected, finished.fallback) == ((), "no_candidates")


def test_a_reranker_switched_off_takes_the_vector_order() -> None:
    finished = fall_back(request(1, 2, 3), "disabled", 2)
    assert (finished.fallback, ids(finished)) == ("disabled", ["Topic:3", "Topic:2"])
