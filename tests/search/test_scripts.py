"""Texts in any alphabet are found by their words in the database."""

import pytest
from django.db import connection

from memoryapp.engine.memory import TopicDraft
from memoryapp.engine.text.lexical import fold_query
from memoryapp.intake.archiving import put_topics
from memoryapp.models import ChatUser, Passage, Topic
from memoryapp.search import items
from tests.search.test_cards import artifact
from tests.support.browsing import message_of

pytestmark = pytest.mark.django_db

TALK = {
    "我们家的猫叫团子，今年五岁，对鸡肉过敏。": "猫对什么过敏",
    "バイオリンを習っています。先生は鈴木さんです。": "バイオリンの先生は誰",
    "새로 산 세탁기에서 물이 새요.": "세탁기가 왜 그래?",
    "แมวของเราแพ้เนื้อไก่": "แมวแพ้อะไร",
    "أتعلم العزف على الكمان": "أستاذ كمان",
    "החתול שלנו אלרגי לעוף": "לחתול",
    "हमारी बिल्ली को चिकन से एलर्जी है": "बिल्लियाँ",
    "İstanbul'da yeni bir daire tuttuk": "istanbul",
    "Wir waren im Café": "cafe",
}


def holding(table: str, query: str) -> list[int]:
    """The rows of a table that contain any word of a query, as the search asks for them."""
    any_of_them = "replace(strip(to_tsvector('russian', %s))::text, ' ', ' | ')::tsquery"
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT id FROM memoryapp_{table} WHERE terms @@ {any_of_them} ORDER BY id", [fold_query(query)]
        )
        return [number for (number,) in cursor.fetchall()]


@pytest.fixture
def passages(anna: ChatUser) -> dict[str, int]:
    """A topic with one passage for each thing said; the ids of the passages by the question about them."""
    found = {}
    for number, (text, question) in enumerate(TALK.items()):
        put_topics(anna, [TopicDraft(text, (message_of(anna, text, minutes=number).pk,))], actor="test")
        found[question] = Passage.objects.latest("pk").pk
    return found


def test_every_question_finds_the_one_passage_by_its_words(passages: dict[str, int]) -> None:
    assert {question: holding("passage", question) for question in passages} == {
        question: [number] for question, number in passages.items()
    }


def test_every_question_finds_the_one_summary_by_its_words(passages: dict[str, int]) -> None:
    topics = dict(zip(TALK.values(), Topic.objects.order_by("pk").values_list("pk", flat=True), strict=True))
    assert {question: holding("topic", question) for question in TALK.values()} == {
        question: [number] for question, number in topics.items()
    }


def test_a_card_in_another_script_is_found_by_its_words(passages: dict[str, int], anna: ChatUser) -> None:
    artifact(anna, "合同.pdf", summary="租房合同，房租三千块。")
    items.refresh()
    assert len(holding("card", "房租多少")) == 1
