"""Passages cover all messages, keep exchanges together and stay small."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from memoryapp.engine.memory import MessageContent
from memoryapp.engine.text.passages import EXCHANGE_CHARS, cut_passages, exchanges, pieces

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
