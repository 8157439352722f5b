"""One question to a model: its turns are events, an unreadable answer is requested once more, all attempts count."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from django.utils.translation import override

from memoryapp.engine.agents.ask import Ask, UnreadableAnswer
from memoryapp.engine.budget import Usage
from memoryapp.engine.chat.protocol import ChatRequest, LLMError, LLMRefused, LLMTimeout, PartialReply, Reply
from memoryapp.engine.conversation import Conversation, TurnLimits
from memoryapp.engine.events import ModelReplied, Retried, ToolCall, TurnStarted
from memoryapp.engine.prompt_registry import built_in
from memoryapp.engine.prompts.prompt import ANSWER_AGAIN
from rerankui.runs.page.outcomes import error_words, reading_words
from tests.engine.scripted import ScriptedChat, Step, after, calls, fails, says, slow

MERGE, SCHEMA = built_in()["merge", "en"], {"type": "object"}


def number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


def question(chat: Any, seconds: float = 5.0, **given: Any) -> Ask[int]:
    return Ask(chat, MERGE, {"topics": "x"}, read=number, seconds=seconds, schema=SCHEMA, **given)


async def asked(*steps: Step, **given: Any) -> tuple[Ask[int], ScriptedChat]:
    chat = ScriptedChat(*steps)
    return await question(chat, **given).complete(), chat


async def test_an_answer_is_one_turn_with_the_prompt_its_variables_and_what_it_cost() -> None:
    ask, chat = await asked(after(says("42"), Retried(1, "busy", 0.0)))
    assert (ask.result(), ask.failure) == (42, None)
    started, retried, replied = ask.events
    assert isinstance(started, TurnStarted)
    assert (started.prompt_version, started.variables) == ("merge-en-0", {"topics": "x"})
    assert (started.tool_choice, started.response_format) == ("none", "json_schema")
    assert isinstance(retried, Retried)
    assert isinstance(replied, ModelReplied)
    assert replied.message == {"role": "assistant", "content": "42"}
    assert chat.requests[0].answer_schema == SCHEMA
    assert ask.usage == Usage(100, 10)


@pytest.mark.parametrize("error", [LLMTimeout("late"), LLMError("away"), LLMRefused("no")])
async def test_what_a_reader_saw_a_model_think_stays_when_its_turn_fails(error: LLMError) -> None:
    """It vanished from the page of a run in the moment in which it was missed most."""
    ask, _ = await asked(
        after(fails(error), PartialReply("", "The first three look"), PartialReply("{", "The first three"))
    )
    replied = ask.events[-1]
    assert isinstance(replied, ModelReplied)
    assert (replied.reasoning, replied.text) == ("The first three", "")
    assert replied.error


async def test_a_reply_that_was_read_in_another_way_than_it_came_leaves_a_note_and_is_no_error() -> None:
    step = says("42")
    assert isinstance(step.outcome, Reply)
    ask, _ = await asked(replace(step, outcome=step.outcome.noted("answer_in_call", name="json")))
    replied = ask.events[-1]
    assert isinstance(replied, ModelReplied)
    assert (replied.error, [note.code for note in replied.notes]) == ("", ["answer_in_call"])
    assert error_words(replied) == ""
    with override("ru"):
        assert reading_words(replied).startswith("Модель дала ответ в виде вызова инструмента 'json'")


async def test_an_unreadable_answer_is_shown_to_the_model_and_asked_for_once_more() -> None:
    ask, chat = await asked(says("forty-two"), says("42"))
    assert (ask.result(), ask.failure, ask.usage) == (42, None, Usage(200, 20))
    assert list(chat.requests[1].messages[2:]) == [
        {"role": "assistant", "content": "forty-two"},
        {"role": "user", "content": ANSWER_AGAIN["en"]},
    ]
    again = [event for event in ask.events if isinstance(event, TurnStarted)][1]
    assert [message.content for message in again.prompt] == [ANSWER_AGAIN["en"]]


@pytest.mark.parametrize(
    ("first", "cause"),
    [(says("one"), "parse_error"), (says(" "), "empty_response"), (calls(ToolCall("a", "b", "{}")), "parse_error")],
    ids=["prose", "nothing", "a tool that was not offered"],
)
async def test_after_two_unreadable_answers_there_is_none(first: Step, cause: str) -> None:
    ask, chat = await asked(first, first, says("42"))
    assert (len(chat.requests), ask.failure and ask.failure.cause) == (2, cause)
    with pytest.raises(UnreadableAnswer, match="could not be read"):
        ask.result()


@pytest.mark.parametrize("first", [says(""), calls(ToolCall("a", "b", "{}"))], ids=["nothing", "a tool"])
async def test_what_is_no_answer_at_all_is_not_shown_to_the_model_again(first: Step) -> None:
    ask, chat = await asked(first, says("42"))
    assert ask.result() == 42
    assert chat.requests[1].messages == chat.requests[0].messages


@pytest.mark.parametrize(
    ("step", "kind", "words"),
    [
        (fails(LLMRefused("no key", spent=Usage(7))), LLMError, "no key"),
        (fails(LLMTimeout("host gave no answer.")), LLMTimeout, "host gave no answer"),
        (slow(says("42")), LLMTimeout, r"no answer in 20 seconds"),
        (Step(Reply("", refusal="I would rather not.")), LLMError, "refused to answer: I would rather not"),
        (Step(Reply("", finish_reason="content_filter")), LLMError, "content filter stopped the answer"),
    ],
    ids=["refused", "late", "silent", "declined", "filtered"],
)
async def test_a_model_that_fails_is_not_asked_again(step: Step, kind: type[Exception], words: str) -> None:
    ask, chat = await asked(step, says("42"), seconds=20)
    assert len(chat.requests) == 1
    with pytest.raises(kind, match=words):
        ask.result()
    assert isinstance(ask.events[-1], ModelReplied)


async def test_one_try_is_one_question() -> None:
    ask, chat = await asked(says("one"), says("42"), tries=1)
    assert (len(chat.requests), ask.answer) == (1, None)


async def test_what_is_known_is_not_asked() -> None:
    ask, chat = await asked(answer=7)
    assert (ask.result(), ask.events, chat.requests) == (7, [], [])


async def test_no_time_is_a_failure_without_a_turn() -> None:
    ask, chat = await asked(says("42"), seconds=0.0)
    assert (ask.failure and ask.failure.cause, ask.events, chat.requests) == ("timeout", [], [])


async def test_whoever_leaves_in_the_middle_closes_the_chat_and_the_next_question_is_answered() -> None:
    open_now: list[str] = []
    has_spoken = asyncio.Event()

    class Talkative:
        model = "talkative"

        async def converse(self, request: ChatRequest) -> AsyncIterator[Retried | Reply]:
            open_now.append("chat")
            try:
                yield Retried(1, "busy", 0.0)
                if not has_spoken.is_set():
                    has_spoken.set()
                    await asyncio.Event().wait()
                yield Reply(text="42")
            finally:
                open_now.remove("chat")

    chat = Talkative()
    asking = asyncio.create_task(question(chat).complete())
    await has_spoken.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert open_now == []
    assert (await question(chat).complete()).result() == 42


async def test_a_conversation_tells_each_message_once() -> None:
    chat = ScriptedChat(says("a"), says("b"))
    conversation = Conversation(chat, MERGE, {"topics": "x"}, limits=TurnLimits(5.0, 5.0))
    events: list[Any] = []
    first = await conversation.turn(events.append)
    assert isinstance(first, Reply)
    conversation.keep(first)
    conversation.say("And now?")
    second = await conversation.turn(events.append)
    started = [event for event in events if isinstance(event, TurnStarted)]
    assert [[message.role for message in turn.prompt] for turn in started] == [["system", "user"], ["user"]]
    assert [turn.prompt_version for turn in started] == ["merge-en-0", ""]
    assert (conversation.turns, isinstance(second, Reply) and second.text) == (2, "b")
