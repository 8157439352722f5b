"""The kind of thing that a question asks for, and which sentences contain such a thing."""

import pytest

from memoryapp.engine.offline.judging import holds, kind_asked_for
from tests.examples import table


@pytest.mark.parametrize(("question", "kind"), table("kinds_asked_for"))
def test_a_question_asks_for_one_kind_of_thing(question: str, kind: str) -> None:
    assert kind_asked_for(question) == kind


@pytest.mark.parametrize(
    ("question", "telling", "silent"),
    [
        ("Какой SLA мы обещали банку?", "99,9 % мы не потянем, обещали 98 %.", "Банк прислал SLA, смотри."),
        ("В котором часу поднимают мост?", "Дворцовый разводят в 1:10.", "Мосты сегодня разводят."),
        ("Сколько минут ехать?", "Минут двадцать, то есть 20 минут.", "Ехать недолго, минут немного."),
        ("Почём ночь в доме?", "Просят 14 тысяч за ночь.", "Подходим к дому к вечеру."),
        ("When is the fair on Monday?", "It moved to Thursday.", "The fair on Monday is large."),
        ("Who bakes the cake?", "I think Dasha does.", "Somebody bakes it every year."),
        ("Who phoned Dasha?", "It was my sister.", "Yes, Dasha was phoned."),
        ("Why not give it away?", "Because nobody values what is free.", "We do not give it away"),
    ],
)
def test_a_sentence_holds_what_the_question_does_not_name(question: str, telling: str, silent: str) -> None:
    kind = kind_asked_for(question)
    assert [holds(kind, sentence, question) for sentence in (telling, silent)] == [True, False]
