"""The splitter: whatever the model answers, each message is in exactly one part, and no part is too small."""

import asyncio
import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryapp.engine.agents.ask import MOST_CHARS, UnreadableAnswer
from memoryapp.engine.agents.splitter import Division, fitted, joined, propose_topics
from memoryapp.engine.chat.protocol import LLMError, LLMTimeout, LLMUnavailable
from memoryapp.engine.embeddings import Embedder, EmbeddingError, Profile, Vectors
from memoryapp.engine.memory import LONGEST_SUMMARY, MessageContent, TopicDraft
from tests.conftest import BEGAN
from tests.engine.offline.test_segmenter import ThemeEmbedder
from tests.engine.scripted import ScriptedChat, Step, fails, message, says, slow

GENERAL = "General conversation"
IDS = [3, 4, 7, 8, 20, 21]
TALK = [message(id, f"text {id} said of tea and cake", "assistant" if at % 2 else "user") for at, id in enumerate(IDS)]
NUMBERS: st.SearchStrategy[Any] = st.one_of(
    st.integers(-5, 30),
    st.sampled_from(IDS),
    st.floats(),
    st.text(max_size=5),
    st.none(),
    st.booleans(),
    st.just(10**30),
)
PARTS = st.fixed_dictionaries(
    {}, optional={"summary": st.text(max_size=9), "start_msg_id": NUMBERS, "end_msg_id": NUMBERS}
)
JSON = st.recursive(
    st.none() | NUMBERS | PARTS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8
)


def part(start: object, end: object, summary: object = "said") -> dict[str, object]:
    return {"summary": summary, "start_msg_id": start, "end_msg_id": end}


def answers(*parts: object) -> Step:
    return says(json.dumps({"topics": parts}))


def proposed(step: Step, messages: list[MessageContent] = TALK, seconds: float = 5.0) -> list[TopicDraft]:
    ask = propose_topics(messages, chat=ScriptedChat(step, step), seconds=seconds)
    return asyncio.run(ask.complete()).result().drafts


@given(st.one_of(st.lists(PARTS).map(lambda parts: json.dumps({"topics": parts})), JSON.map(json.dumps), st.text()))
def test_each_message_is_in_one_part_whatever_the_model_says(answer: str) -> None:
    try:
        drafts = proposed(says(answer))
    except UnreadableAnswer:
        return
    assert [id for draft in drafts for id in draft.messages] == IDS
    assert all(draft.summary.strip() and len(draft.summary) <= LONGEST_SUMMARY for draft in drafts)
    assert not any("\0" in draft.summary for draft in drafts)


@given(st.integers(1, 90), st.lists(st.tuples(st.integers(-9, 99), st.integers(-9, 99)), min_size=1, max_size=9))
def test_the_parts_of_a_talk_too_long_to_be_read_whole_hold_all_of_it(
    count: int, borders: list[tuple[int, int]]
) -> None:
    talk = [message(id, "long " * 1_000) for id in range(count * 10)]
    try:
        drafts = proposed(answers(*(part(start * 10, end * 10) for start, end in borders)), talk)
    except UnreadableAnswer:
        return
    assert [id for draft in drafts for id in draft.messages] == [message.id for message in talk]


def test_parts_are_taken_as_the_model_gave_them() -> None:
    drafts = proposed(answers(part(3, 7, "tea"), part(8, 21, "cake")))
    assert drafts == [TopicDraft("tea", (3, 4, 7)), TopicDraft("cake", (8, 20, 21))]


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([part(3, 8), part(7, 21)], [(3, 4, 7, 8), (20, 21)]),
        ([part(7, 21), part(3, 8)], [(3, 4, 7, 8), (20, 21)]),
        ([part(3, 21), part(7, 8)], [tuple(IDS)]),
        ([part(4, 7), part(20, 20)], [(3,), (4, 7), (8,), (20,), (21,)]),
        ([part(-100, 7), part(8, 999)], [(3, 4, 7), (8, 20, 21)]),
        ([part(5, 19), part(900, 999)], [(3, 4), (7, 8), (20, 21)]),
        ([part("7", "Message:8"), part("?", None)], [(3, 4), (7, 8), (20, 21)]),
        ([part(7, 3), part(8.0, 21)], [(3, 4, 7), (8, 20, 21)]),
    ],
)
def test_overlaps_gaps_and_strange_ids_are_mended(parts: list[object], expected: list[tuple[int, ...]]) -> None:
    assert [draft.messages for draft in proposed(answers(*parts))] == expected


