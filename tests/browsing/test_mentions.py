"""Messages that mention a person: in every case of a name, and in no word that only begins like one."""

from __future__ import annotations

import pytest

from memoryapp.insight.browsing.comparison import compare
from memoryapp.insight.browsing.topics import mentions
from memoryapp.models import ChatUser, Person
from tests.conftest import talk
from tests.support.browsing import message_of


@pytest.mark.parametrize(
    ("name", "text", "is_spoken_of"),
    [
        ("Прия", "Записалась на приём, потом приехать к тебе", False),
        ("Прия", "Какой приятный вечер", False),
        ("Прия", "Спроси у Прии", True),
        ("Прия", "прия пишет", True),
        ("Том", "Дело не в том, что том первый", False),
        ("Том", "Передай Тому привет", True),
        ("Костя", "Ломит кости, суп с костями", False),
        ("Костя", "Живём у Кости", True),
        ("Миша", "Еду с Мишей", True),
        ("Пётр", "Петр звонил", True),
        ("Петр", "Видел Пётра", True),
        ("Пете", "Переезжает в Петербург", False),
        ("Petrov", "Ask Petrovsky", False),
        ("Petrov", "Petrov's plan", True),
        ("мама", "Мамой и мамы", True),
        ("D. Ozola", "D. Ozola said so", True),
        ("D. Ozola", "Ozola said so", False),
        ("Левон Арамович", "у Левона Арамовича", True),
        ("+*(", "+*(", False),
    ],
)
def test_a_name_counts_in_its_cases_and_in_no_other_word(
    name: str, text: str, is_spoken_of: bool, anna: ChatUser
) -> None:
    person = Person.objects.create(owner=anna, display_name=name)
    message_of(anna, text)
    assert mentions(person).count == is_spoken_of
    [topic] = talk(anna, ("A topic", [text, "ok"]))
    assert [found.word for found in compare(anna, [topic]).columns[0].people] == [name] * is_spoken_of
