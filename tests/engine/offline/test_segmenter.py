"""The segmenter puts each message into one topic, and cuts sessions between themes."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoryapp.engine.embeddings import Profile, Vectors, unit
from memoryapp.engine.memory import MessageContent, TopicDraft
from memoryapp.engine.offline import segmenter
from memoryapp.engine.offline.segmenter import SPLIT_CHARS, cover, segment
from tests.engine.scripted import message
from tests.examples import table

AT = datetime(2026, 1, 1, tzinfo=UTC)


class ThemeEmbedder:
    """Texts that share words are near each other: a vector counts words by their hash."""

    profile = Profile("test", "themes", 64, 0.1)

    async def embed(self, texts: Sequence[str]) -> Vectors:
        vectors = np.full((len(texts), 64), 0.01, dtype=np.float32)
        for row, text in enumerate(texts):
            for word in text.lower().split():
                vectors[row, sum(word.encode("utf-8", "replace")) % 64] += 1
        return unit(vectors)


def talk(*themes: str, turns: int = 8, pause: timedelta = timedelta(0)) -> list[MessageContent]:
    """Themes one after another, each in ``turns`` messages, with a pause between them."""
    messages: list[MessageContent] = []
    at = AT
    for theme in themes:
        at += pause
        for turn in range(turns):
            at += timedelta(minutes=1)
            role = "assistant" if turn % 2 else "user"
            messages.append(MessageContent(len(messages) + 1, role, role, at, f"{theme} step{turn}"))
    return messages


def topics(messages: Sequence[MessageContent]) -> list[TopicDraft]:
    return asyncio.run(segment(messages, ThemeEmbedder()))


def test_two_themes_become_two_topics_cut_where_the_talk_turns() -> None:
    drafts = topics(talk("knee doctor surgery recovery", "kubernetes cluster deploy nodes"))
    assert [draft.messages for draft in drafts] == [tuple(range(1, 9)), tuple(range(9, 17))]


def test_a_topic_is_cut_where_the_caller_says_it_is_too_long() -> None:
    messages = talk("knee doctor surgery recovery", turns=24)
    sizes = {message.id: len(message.text) for message in messages}
    drafts = asyncio.run(segment(messages, ThemeEmbedder(), 300))
    assert len(drafts) > 1
    assert all(sum(sizes[id] for id in draft.messages) <= 300 for draft in drafts)


def test_a_topic_that_is_too_small_joins_the_neighbour_that_is_more_like_it() -> None:
    messages = talk("knee doctor surgery recovery", turns=20)
    messages += [replace(m, id=m.id + 20) for m in talk("tea honey", "knee doctor bandage recovery", turns=8)]
    assert [len(draft.messages) for draft in topics(messages)] == [20, 8, 8]
    joined = asyncio.run(segment(messages, ThemeEmbedder(), SPLIT_CHARS, None, 10))
    assert [len(draft.messages) for draft in joined] == [20, 16]
    assert [id for draft in joined for id in draft.messages] == list(range(1, 37))


@given(st.integers(1, 40), st.lists(st.sampled_from(["knee doctor", "kubernetes nodes", "tea cup"]), max_size=5))
def test_a_session_has_one_topic_or_no_small_one(least: int, themes: list[str]) -> None:
    messages = talk(*themes, turns=7)
    drafts = asyncio.run(segment(messages, ThemeEmbedder(), SPLIT_CHARS, None, least))
    assert [id for draft in drafts for id in draft.messages] == [message.id for message in messages]
    assert len(drafts) < 2 or min(len(draft.messages) for draft in drafts) >= least


def test_a_single_theme_stays_whole() -> None:
    assert len(topics(talk("knee doctor surgery recovery", turns=24))) == 1


def test_a_summary_says_what_was_asked() -> None:
    [draft] = topics(talk("knee doctor surgery recovery"))
    assert "knee doctor surgery recovery" in draft.summary


def between_people(*texts: str) -> list[MessageContent]:
    """Messages of two people in turn, four minutes apart."""
    return [
        MessageContent(
            n, "peer" if n % 2 else "user", "Boris" if n % 2 else "Anna", AT + timedelta(minutes=4 * n), text
        )
        for n, text in enumerate(texts)
    ]


@pytest.mark.parametrize("question", ["How is the cluster?", "And the cluster, how is it? Tell me! [photo: what?]"])
def test_a_question_and_its_answer_are_never_cut_apart(question: str) -> None:
    knee, cluster = "knee doctor surgery", "kubernetes cluster deploy nodes"
    plain = between_people(*[knee] * 8, *[cluster] * 8)
    assert [len(draft.messages) for draft in topics(plain)] == [8, 8]
    asked = between_people(*[knee] * 7, question, *[cluster] * 8)
    for draft in topics(asked):
        assert draft.messages[-1] != 7


def test_a_picture_that_is_described_with_a_question_asks_nothing() -> None:
    messages = between_people(*["knee doctor surgery"] * 7, "knee doctor [photo: who?]", *["kubernetes nodes"] * 8)
    assert [len(draft.messages) for draft in topics(messages)] == [8, 8]


def test_the_offer_of_an_assistant_is_answered_unless_something_else_is_asked() -> None:
    messages = talk("knee doctor surgery recovery", "kubernetes cluster deploy nodes")
    offer = replace(messages[7], text="knee doctor surgery recovery. Shall I make a plan?")
    answered = [*messages[:7], offer, *messages[8:]]
    assert all(draft.messages[-1] != 8 for draft in topics(answered))
    asked = [*answered[:8], replace(messages[8], text="kubernetes cluster deploy nodes?"), *messages[9:]]
    assert [draft.messages for draft in topics(asked)] == [tuple(range(1, 9)), tuple(range(9, 17))]


def test_a_topic_that_is_too_long_is_not_cut_after_a_question() -> None:
    messages = between_people(*(f"knee doctor {'surgery ' * 5}{'?' if n % 4 == 1 else '.'}" for n in range(24)))
    drafts = asyncio.run(segment(messages, ThemeEmbedder(), 300))
    assert len(drafts) > 2
    asked = {message.id for message in messages if "?" in message.text}
    assert not asked & {draft.messages[-1] for draft in drafts[:-1]}


@pytest.mark.parametrize("words", [["", "  "], ["\ud800\x00"], ["[photo]"]])
def test_talk_without_words_is_still_a_topic(words: list[str]) -> None:
    messages = [MessageContent(n, "user", "Anna", AT, text) for n, text in enumerate(words, start=1)]
    [draft] = topics(messages)
    assert draft.messages == tuple(message.id for message in messages)
    assert draft.summary


def test_no_messages_are_no_topics() -> None:
    assert topics([]) == []


def test_a_topic_over_the_limit_is_split_again() -> None:
    long = [
        MessageContent(n, "assistant" if n % 2 else "user", "", AT, "the same words again " * 200) for n in range(30)
    ]
    sizes = {message.id: len(message.text) for message in long}
    drafts = topics(long)
    assert all(sum(sizes[id] for id in draft.messages) <= SPLIT_CHARS for draft in drafts)
    assert [id for draft in drafts for id in draft.messages] == list(sizes)


def test_one_message_over_the_limit_stays_whole() -> None:
    drafts = topics(
        [MessageContent(1, "user", "", AT, "x " * SPLIT_CHARS), MessageContent(2, "assistant", "", AT, "ok")]
    )
    assert [draft.messages for draft in drafts] == [(1,), (2,)]


def test_a_long_pause_makes_a_weak_turn_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segmenter, "_turns", lambda vectors: np.where(np.arange(len(vectors)) == 4, 1.5, 0.0))
    assert len(topics(talk("knee", "knee doctor"))) == 1
    assert len(topics(talk("knee", "knee doctor", pause=timedelta(minutes=40)))) == 2


@settings(deadline=None)
@given(st.integers(0, 25), st.randoms(use_true_random=False), st.sampled_from(["assistant", "peer"]))
def test_each_message_ends_in_exactly_one_topic_in_order(count: int, random, other: str) -> None:
    words = ["knee", "tax", "cluster", "", "Georgia trip"]
    messages = [
        MessageContent(
            n, random.choice(["user", other, "system"]), "", AT + timedelta(minutes=n * 7), random.choice(words)
        )
        for n in range(count)
    ]
    assert [id for draft in topics(messages) for id in draft.messages] == list(range(count))


def test_small_neighbours_are_joined_as_far_as_they_are_small_together() -> None:
    themes = ("knee doctor surgery", "kubernetes nodes", "honey cake oven", "tax office form")
    messages = talk(*themes, turns=8)

    def sizes(together: int) -> list[int]:
        drafts = asyncio.run(segment(messages, ThemeEmbedder(), together=together))
        return [len(draft.messages) for draft in drafts]

    assert (sizes(1), sizes(15)) == ([8, 8, 8, 8], [8, 8, 8, 8])
    assert sorted(sizes(16)) in ([16, 16], [8, 8, 16])
    assert sizes(40) == [32]


IDS = st.lists(st.integers(0, 30), max_size=12)


@given(st.lists(IDS, max_size=6), st.integers(0, 20))
def test_any_drafts_are_made_to_cover_each_message_once(groups: list[list[int]], count: int) -> None:
    drafts = [TopicDraft(f"topic {n}", tuple(ids)) for n, ids in enumerate(groups)]
    covered = cover(drafts, remarks(range(count)))
    assert sorted(id for draft in covered for id in draft.messages) == list(range(count))
    assert [draft.messages[0] for draft in covered] == sorted(draft.messages[0] for draft in covered)


def test_of_two_drafts_the_earlier_keeps_a_message() -> None:
    covered = cover([TopicDraft("a", (1, 2, 3)), TopicDraft("b", (3, 4))], remarks(range(1, 5)))
    assert [(draft.summary, draft.messages) for draft in covered] == [("a", (1, 2, 3)), ("b", (4,))]


def test_each_run_that_nobody_holds_becomes_a_topic_of_its_own() -> None:
    covered = cover([TopicDraft("a", (3,))], remarks(range(1, 5)))
    assert [draft.messages for draft in covered] == [(1, 2), (3,), (4,)]
    assert [draft.summary for draft in covered] == ["General conversation", "a", "General conversation"]


@pytest.mark.parametrize(("text", "expected"), table("extracts"))
def test_a_run_that_nobody_holds_is_named_in_its_language_whatever_an_assistant_writes(
    text: str, expected: str
) -> None:
    talk = [message(1, text), message(2, "Certainly! Here is the answer that you wanted.", "assistant")]
    assert [draft.summary for draft in cover([], talk)] == [expected]


def remarks(ids: Iterable[int]) -> list[MessageContent]:
    return [message(id, "said") for id in ids]