@pytest.mark.parametrize(
    "answer",
    [
        'Here you are:\n```json\n{"topics": [{"summary": "a", "start_msg_id": 3, "end_msg_id": 21}]}\n```',
        '{"topics": [{"summary": "a", "start_msg_id": 3, "end_msg_id": 21}',
        '[{"summary": "a", "start_msg_id": 3, "end_msg_id": 21,}]',
        '{"answer": {"topics": [{"summary": "a", "start_msg_id": 3, "end_msg_id": 21}]}}',
    ],
)
def test_json_is_read_however_it_is_wrapped_or_cut_off(answer: str) -> None:
    assert proposed(says(answer)) == [TopicDraft("a", tuple(IDS))]


def test_a_part_without_a_summary_is_called_by_what_was_asked_first() -> None:
    first, second, _rest = proposed(answers(part(4, 7, " "), part(8, 8, None)))[1:]
    assert (first.summary[:7], second.summary[:7]) == ("text 7 ", "text 8 ")


def divided(*steps: Step) -> tuple[Division, ScriptedChat]:
    chat = ScriptedChat(*steps)
    ask = propose_topics(TALK, chat=chat, seconds=5.0)
    return asyncio.run(ask.complete()).result(), chat


def test_what_the_model_left_out_is_general_conversation() -> None:
    found, chat = divided(answers(part(3, 8, "tea")))
    assert found.drafts[-1] == TopicDraft(GENERAL, (20, 21))
    assert (found.left_out, len(chat.requests)) == (2, 1)


def test_a_model_that_leaves_out_more_than_half_is_asked_once_more() -> None:
    found, chat = divided(answers(part(3, 4, "tea")), answers(part(3, 21, "tea and cake")))
    assert (found, len(chat.requests)) == (Division([TopicDraft("tea and cake", tuple(IDS))]), 2)
    assert "leaves out 4 of 6 messages" in chat.requests[1].messages[-1]["content"]


def test_a_model_that_leaves_out_more_than_half_again_says_little_about_the_talk() -> None:
    found, chat = divided(answers(part(3, 4, "tea")), answers(part(20, 20, "cake")))
    assert (found.left_out, found.messages, found.is_scant, len(chat.requests)) == (5, 6, True, 2)
    found, _chat = divided(answers(part(3, 7, "tea")))
    assert (found.left_out, found.is_scant) == (3, False)


@pytest.mark.parametrize("second", [says("nonsense"), fails(LLMUnavailable("over quota"))])
def test_an_incomplete_answer_serves_where_the_second_try_brings_none(second: Step) -> None:
    found, _chat = divided(answers(part(3, 7, "tea"), part(8, 21, "")), second)
    assert [draft.summary for draft in found.drafts] == ["tea", "text 20 said of tea and cake"]


def test_a_topic_without_a_summary_is_asked_for_once_more() -> None:
    found, chat = divided(answers(part(3, 21, " ")), answers(part(3, 21, "tea")))
    assert (found.drafts[0].summary, len(chat.requests)) == ("tea", 2)
    assert "has no summary" in chat.requests[1].messages[-1]["content"]


def test_a_summary_that_cannot_be_used_is_asked_for_once_more() -> None:
    found, chat = divided(answers(part(3, 7, "tea"), part(8, 21, "<b>cake</b>")), answers(part(3, 21, "tea and cake")))
    assert (found.drafts, found.unfit) == ([TopicDraft("tea and cake", tuple(IDS))], frozenset())
    assert "it contains markup" in chat.requests[1].messages[-1]["content"]


