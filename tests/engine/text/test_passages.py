"""Passages, sentences, copies of a text, and summaries without a chat model."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryapp.engine.memory import MessageContent
from memoryapp.engine.text.excerpts import LEAST_CHARS, Saying, key_of, originals
from memoryapp.engine.text.passages import EXCHANGE_CHARS, cut_passages, exchanges, pieces
from memoryapp.engine.text.sentences import sentences, spans
from memoryapp.engine.text.summaries import StemFrequencies, background, statement_of, summary
from tests.engine.offline.test_segmenter import ThemeEmbedder
from tests.examples import table

AT = datetime(2026, 1, 1, tzinfo=UTC)


def messages_of(*turns: tuple[str, str]) -> list[MessageContent]:
    return [
        MessageContent(number, role, role.capitalize(), AT + timedelta(minutes=number), text)
        for number, (role, text) in enumerate(turns, start=1)
    ]


TURNS = st.lists(
    st.tuples(st.sampled_from(["user", "assistant", "peer", "system"]), st.text(max_size=1500)), max_size=12
)


@given(TURNS)
def test_every_message_lies_in_a_passage_also_an_empty_one(turns: list[tuple[str, str]]) -> None:
    messages = messages_of(*turns)
    covered = {id for passage in cut_passages(messages) for id in passage.messages}
    assert covered == {message.id for message in messages}


@given(TURNS)
def test_exchanges_are_the_messages_in_order(turns: list[tuple[str, str]]) -> None:
    messages = messages_of(*turns)
    assert [message for exchange in exchanges(messages) for message in exchange] == messages


@given(st.text(max_size=5000))
def test_pieces_are_bounded_and_lose_no_word(text: str) -> None:
    cut = list(pieces(text))
    assert all(len(piece) <= EXCHANGE_CHARS for piece in cut)
    assert set("".join(text.split())) <= set("".join(cut))


def test_a_request_stays_with_its_reply() -> None:
    messages = messages_of(
        ("user", "How is the knee?"), ("assistant", "Better."), ("user", "And the tax?"), ("assistant", "Paid.")
    )
    assert [passage.messages for passage in cut_passages(messages)] == [(1, 2), (3, 4)]
    assert cut_passages(messages)[0].text == "User: How is the knee?\nAssistant: Better."


def test_a_burst_of_requests_is_one_exchange() -> None:
    messages = messages_of(("user", "Listen"), ("user", "My knee hurts"), ("assistant", "Since when?"))
    assert [passage.messages for passage in cut_passages(messages)] == [(1, 2, 3)]


def test_each_piece_of_a_long_reply_tells_what_was_asked() -> None:
    reply = " ".join(f"Step {n} is done with care and patience." for n in range(60))
    first, *later = cut_passages(messages_of(("user", "How do I mend the roof?"), ("assistant", reply)))
    assert later
    assert all(passage.text.startswith("User: How do I mend the roof?\nAssistant: ") for passage in later)
    assert all(passage.messages == (2,) for passage in later[1:])


def test_between_people_windows_overlap_by_a_message() -> None:
    messages = messages_of(*(("user" if n % 2 else "peer", f"{n} " + "word " * 30) for n in range(6)))
    windows = [passage.messages for passage in cut_passages(messages)]
    assert windows == [(1, 2), (2, 3), (3, 4), (4, 5), (5, 6)]


def test_a_forwarded_message_names_its_source() -> None:
    message = MessageContent(1, "user", "Anna", AT, "Look", forwarded_from="Boris")
    assert cut_passages([message])[0].text == "Anna (Boris): Look"


def test_no_messages_make_no_passage() -> None:
    assert cut_passages([]) == []


# Where a sentence ends, and where a full stop ends none.


@pytest.mark.parametrize("whole", table("points_inside_sentences"))
def test_a_point_inside_a_sentence_ends_none(whole: str) -> None:
    expected = [whole] if not whole.startswith("See") else ["See https://example.com/a.b?c=1.", "now"]
    assert sentences(whole) == expected


@pytest.mark.parametrize(("text", "parts"), table("sentences"))
def test_a_sentence_ends_at_its_marks_and_at_the_end_of_a_line(text: str, parts: list[str]) -> None:
    assert sentences(text) == parts
    assert [text[start:end] for start, end in spans(text)] == parts


# The same text, posted twice.


POST = "Новый релиз: сервер стал вдвое быстрее, ещё и дешевле. https://example.org/news"


@pytest.mark.parametrize(
    "copy",
    [
        "Boris (Канал): " + POST,
        "Vera: " + POST.upper().replace("HTTPS://EXAMPLE.ORG/NEWS", "https://www.example.org/news/?utm_source=tg#top"),
        "Vera: 🚀 **Новый релиз** — сервер стал вдвое быстрее, еще и дешевле!\nhttp://example.org/news?fbclid=1",
    ],
)
def test_case_punctuation_and_who_wrote_make_no_difference(copy: str) -> None:
    labels = {"Vera", "Boris (Канал)"}
    assert key_of(copy, labels) == key_of(f"Vera: {POST}", labels) != b""


@pytest.mark.parametrize("other", [POST.replace("вдвое", "втрое"), POST.replace("news", "news?page=2"), POST[:-1]])
def test_another_word_or_place_makes_another_text(other: str) -> None:
    assert key_of(f"Vera: {other}", {"Vera"}) != key_of(f"Vera: {POST}", {"Vera"})


def test_a_short_text_is_no_copy() -> None:
    assert key_of("Vera: See you tomorrow then!", {"Vera"}) == b""
    assert key_of("Vera: " + "a" * (LEAST_CHARS - 1), {"Vera"}) == b""
    assert key_of("Vera: " + "a" * LEAST_CHARS, {"Vera"}) != b""


def test_the_original_is_not_forwarded_and_then_the_earliest() -> None:
    sayings = {
        1: Saying(b"post", True, 1.0),
        2: Saying(b"post", False, 9.0),
        3: Saying(b"post", False, 5.0),
        4: Saying(b"", False, 0.0),
        5: Saying(b"", False, 0.0),
        6: Saying(b"other", True, 0.0),
    }
    assert originals([1, 2, 3, 4, 5, 6, 7], sayings) == {1: 3, 2: 3}
    assert originals([1, 4], sayings) == {}


# Summaries without a chat model: who wrote what and when, in words that distinguish the topic.


SAID_AT = datetime(2023, 5, 25, 10, tzinfo=UTC)
NAMES = {"melanie", "caroline"}


def talk(*lines: tuple[str, str], assistant: str = "") -> list[MessageContent]:
    """Messages as ``(author, text)``; the first author is the user, ``assistant`` is no person."""
    roles = {lines[0][0]: "user", assistant: "assistant"}
    return [
        MessageContent(number, roles.get(author, "peer"), author, SAID_AT + timedelta(minutes=number), text)
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


@pytest.mark.parametrize(("sentence", "text"), table("addressed_sentences"))
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
