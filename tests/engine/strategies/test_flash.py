"""The flash reranker: its turns, every way in which it can end, and candidates of every kind."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import httpx
import pytest

from memoryapp.engine.budget import Usage
from memoryapp.engine.chat.media import MediaContent
from memoryapp.engine.chat.protocol import ChatRequest, LLMRefused, LLMTimeout, LLMUnavailable, PartialReply, Reply
from memoryapp.engine.events import (
    MediaItem,
    ModelProgress,
    ModelReplied,
    Retried,
    SteppedDown,
    ToolCall,
    TopicsRead,
    TurnStarted,
)
from memoryapp.engine.notes import english
from memoryapp.engine.parameters import Limits
from memoryapp.engine.prompt_registry import built_in
from memoryapp.engine.prompts.prompt import PromptText, rendered
from memoryapp.engine.prompts.rerank import RERANK, TOOL_NAME, RerankRequest
from memoryapp.engine.strategies.flash import rerank
from memoryapp.engine.strategies.strategy import fall_back
from memoryapp.engine.text.lines import candidate_line
from tests.engine.endpoint import Endpoint, calls_tool, error
from tests.engine.endpoint import says as says_over_http
from tests.engine.scripted import (
    VECTOR_TOP,
    ScriptedChat,
    Step,
    after,
    artifact,
    asks,
    calls,
    candidate,
    chooses,
    emitted,
    end,
    fails,
    ids,
    limited,
    message,
    of,
    person,
    request,
    run,
    says,
    slow,
    topic,
    topic_reader,
)
from tests.support.clock import passes


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


# Every way a rerank can end: the model's choice, nothing, or a fallback with its reason.


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


async def test_an_unreadable_answer_falls_back_to_the_first_requested_topics() -> None:
    finished = end(await run(asks(6, 5, 4, 3, 2, 1), says("I would rather talk about it.")))
    assert finished.fallback == "parse_error"
    assert ids(finished) == ["Topic:6", "Topic:5", "Topic:4", "Topic:3", "Topic:2"]
    assert english(finished.notes) == "The model's answer could not be read; the first topics it asked for stand in."


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


# A rerank over topics, people and files at once; media that came with the query; progress of the model.


PETROV, MARIA = person(5, "Петров", "Коллега"), person(6, "Мария")
DOCS, PHOTO = artifact(3, "api-docs.pdf", "How the API works"), artifact(4, "knee.jpg", in_session=True)


def asking(*topics: int, **fields: Any) -> RerankRequest:
    return replace(request(*topics), people=(PETROV, MARIA), artifacts=(PHOTO, DOCS), **fields)


async def run_over_kinds(asked: RerankRequest, *steps: Step, **limits: Any) -> tuple[list[Any], ScriptedChat]:
    chat = ScriptedChat(*steps)
    events = await emitted(rerank, asked, chat=chat, read_topics=topic_reader(), limits=Limits(**limits))
    return events, chat


def answer(**kinds: list[Any]) -> Step:
    return says(json.dumps(kinds, ensure_ascii=False))


async def test_people_and_files_are_chosen_with_reasons_in_the_models_order() -> None:
    people = [{"id": "Person:6", "reason": "asked about"}, {"id": 5, "reason": "colleague"}]
    events, _ = await run_over_kinds(asking(1, 2), asks(1), answer(topics=[1], people=people, artifacts=["Artifact:3"]))
    finished = end(events)
    assert ids(finished) == ["Topic:1"]
    assert [(p.id, p.rank, p.reason, p.score) for p in finished.people] == [
        ("Person:6", 1, "asked about", 0.6),
        ("Person:5", 2, "colleague", 0.6),
    ]
    assert [(a.id, a.rank, a.vector_rank) for a in finished.artifacts] == [("Artifact:3", 1, 2)]


async def test_the_prompt_shows_the_lines_of_every_kind() -> None:
    _, chat = await run_over_kinds(asking(1, inner_circle=("Лена, сестра",)), asks(1), answer(topics=[1]))
    system, user = (str(message["content"]) for message in chat.requests[0].messages)
    assert f"<people_candidates>\n{PETROV.line}\n{MARIA.line}\n</people_candidates>" in user
    assert f"<artifact_candidates>\n{PHOTO.line}\n{DOCS.line}\n</artifact_candidates>" in user
    assert "- Лена, сестра" in system
    assert "at most 15 topics, 10 people and 10 files" in system.lower()


async def test_a_choice_of_people_alone_is_a_choice() -> None:
    events, _ = await run_over_kinds(asking(1), asks(1), answer(topics=[99], people=[5]))
    finished = end(events)
    assert (finished.fallback, finished.notes, ids(finished)) == ("", (), [])
    assert [p.id for p in finished.people] == ["Person:5"]
    assert finished.hallucinated == ("Topic:99",)


async def test_without_topic_candidates_the_answer_is_asked_for_at_once_and_breaks_no_protocol() -> None:
    events, chat = await run_over_kinds(asking(), answer(topics=[], people=[5], artifacts=[]))
    finished = end(events)
    assert (finished.fallback, [p.id for p in finished.people]) == ("", ["Person:5"])
    (asked,) = chat.requests
    assert (asked.tools, asked.tools_off, asked.force_tool) == ((), (), "")
    assert asked.answer_schema is not None
    (turn,) = of(TurnStarted, events)
    assert (turn.tool_choice, turn.response_format) == ("none", "json_schema")


async def test_a_model_that_calls_a_tool_it_does_not_have_ends_with_nothing() -> None:
    step = calls(ToolCall("a", TOOL_NAME, '{"ids": [1]}'))
    finished = end((await run_over_kinds(asking(baseline=("Topic:9",)), step))[0])
    assert (finished.fallback, finished.selected, finished.people) == ("max_tool_calls", (), ())


@pytest.mark.parametrize(
    ("steps", "fallback"),
    [
        ((fails(LLMUnavailable("down")),), "llm_error"),
        ((answer(topics=[1], people=[5], artifacts=[3]),), "protocol_violation"),
        ((asks(1), says("no idea, Person:5 perhaps")), "parse_error"),
        ((asks(1), answer(people=[77], artifacts=["Artifact:78"])), "all_hallucinated"),
        ((says(""), says("")), "empty_response"),
        ((asks(1), slow(answer(people=[5]))), "turn_timeout"),
    ],
)
async def test_no_fallback_adds_people_or_files(steps: tuple[Step, ...], fallback: str) -> None:
    finished = end((await run_over_kinds(asking(1, 2), *steps, turn_seconds=20, seconds=50))[0])
    assert (finished.fallback, finished.people, finished.artifacts) == (fallback, (), ())


async def test_ids_of_all_kinds_that_are_no_candidates_are_kept_apart() -> None:
    events, _ = await run_over_kinds(
        asking(1), asks(1), answer(topics=[1, 98], people=["Person:77", "Петров"], artifacts=["Artifact:session:9"])
    )
    assert end(events).hallucinated == ("Topic:98", "Person:77", "Петров", "Artifact:session:9")


async def test_each_kind_has_its_limit() -> None:
    events, _ = await run_over_kinds(
        asking(1, 2), asks(1), answer(topics=[2, 1], people=[6, 5], artifacts=[3, 4]),
        max_topics=1, max_people=1, max_artifacts=1,
    )  # fmt: skip
    finished = end(events)
    assert [[s.id for s in kind] for kind in (finished.selected, finished.people, finished.artifacts)] == [
        ["Topic:2"],
        ["Person:6"],
        ["Artifact:3"],
    ]


async def test_more_than_none_of_a_kind_that_is_not_wanted_is_no_hallucination() -> None:
    finished = end((await run_over_kinds(asking(1), asks(1), answer(people=[5]), max_people=0))[0])
    assert (finished.fallback, finished.people) == ("", ())


@pytest.mark.parametrize(
    ("named", "files", "chosen"),
    [
        ("Artifact:session", (PHOTO, DOCS), ["Artifact:4"]),
        ("Artifact:session:1", (PHOTO, DOCS), ["Artifact:4"]),
        ("Artifact:session:2", (PHOTO, artifact(8, "b.jpg", in_session=True)), ["Artifact:8"]),
        ("Artifact:session:2", (PHOTO, DOCS), []),
        ("Artifact:session", (PHOTO, artifact(8, "b.jpg", in_session=True)), []),
    ],
)
async def test_a_file_of_the_running_conversation_may_be_named_by_its_place(
    named: str, files: Any, chosen: list[str]
) -> None:
    finished = end(
        (await run_over_kinds(replace(asking(1), artifacts=files), asks(1), answer(topics=[1], artifacts=[named])))[0]
    )
    assert [a.id for a in finished.artifacts] == chosen
    assert finished.hallucinated == (() if chosen else (named,))


async def test_the_first_turn_tells_the_prompt_and_what_it_was_filled_with() -> None:
    events, chat = await run_over_kinds(
        asking(1, query="what about $profile?", profile="Lives in Perm"), asks(1), chooses(1)
    )
    first, second = of(TurnStarted, events)
    assert (first.prompt_version, second.prompt_version, second.variables) == ("rerank-en-0", "", {})
    assert first.variables["query"] == "what about $profile?"
    assert first.variables["max_people"] == "10"
    assert rendered(built_in()["rerank", "en"], first.variables) == list(chat.requests[0].messages)


async def test_a_prompt_in_force_is_used_and_named() -> None:
    mine = PromptText(RERANK, "en", 3, "Choose well.", RERANK.built_in("en").user)
    events, chat = await run_over_kinds(asking(1, prompts={**built_in(), ("rerank", "en"): mine}), asks(1), chooses(1))
    assert chat.requests[0].messages[0] == {"role": "system", "content": "Choose well."}
    assert of(TurnStarted, events)[0].prompt_version == "rerank-en-3"


# Media that came with the query

ITEM = MediaItem("ab" * 32, "image", "image/png", "mri.png", 4)
MRI = MediaContent(ITEM, b"\x89PNG")


async def test_media_stand_beside_the_text_and_are_named_in_the_trace_without_their_bytes() -> None:
    events, chat = await run_over_kinds(asking(1, media=(MRI,)), asks(1), chooses(1))
    text, image = chat.requests[0].messages[1]["content"]
    assert text["type"] == "text"
    assert "1. image mri.png (image/png, 4 bytes)" in text["text"]
    assert image == {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}}
    shown = of(TurnStarted, events)[0].prompt[1]
    assert (shown.content, shown.media) == (text["text"], (ITEM,))
    assert chat.requests[1].messages[1] == chat.requests[0].messages[1]


async def test_an_endpoint_that_cannot_see_is_asked_again_with_the_text_alone() -> None:
    refusal = LLMRefused("host does not know the model: No endpoints found that support image input.")
    events, chat = await run_over_kinds(asking(1, media=(MRI,)), fails(refusal), asks(1), chooses(1))
    (step,) = of(SteppedDown, events)
    assert (step.capability, step.instead, step.why) == ("media", "the text alone", str(refusal))
    assert [isinstance(request.messages[1]["content"], str) for request in chat.requests] == [False, True, True]
    assert [turn.turn for turn in of(TurnStarted, events)] == [1, 2, 3]
    assert of(TurnStarted, events)[1].prompt[1].media == ()
    assert of(ModelReplied, events)[0].error == str(refusal)
    assert (end(events).fallback, ids(end(events))) == ("", ["Topic:1"])


def blind(sent: dict[str, Any]) -> httpx.Response:
    """Refuses pictures; asks to read a topic, reads it, and chooses it."""
    if any(isinstance(message["content"], list) for message in sent["messages"]):
        return error(404, "No endpoints found that support image input")
    return says_over_http('{"topics": [1]}') if "response_format" in sent else calls_tool()


async def test_the_next_run_steps_down_from_its_first_turn_without_showing_the_picture_again() -> None:
    endpoint = Endpoint(blind)
    chat = endpoint.chat()
    outcomes = []
    for _ in "ab":
        events = await emitted(rerank, asking(1, media=(MRI,)), chat=chat, read_topics=topic_reader(), limits=Limits())
        outcomes.append((of(SteppedDown, events), ids(end(events)), of(ModelReplied, events)[0].error))
    (first, chosen, refusal), (second, chosen_again, not_asked) = outcomes
    assert [step.capability for step in (*first, *second)] == ["media", "media"]
    assert chosen == chosen_again == ["Topic:1"]
    assert [step.why for step in (*first, *second)] == [refusal, not_asked]
    assert "was not asked" in not_asked
    assert sum(any(isinstance(m["content"], list) for m in sent["messages"]) for sent in endpoint.bodies) == 1


async def test_another_refusal_is_an_error_with_or_without_media() -> None:
    refusal = LLMRefused("host does not accept the API key: check LLM_API_KEY.")
    events, _ = await run_over_kinds(asking(1, media=(MRI,)), fails(refusal))
    assert end(events).fallback == "llm_error"
    assert of(ModelReplied, events)[0].error == str(refusal)


async def test_an_endpoint_that_refuses_the_text_too_is_an_error() -> None:
    step = fails(LLMRefused("no image input"))
    assert end((await run_over_kinds(asking(1, media=(MRI,)), step, step))[0]).fallback == "llm_error"


# Progress of the model


async def test_what_the_model_says_so_far_is_handed_on_with_its_turn() -> None:
    speaking = after(chooses(1), PartialReply("{", "let me"), PartialReply('{"topics"', "let me see"))
    events, _ = await run_over_kinds(asking(1), asks(1), speaking)
    assert of(ModelProgress, events) == [ModelProgress(2, "{", "let me"), ModelProgress(2, '{"topics"', "let me see")]
    assert end(events).fallback == ""
