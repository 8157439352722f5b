"""A query is read as it would be written with care: one letter of a long word, and capitals."""

import pytest
from asgiref.sync import async_to_sync

from memoryapp.models import ChatUser
from memoryapp.runs.clients import open_clients
from memoryapp.search.spelling import respelled
from tests.conftest import talk

pytestmark = pytest.mark.django_db(transaction=True)

TALK = [
    "I bought a Weltmeister accordion from Grigory in Antwerp",
    "Ask Grigory about the bellows, he pointed at the reeds",
    "В субботу едем с Тимуром смотреть фисгармонию",
]


@pytest.fixture
def owner(anna: ChatUser) -> ChatUser:
    talk(anna, ("Accordion", TALK))
    return anna


def read(owner: ChatUser, query: str) -> str:
    async def asked() -> str:
        async with open_clients() as clients:
            return await respelled(clients.pool, owner.pk, query, clients.embedder.likelier)  # type: ignore[attr-defined]

    return async_to_sync(asked)()


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("Which acxordion did I buy?", "Which accordion did I buy?"),
        ("Which accordoin did I buy?", "Which accordion did I buy?"),
        ("Where is the Weltmiester now?", "Where is the Weltmeister now?"),
        ("Какую фисгрармонию смотрели?", "Какую фисгармонию смотрели?"),
        ("WHAT DID GRIGORY SAY ABOUT THE BELLOWS", "what did Grigory say about the bellows"),
        ("what did grigory sell", "what did Grigory sell"),
    ],
)
def test_a_typo_is_read_as_the_word_of_the_memory(owner: ChatUser, typed: str, meant: str) -> None:
    assert read(owner, typed) == meant


@pytest.mark.parametrize(
    "query",
    [
        "Who painted the bellows?",
        "Кто такой дедушка?",
        "What is a meniscus?",
        "",
        "?!",
        "a" * 5_000,
        "acxordion " * 400,
        "' OR 1=1; -- acxordion" + "'" * 50,
    ],
)
def test_what_is_a_word_or_no_question_stays_as_it_was_typed(owner: ChatUser, query: str) -> None:
    assert read(owner, query).replace("accordion", "acxordion") == query


def test_what_the_talk_itself_mistypes_is_no_typo_and_the_stored_question_is(owner: ChatUser) -> None:
    talk(owner, ("Slip", ["The acxordion is loud"]))
    assert read(owner, "Which acxordion is loud?") == "Which acxordion is loud?"
    talk(owner, ("Asked", ["Where is the Weltmiester?"]))
    assert read(owner, "Where is the Weltmiester?") == "Where is the Weltmeister?"
