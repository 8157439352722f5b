"""Parts that a model cut too small are joined: no message is lost, and only a part that does not fit stays small."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from memoryapp.engine.agents.small_topics import joined
from memoryapp.engine.memory import LONGEST_SUMMARY, MessageContent, TopicDraft
from memoryapp.engine.offline.segmenter import GENERAL
from tests.conftest import BEGAN


def talk(sizes: Sequence[int], pauses: Sequence[int] = ()) -> tuple[list[MessageContent], list[TopicDraft]]:
    """Drafts with these numbers of messages, ten characters each; before each draft is a pause of these minutes."""
    messages, drafts, minute = [], [], 0
    for number, size in enumerate(sizes):
        minute += pauses[number] if pauses else 1
        ids = tuple(range(len(messages) + 1, len(messages) + size + 1))
        messages += [MessageContent(id, "user", "Anna", BEGAN + timedelta(minutes=minute), "ten chars!") for id in ids]
        drafts.append(TopicDraft(f"s{number}", ids))
    return messages, drafts


def sizes_of(drafts: Sequence[TopicDraft]) -> list[int]:
    return [len(draft.messages) for draft in drafts]


def test_a_small_one_goes_to_the_neighbour_it_follows_sooner() -> None:
    messages, drafts = talk([6, 2, 6], [0, 30, 5])
    assert joined(drafts, messages, 6, 10_000) == [drafts[0], TopicDraft("s1; s2", tuple(range(7, 15)))]
    messages, drafts = talk([6, 2, 6], [0, 5, 30])
    assert joined(drafts, messages, 6, 10_000) == [TopicDraft("s0; s1", tuple(range(1, 9))), drafts[2]]


def test_small_ones_are_joined_until_they_are_large_enough() -> None:
    messages, drafts = talk([1, 1, 1, 1, 1])
    assert joined(drafts, messages, 9, 10_000) == [TopicDraft("s0; s1; s2; s3; s4", (1, 2, 3, 4, 5))]


def test_one_stays_small_where_its_neighbours_would_become_too_long() -> None:
    messages, drafts = talk([6, 2, 6])
    assert joined(drafts, messages, 6, 70) == drafts


def test_small_talk_adds_no_words_and_a_long_summary_is_cut() -> None:
    messages, drafts = talk([6, 2])
    [only] = joined([drafts[0], TopicDraft(GENERAL, drafts[1].messages)], messages, 6, 10_000)
    assert only.summary == "s0"
    [only] = joined([TopicDraft("a" * 400, drafts[0].messages), TopicDraft("b" * 400, (7, 8))], messages, 6, 10_000)
    assert len(only.summary) == LONGEST_SUMMARY


@given(st.lists(st.integers(1, 9), min_size=1, max_size=8), st.integers(1, 9), st.integers(10, 400))
def test_every_message_stays_in_order_and_no_topic_is_small_that_could_be_joined(
    sizes: list[int], least: int, most_chars: int
) -> None:
    messages, drafts = talk(sizes)
    found = joined(drafts, messages, least, most_chars)
    assert [id for draft in found for id in draft.messages] == [message.id for message in messages]
    sizes = sizes_of(found)
    for place, size in enumerate(sizes):
        beside = [sizes[near] for near in (place - 1, place + 1) if 0 <= near < len(sizes)]
        assert size >= least or all(10 * (size + other) > most_chars for other in beside)
