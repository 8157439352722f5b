"""A model's borders stand from one whole exchange on; what is less goes to the neighbour that is about the same."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from memoryapp.engine.agents.splitter import joined
from memoryapp.engine.embeddings import Embedder, EmbeddingError, Profile, Vectors
from memoryapp.engine.memory import LONGEST_SUMMARY, MessageContent, TopicDraft
from tests.conftest import BEGAN
from tests.engine.offline.test_segmenter import ThemeEmbedder

GENERAL = "General conversation"
EXTRACT = "the most telling sentence"


class Away:
    profile = Profile("test", "away", 2, 0.1)

    async def embed(self, texts: Sequence[str]) -> Vectors:
        raise EmbeddingError("The endpoint is away.")


def talk(
    *themes: tuple[str, int], pauses: Sequence[int] = (), speakers: Sequence[str] = ("user", "assistant")
) -> tuple[list[MessageContent], list[TopicDraft]]:
    """Drafts of so many messages about a theme, whose speakers take turns; before each draft some minutes pass."""
    messages: list[MessageContent] = []
    drafts, minute = [], 0
    for number, (theme, size) in enumerate(themes):
        minute += pauses[number] if pauses else 1
        ids = tuple(range(len(messages) + 1, len(messages) + size + 1))
        for id in ids:
            role = speakers[len(messages) % len(speakers)]
            messages.append(MessageContent(id, role, role, BEGAN + timedelta(minutes=minute), theme))
        drafts.append(TopicDraft(f"about {theme}", ids))
    return messages, drafts


async def extract(messages: Sequence[MessageContent]) -> str:
    return EXTRACT


def made(
    drafts: Sequence[TopicDraft],
    messages: Sequence[MessageContent],
    embedder: Embedder | None = None,
    least: int = 1,
    most_chars: int = 10_000,
) -> list[TopicDraft]:
    embedder = embedder or ThemeEmbedder()
    return asyncio.run(joined(drafts, messages, embedder, extract, least=least, most_chars=most_chars))


def sizes_of(drafts: Sequence[TopicDraft]) -> list[int]:
    return [len(draft.messages) for draft in drafts]


def test_four_subjects_that_the_model_cut_well_stay_four() -> None:
    messages, drafts = talk(("docker", 4), ("cake", 4), ("trip", 4), ("car", 4))
    assert made(drafts, messages) == drafts


def test_a_question_and_its_answer_are_a_topic_of_their_own() -> None:
    messages, drafts = talk(("weather", 2), ("tax", 2))
    assert made(drafts, messages) == drafts
    messages, drafts = talk(("weather", 2), ("tax", 3), speakers=("user", "peer"))
    assert made(drafts, messages) == drafts
    messages, drafts = talk(("weather", 2), ("tax", 2), speakers=("user",))
    assert made(drafts, messages) == drafts


def test_an_exchange_that_a_border_tears_is_made_whole() -> None:
    messages, drafts = talk(("cake", 4), ("oven", 1), ("oven", 3))
    assert sizes_of(made(drafts, messages)) == [4, 4]
    messages, drafts = talk(("cake", 1), ("cake", 3), ("oven", 2))
    assert sizes_of(made(drafts, messages)) == [4, 2]
    # A reply and the next question are two messages and no exchange.
    messages, drafts = talk(("cake", 3), ("cake", 2), ("oven", 5))
    assert sizes_of(made(drafts, messages)) == [5, 5]


def test_what_is_small_goes_to_the_more_similar_neighbour_even_after_a_longer_pause() -> None:
    messages, drafts = talk(("honey cake", 4), ("old car", 1), ("car repair", 5), pauses=[0, 1, 30])
    assert made(drafts, messages) == [drafts[0], TopicDraft("about old car; about car repair", tuple(range(5, 11)))]
    messages, drafts = talk(("car repair", 4), ("old car", 1), ("honey cake", 5), pauses=[0, 30, 1])
    assert sizes_of(made(drafts, messages)) == [5, 5]


def test_without_vectors_the_shorter_pause_decides() -> None:
    messages, drafts = talk(("honey cake", 4), ("old car", 1), ("car repair", 5), pauses=[0, 1, 30])
    assert sizes_of(made(drafts, messages, Away())) == [5, 5]
    messages, drafts = talk(("honey cake", 4), ("old car", 1), ("car repair", 5), pauses=[0, 30, 1])
    assert sizes_of(made(drafts, messages, Away())) == [4, 6]


def test_a_person_may_wish_for_larger_topics() -> None:
    messages, drafts = talk(("docker", 4), ("cake", 4), ("trip", 4), ("car", 4))
    assert min(sizes_of(made(drafts, messages, least=6))) >= 6


def test_one_stays_small_where_its_neighbours_would_become_too_long() -> None:
    messages, drafts = talk(("tea", 6), ("tea", 1), ("tea", 6))
    assert made(drafts, messages, most_chars=20) == drafts


def test_a_summary_of_little_does_not_name_much() -> None:
    messages, drafts = talk(("cake", 1), ("talk", 5))
    [only] = made([drafts[0], TopicDraft(GENERAL, drafts[1].messages)], messages)
    assert only == TopicDraft(EXTRACT, (1, 2, 3, 4, 5, 6))
    messages, drafts = talk(("cake", 5), ("talk", 1))
    [only] = made([drafts[0], TopicDraft("Общий разговор", drafts[1].messages)], messages)
    assert only.summary == "about cake"


def test_a_long_summary_is_cut() -> None:
    messages, drafts = talk(("cake", 5), ("talk", 1))
    [only] = made([TopicDraft("a" * 400, drafts[0].messages), TopicDraft("b" * 400, (6,))], messages)
    assert len(only.summary) == LONGEST_SUMMARY


@given(
    st.lists(st.tuples(st.sampled_from(["tea", "car"]), st.integers(1, 9)), min_size=1, max_size=8),
    st.integers(1, 9),
    st.integers(10, 400),
    st.sampled_from([("user",), ("user", "peer"), ("user", "assistant"), ("peer", "user", "user")]),
)
def test_every_message_stays_in_order_and_no_topic_is_small_that_could_be_joined(
    themes: list[tuple[str, int]], least: int, most_chars: int, speakers: tuple[str, ...]
) -> None:
    messages, drafts = talk(*themes, speakers=speakers)
    found = made(drafts, messages, least=least, most_chars=most_chars)
    assert [id for draft in found for id in draft.messages] == [message.id for message in messages]
    sizes = sizes_of(found)
    for place, size in enumerate(sizes):
        beside = [sizes[near] for near in (place - 1, place + 1) if 0 <= near < len(sizes)]
        assert size >= least or all(3 * (size + other) > most_chars for other in beside)
