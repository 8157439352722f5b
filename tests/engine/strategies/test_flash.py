"""The flash reranker's turns: what is sent, what is read, what is kept."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from memoryapp.engine.chat.protocol import ChatRequest, Reply
from memoryapp.engine.events import Retried, SteppedDown, ToolCall, TopicsRead, TurnStarted
from memoryapp.engine.notes import english
from memoryapp.engine.parameters import Limits
from memoryapp.engine.prompts.rerank import TOOL_NAME
from memoryapp.engine.strategies.flash import rerank
from memoryapp.engine.text.lines import candidate_line
from tests.engine.reranks import end, ids, of, run
from tests.engine.scripted import (
    ScriptedChat,
    Step,
    after,
    asks,
    calls,
    candidate,
    chooses,
    emitted,
    message,
    request,
    says,
    topic,
    topic_reader,
)


async def test_the_model_reads_topics_and_its_choice_is_kept_in_its_order() -> None:
    events = await run(asks(1, 3, 2), chooses(3, 1))
    assert [event.kind for event in events] == [
        "turn_started",
        "model_replied",
        "topics_read",
        "turn_started",
        "model_replied",
        "run_finished",
    ]
    finished = end(events)
    assert [(s.id, s.rank, s.reason, s.vector_rank) for s in finished.selected] == [
        ("Topic:3", 1, "about 3", 5),
        ("Topic:1", 2, "about 1", 7),
    ]
    assert finished.fallback == ""
    assert finished.requested == ("Topic:1", "Topic:3", "Topic:2")
    assert finished.dropped == ("Topic:2",)
    assert finished.baseline[0] == "Topic:7"


async def test_the_first_turn_forces_the_tool_without_a_format_and_later_turns_ask_for_the_schema() -> None:
    chat = ScriptedChat(asks(1), chooses(1))
    events = await emitted(rerank, request(1, 2), chat=chat, read_topics=topic_reader(), limits=Limits())
    first, second = chat.requests
    assert (first.force_tool, first.answer_schema, len(first.tools)) == (TOOL_NAME, None, 1)
    assert (second.force_tool, len(second.tools)) == ("", 1)
    assert second.answer_schema is not None
    assert [(t.tool_choice, t.response_format) for t in of(TurnStarted, events)] == [
        ("forced", "none"),
        ("auto", "json_schema"),
    ]


async def test_each_turn_tells_only_the_messages_that_are_new() -> None:
    started = of(TurnStarted, await run(asks(1), chooses(1)))
    assert [[m.role for m in turn.prompt] for turn in started] == [["system", "user"], ["tool"]]
    assert "=== Topic 1 ===" in started[1].prompt[0].content


async def test_the_assistant_message_goes_back_unmodified_with_its_reasoning() -> None:
    details = [{"type": "reasoning.encrypted", "data": "xyz", "index": 0}]
    step = calls(ToolCall("call_1", TOOL_NAME, '{"ids": [1]}'), reasoning_details=details)
    chat = ScriptedChat(step, chooses(1))
    await emitted(rerank, request(1, 2), chat=chat, read_topics=topic_reader(), limits=Limits())
    assert isinstance(step.outcome, Reply)
    assert chat.requests[1].messages[2] is step.outcome.message


async def test_a_chat_that_gives_no_raw_message_still_gets_its_tool_calls_back() -> None:
    bare = Step(Reply(text="", tool_calls=(ToolCall("c9", TOOL_NAME, '{"ids": [1]}'),)))
    chat = ScriptedChat(bare, chooses(1))
    await emitted(rerank, request(1, 2), chat=chat, read_topics=topic_reader(), limits=Limits())
    assistant, tool = chat.requests[1].messages[2:]
    assert assistant["tool_calls"][0]["id"] == tool["tool_call_id"] == "c9"


async def test_every_tool_call_is_answered_once_whatever_is_wrong_with_it() -> None:
    step = calls(
        ToolCall("a", TOOL_NAME, '{"ids": [1]}'),
        ToolCall("b", "launch_rockets", "{}"),
        ToolCall("c", TOOL_NAME, "not json at all"),
        ToolCall("e", TOOL_NAME, '{"ids": [2]}'),
        ToolCall("d", TOOL_NAME, '{"ids": [99, "nonsense"]}'),
    )
    chat = ScriptedChat(step, chooses(1))
    events = await emitted(rerank, request(1, 2), chat=chat, read_topics=topic_reader(), limits=Limits())
    answers = [m for m in chat.requests[1].messages if m["role"] == "tool"]
    assert [m["tool_call_id"] for m in answers] == ["a", "b", "c", "e", "d"]
    assert "There is no tool 'launch_rockets'" in answers[1]["content"]
    assert "must look like" in answers[2]["content"]
    assert "Not among the candidates: Topic:99, nonsense." in answers[4]["content"]
    finished = end(events)
    assert finished.requested == ("Topic:1", "Topic:2")
    assert finished.hallucinated == ("Topic:99", "nonsense")


async def test_a_topic_is_not_sent_twice() -> None:
    chat = ScriptedChat(asks(1), asks(1, 2, call="call_2"), chooses(1))
    events = await emitted(rerank, request(1, 2), chat=chat, read_topics=topic_reader(), limits=Limits())
    assert [[t.id for t in read.read] for read in of(TopicsRead, events)] == [["Topic:1"], ["Topic:2"]]
    assert "Already loaded above: Topic:1." in chat.requests[2].messages[-1]["content"]


async def test_what_does_not_fit_is_listed_with_its_size_and_can_be_asked_for_again() -> None:
    big = [topic(n, message(n, "word " * 100)) for n in (1, 2, 3)]
    chat = ScriptedChat(asks(1, 2, 3), asks(2, call="call_2"), chooses(2))
    asked = replace(request(1, 2, 3), candidates=tuple(candidate(n, n, size_chars=500) for n in (1, 2, 3)))
    limits = Limits(read_chars=1_000)
    events = await emitted(rerank, asked, chat=chat, read_topics=topic_reader(*big), limits=limits)
    first, second = of(TopicsRead, events)
    assert [t.id for t in first.read] == ["Topic:1"]
    assert [(t.id, t.size_chars) for t in first.omitted] == [("Topic:2", 500), ("Topic:3", 500)]
    assert first.size_chars <= 1_000
    assert "Topic:2, 2 msgs, ~500 chars" in chat.requests[1].messages[-1]["content"]
    assert [t.id for t in second.read] == ["Topic:2"]


async def test_one_topic_above_the_whole_bound_is_cut_rather_than_never_shown() -> None:
    huge = topic(1, message(1, "word " * 1000))
    chat = ScriptedChat(asks(1), chooses(1))
    asked = replace(request(1), candidates=(candidate(1, 1, size_chars=5000),))
    events = await emitted(rerank, asked, chat=chat, read_topics=topic_reader(huge), limits=Limits(read_chars=1_000))
    (read,) = of(TopicsRead, events)
    assert read.size_chars == 1_000
    assert english(read.notes) == "Cut at 1000 characters: Topic:1."


async def test_many_calls_in_one_reply_share_the_bound() -> None:
    several = [ToolCall(f"c{n}", TOOL_NAME, json.dumps({"ids": [n]})) for n in (1, 2, 3)]
    events = await run(calls(*several), chooses(1), read_chars=300)
    assert sum(read.size_chars for read in of(TopicsRead, events)) <= 300


async def test_a_topic_erased_meanwhile_is_answered_with_a_line() -> None:
    async def nothing(numbers: object) -> list[Any]:
        return []

    chat = ScriptedChat(asks(1), chooses(1))
    events = await emitted(rerank, request(1), chat=chat, read_topics=nothing, limits=Limits())
    assert english(of(TopicsRead, events)[0].notes) == "No longer stored: Topic:1."


async def test_after_three_tool_turns_one_more_turn_answers_without_tools() -> None:
    chat = ScriptedChat(asks(1), asks(2, call="b"), asks(3, call="c"), chooses(3))
    events = await emitted(rerank, request(1, 2, 3), chat=chat, read_topics=topic_reader(), limits=Limits())
    last = chat.requests[-1]
    assert (last.tools, len(last.tools_off), last.force_tool) == ((), 1, "")
    assert [m["role"] for m in last.messages[-2:]] == ["tool", "user"]
    assert of(TurnStarted, events)[-1].tool_choice == "none"
    assert ids(end(events)) == ["Topic:3"]


async def test_max_topics_is_enforced_and_repeats_collapse() -> None:
    finished = end(await run(asks(1, 2, 3), chooses(2, 2, 3, 1), max_topics=2))
    assert ids(finished) == ["Topic:2", "Topic:3"]
    assert finished.dropped == ("Topic:1",)


async def test_ids_outside_the_candidates_are_dropped_and_shown() -> None:
    finished = end(await run(asks(1), says('{"topics": [42, 1], "people": [7]}')))
    assert ids(finished) == ["Topic:1"]
    assert finished.hallucinated == ("Topic:42", "Person:7")
    assert finished.fallback == ""


async def test_an_excerpt_is_located_in_the_messages_that_were_read() -> None:
    answer = {"topics": [{"id": 1, "reason": "r", "excerpt": "[User]: question 1\n[Assistant]: invented words here"}]}
    finished = end(await run(asks(1), says(json.dumps(answer))))
    (selected,) = finished.selected
    assert [(p.status, p.message) for p in selected.excerpt] == [("exact", 10), ("absent", None)]
    assert selected.excerpt_by == "model"


async def test_an_excerpt_of_a_topic_nobody_read_is_absent() -> None:
    answer = {"topics": [{"id": 2, "excerpt": "question 2"}]}
    (selected,) = end(await run(asks(1), says(json.dumps(answer)))).selected
    assert [piece.status for piece in selected.excerpt] == ["absent"]


async def test_a_large_topic_without_a_usable_excerpt_gets_its_best_exchanges() -> None:
    large = topic(
        1,
        message(1, "Which tyres for winter?"),
        message(2, "Studded ones.", "assistant"),
        message(3, "And the dinner? " + "x" * 30_000),
        message(4, "Soup.", "assistant"),
    )
    answer = json.dumps({"topics": [{"id": 1, "reason": "r", "excerpt": "nothing of the kind was said"}]})
    asked = request(1, query="what about winter tyres")
    chat = ScriptedChat(asks(1), says(answer))
    events = await emitted(rerank, asked, chat=chat, read_topics=topic_reader(large), limits=Limits())
    (selected,) = end(events).selected
    assert selected.excerpt_by == "scorer"
    assert [piece.message for piece in selected.excerpt] == [1, 2]


async def test_what_the_client_does_on_the_way_is_shown() -> None:
    step = after(asks(1), SteppedDown("forced tool choice", "required", "400"), Retried(1, "busy", 0.0))
    events = await run(step, chooses(1))
    assert [event.kind for event in events][:4] == ["turn_started", "stepped_down", "retried", "model_replied"]


async def test_cancelling_a_rerank_cancels_the_call_under_way() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    class Hanging:
        model = "hanging"

        async def converse(self, request: ChatRequest) -> AsyncIterator[Reply]:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()
            yield Reply(text="")

    stage = emitted(rerank, request(1), chat=Hanging(), read_topics=topic_reader(), limits=Limits())
    task = asyncio.ensure_future(stage)
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


@pytest.mark.slow
async def test_a_thousand_reranks_at_once_do_not_mix() -> None:
    async def one(number: int) -> list[str]:
        ids_ = (number, number + 1)
        chat = ScriptedChat(asks(number), chooses(number))
        return ids(end(await emitted(rerank, request(*ids_), chat=chat, read_topics=topic_reader(), limits=Limits())))

    chosen = await asyncio.gather(*(one(number) for number in range(1, 1001)))
    assert chosen == [[f"Topic:{number}"] for number in range(1, 1001)]


def test_the_line_of_a_candidate_is_the_documented_one() -> None:
    line = candidate_line("Topic:42", 0.724, "2025-07-25", 20, 16_100, "Развертывание ML-инфраструктуры на H100")
    assert line == "[Topic:42] (0.72) 2025-07-25 | 20 msgs, ~16K chars | Развертывание ML-инфраструктуры на H100"