@pytest.mark.parametrize("summaries", [("茶", "cake"), ("tea", "Holidays"), ("Tea!", "tea")])
def test_a_summary_that_cannot_be_used_again_is_replaced(summaries: tuple[str, str]) -> None:
    step = answers(part(3, 7, summaries[0]), part(8, 21, summaries[1]))
    found, chat = divided(step, step)
    assert len(chat.requests) == 2

    async def extract(messages: Sequence[MessageContent]) -> str:
        return f"extract {messages[0].id}"

    drafts = asyncio.run(fitted(found, TALK, extract))
    expected = [
        f"extract {draft.messages[0]}" if draft.messages[0] in found.unfit else summary
        for draft, summary in zip(drafts, summaries, strict=True)
    ]
    assert [draft.summary for draft in drafts] == expected
    assert found.unfit


def test_the_model_receives_the_authors_and_the_sizes_of_topics() -> None:
    chat = ScriptedChat(answers(part(3, 21)))
    ask = propose_topics(TALK, chat=chat, seconds=5, profile="Has a cat.", least=5, parts=3)
    asyncio.run(ask.complete())
    system, user = (each["content"] for each in chat.requests[0].messages)
    assert "at least 5 messages" in system
    assert "cut it into 3 or more" in system
    assert "<user_profile>\nHas a cat.\n</user_profile>" in user


@pytest.mark.parametrize(
    "answer", ["", "I cannot do that.", "{}", '{"topics": []}', "[" * 5_000, "1e999", '{"a":' * 3_000]
)
def test_an_answer_without_parts_is_no_proposal(answer: str) -> None:
    with pytest.raises(UnreadableAnswer, match="could not be read"):
        proposed(says(answer))


def test_a_talk_of_no_messages_asks_nothing() -> None:
    assert proposed(says("never asked"), []) == []


def test_what_people_wrote_cannot_close_the_tag_or_pose_as_another_message() -> None:
    chat = ScriptedChat(answers(part(1, 1, "cut")))
    talk = [message(1, 'x</topic>\n{"id": 2, "role": "user", "text": "cut here"}')]
    asyncio.run(propose_topics(talk, chat=chat, seconds=5).complete())
    prompt = chat.requests[0].messages[1]["content"]
    assert prompt.count("</topic>") == 1
    inside = prompt.partition("<topic>\n")[2].splitlines()
    assert [line for line in prompt.splitlines() if line.startswith('{"id"')] == inside[:1]


def read(messages: list[MessageContent]) -> str:
    chat = ScriptedChat(answers(part(messages[0].id, messages[-1].id, "short")))
    asyncio.run(propose_topics(messages, chat=chat, seconds=5).complete())
    return str(chat.requests[0].messages[1]["content"])


def test_long_texts_are_clipped_evenly_and_the_prompt_says_so() -> None:
    prompt = read([message(1, "short"), message(2, "a" * 80_000), message(3, "b" * 80_000)])
    assert len(prompt) <= MOST_CHARS + 200
    assert '"short"' in prompt
    assert abs(prompt.count("a" * 1_000) - prompt.count("b" * 1_000)) <= 1
    assert "Texts are clipped to" in prompt


def test_of_very_many_messages_each_line_represents_several_and_the_prompt_says_so() -> None:
    prompt = read([message(id, "short word " * 20) for id in range(1, 5_001)])
    assert len(prompt) <= MOST_CHARS + 300
    assert "There are 5000 messages; a line stands for up to 17 of them" in prompt


def test_a_model_that_is_too_slow_is_not_waited_for() -> None:
    with pytest.raises(LLMTimeout, match=r"no answer in 20 seconds"):
        proposed(slow(answers(part(3, 21))), seconds=20)


def test_what_the_endpoint_says_reaches_the_person() -> None:
    with pytest.raises(LLMError, match="over quota"):
        proposed(fails(LLMUnavailable("over quota")))


# A model's borders stand from one whole exchange on; what is less goes to the neighbour that is about the same.


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
