"""Summaries without a chat model: who wrote what and when, in words that distinguish the topic."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from memoryapp.engine.memory import MessageContent
from memoryapp.engine.text.summaries import StemFrequencies, background, statement_of, summary
from tests.engine.offline.test_segmenter import ThemeEmbedder

AT = datetime(2023, 5, 25, 10, tzinfo=UTC)
NAMES = {"melanie", "caroline"}


def talk(*lines: tuple[str, str], assistant: str = "") -> list[MessageContent]:
    """Messages as ``(author, text)``; the first author is the user, ``assistant`` is no person."""
    roles = {lines[0][0]: "user", assistant: "assistant"}
    return [
        MessageContent(number, roles.get(author, "peer"), author, AT + timedelta(minutes=number), text)
        for number, (author, text) in enumerate(lines)
    ]


def summed_up(messages: Sequence[MessageContent], memory: StemFrequencies | None = None) -> str:
    return asyncio.run(summary(messages, ThemeEmbedder(), memory))


FRIENDS = talk(
    ("Caroline", "Hey Mel! What's new?"),
    ("Melanie", "Wow, Caroline, I ran a charity race for mental health last Saturday!"),
    ("Caroline", "That's great, Mel! You are amazing."),
    ("Melanie", "Thanks! The charity race was rewarding."),
)


def test_a_summary_begins_with_the_subject_and_tells_who_said_what() -> None:
    line = summed_up(FRIENDS)
    assert line.startswith("Charity race, mental health — Melanie: ran a charity race for mental health last Saturday")
    assert line.endswith("(25 May 2023)")
    assert not any(filler in line for filler in ("Wow", "Hey", "Thanks", "That's"))


def test_a_russian_talk_gives_a_russian_summary() -> None:
    messages = talk(
        ("Анна", "Привет! У меня болит колено после пробежки, это мениск?"),
        ("Бот", "Похоже на мениск, сделайте МРТ колена."),
        ("Анна", "Спасибо! Записалась на МРТ колена на вторник."),
        assistant="Бот",
    )
    line = summed_up(messages)
    assert line.endswith("(25 мая 2023)")
    assert line.startswith("МРТ колена, ")
    assert "— болит колено после пробежки" in line
    assert "сделайте" not in line


def test_words_that_the_whole_memory_repeats_set_nothing_apart() -> None:
    memory = background([f"the charity race number {number}" for number in range(50)])
    messages = talk(
        ("Anna", "I saw the charity race of last Saturday"),
        ("Boris", "A pottery workshop for kids?"),
        ("Anna", "I joined the pottery workshop for kids"),
    )
    line = summed_up(messages, memory)
    assert line.startswith("Pottery workshop, kids — Anna: joined the pottery workshop")


def test_talk_of_which_no_sentence_stands_alone_is_told_by_its_own_words() -> None:
    messages = talk(("Anna", "Have you heard of the pottery workshop?"), ("Boris", "They moved it to Boston?"))
    assert "pottery workshop?" in summed_up(messages)


@pytest.mark.parametrize("text", ["ok", "?", "[photo]", ""])
def test_talk_that_says_nothing_has_a_summary_all_the_same(text: str) -> None:
    assert summed_up(talk(("Anna", text))) in (text, "General conversation")


@pytest.mark.parametrize(
    ("sentence", "text"),
    [
        ("Wow, Mel, I ran a race!", "ran a race!"),
        ("By the way, we're moving to Boston", "moving to Boston"),
        ("My friends are my rocks", "friends are my rocks"),
        ("Melanie painted the lake", "Melanie painted the lake"),
        ("Last weekend I joined a club", "Last weekend I joined a club"),
        ("Привет! У меня болит колено", "болит колено"),
        ("Ну а мы купили кухню", "купили кухню"),
    ],
)
def test_a_sentence_stands_after_its_speakers_name(sentence: str, text: str) -> None:
    statement = statement_of(sentence, NAMES, questions=False)
    assert statement is not None
    assert statement.text == text


@pytest.mark.parametrize(
    "sentence",
    ["That was great", "It's awesome stuff", "You are so brave", "I think it's lovely", "Wow!", "Это было здорово"]
    + ["Они уехали вчера", "How was your day?", "Got any plans?"],
)
def test_a_sentence_that_points_elsewhere_says_little(sentence: str) -> None:
    assert statement_of(sentence, NAMES, questions=False) is None


def test_a_sentence_of_nothing_but_fillers_costs_no_more_than_its_beginning() -> None:
    statement = statement_of("so " * 300_000, NAMES, questions=False)
    assert statement is None or len(statement.text) < 400


def test_what_a_user_asks_an_assistant_is_the_matter() -> None:
    statement = statement_of("How do I fix vLLM on an H100?", set(), questions=True)
    assert statement is not None
    assert statement.text == "How do I fix vLLM on an H100?"
