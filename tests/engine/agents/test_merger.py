"""The merger: one summary for merged topics; and what any model may write as a summary."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryapp.engine.agents.ask import MOST_CHARS, UnreadableAnswer
from memoryapp.engine.agents.merger import propose_summary
from memoryapp.engine.agents.summary_checks import fault_of
from memoryapp.engine.memory import LONGEST_SUMMARY
from tests.engine.scripted import ScriptedChat, message, says, topic
from tests.examples import table


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


# What a model writes as a summary is about its messages, in their script, and only words.


TALKS = {
    "russian": [
        message(1, "Как испечь медовый торт? У меня духовка Bosch и вес 2 kg"),
        message(2, "Разогрей духовку до 180 градусов, коржи пеки семь минут.", "assistant"),
    ],
    "english": [
        message(1, "My flight to Lisbon was cancelled, what now?", author="Dora"),
        message(2, "Ask the airline for a refund.", "assistant"),
    ],
    "chinese": [
        message(1, "我想学习机器学习,从哪里开始?"),
        message(2, "可以从线性回归开始,用 PyTorch 练习。", "assistant"),
    ],
    "cat": [
        message(1, "The cat is sick, I take her to the vet on Monday."),
        message(2, "The vet has pills.", "assistant"),
    ],
    "train": [message(1, "I take the train to Gdansk at nine."), message(2, "Buy the ticket online.", "assistant")],
    "cake": [message(1, "I baked a honey cake for my sister."), message(2, "It needs seven layers.", "assistant")],
    "code": [
        message(1, "почему падает?"),
        message(2, "def main(): return json.loads(open('settings.json').read())\n" * 20, "assistant"),
    ],
    "smile": [message(1, "🙂")],
    "nothing": [],
}


@pytest.mark.parametrize(("summary", "talk", "fault"), table("unusable_summaries"))
def test_what_cannot_be_used_is_known(summary: str, talk: str, fault: str) -> None:
    assert fault_of(summary, TALKS[talk], others=["flight to Lisbon"]) == fault


@pytest.mark.parametrize(("summary", "talk"), table("usable_summaries"))
def test_what_says_what_the_messages_are_about_is_used(summary: str, talk: str) -> None:
    assert fault_of(summary, TALKS[talk]) is None


def test_an_earlier_summary_of_the_same_messages_may_be_repeated() -> None:
    assert fault_of("Holidays", TALKS["english"]) == "unrelated"
    assert fault_of("Holidays", TALKS["english"], known=["My holidays"]) is None
