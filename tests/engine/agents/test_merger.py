"""The merger: one summary for merged topics, whatever the model answers."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryapp.engine.agents.ask import MOST_CHARS, UnreadableAnswer
from memoryapp.engine.agents.merger import propose_summary
from memoryapp.engine.memory import LONGEST_SUMMARY
from tests.engine.scripted import ScriptedChat, message, says, topic


def merged(answer: str) -> str:
    topics = [topic(1, summary="Tea with Marina"), topic(2, summary="Cake for Marina")]
    ask = propose_summary(topics, chat=ScriptedChat(says(answer), says(answer)), seconds=5)
    return asyncio.run(ask.complete()).result()


@pytest.mark.parametrize(
    "answer",
    [
        '{"merged_summary": "Tea and cake"}',
        '```json\n{"merged_summary": "Tea and cake"}\n```',
        '{"should_merge": true, "answer": {"merged_summary": " Tea\\n and cake\\u0000"}}',
        "Tea and cake",
        '"Tea and cake"',
    ],
)
def test_a_summary_is_read_from_json_or_plain_words(answer: str) -> None:
    assert merged(answer) == "Tea and cake"


@pytest.mark.parametrize("answer", ["", "   ", '{"should_merge": false}', "[[[", '{"merged_summary": 5}', "```"])
def test_an_answer_without_a_summary_is_no_proposal(answer: str) -> None:
    with pytest.raises(UnreadableAnswer, match="could not be read"):
        merged(answer)


@given(st.text())
def test_a_summary_is_one_line_that_fits_and_can_be_stored(answer: str) -> None:
    try:
        summary = merged(answer)
    except UnreadableAnswer:
        return
    assert len(summary) <= LONGEST_SUMMARY
    assert summary == " ".join(summary.split())
    summary.encode()


def test_of_merged_topics_each_is_read_in_its_share() -> None:
    chat = ScriptedChat(says("Summary of t1"))
    large = [topic(id, *(message(id * 1_000 + n, f"t{id} " * 500) for n in range(90))) for id in range(1, 11)]
    asyncio.run(propose_summary(large, chat=chat, seconds=5).complete())
    prompt = chat.requests[0].messages[1]["content"]
    assert len(prompt) <= MOST_CHARS * 1.1
    assert all(f'"topic": {id}' in prompt and f"t{id} t{id}" in prompt for id in range(1, 11))


def test_a_summary_that_cannot_be_used_twice_is_none() -> None:
    assert merged("\u5173\u4e8e\u8336") == ""
    chat = ScriptedChat(says("Holidays"), says("Tea and cake"))
    ask = propose_summary([topic(1, summary="Tea"), topic(2, summary="Cake")], chat=chat, seconds=5)
    assert asyncio.run(ask.complete()).result() == "Tea and cake"
    assert "cannot be used" in chat.requests[1].messages[-1]["content"]
