"""The periods that a question names, and how near a time is to them."""

from datetime import date

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryapp.engine.text.dates import Window, closeness, windows

TODAY = date(2023, 10, 22)


def days(question: str) -> list[tuple[str, str]]:
    return [(f"{each.first}", f"{each.last}") for each in windows(question, TODAY)]


def day(month: int, of: int, hour: int = 0) -> float:
    return (date(2023, month, of) - date(1970, 1, 1)).days + hour / 24


MAY = ("2023-05-01", "2023-05-31")
LAST_MAY = ("2022-05-01", "2022-05-31")
TWELFTH = ("2023-05-12", "2023-05-12")


@pytest.mark.parametrize(
    ("question", "meant"),
    [
        ("What did she paint in May 2023?", [MAY]),
        ("What happened in May?", [MAY, LAST_MAY]),
        ("Where was he on 12 May, 2023?", [TWELFTH]),
        ("Where was he on May 12th, 2023?", [TWELFTH]),
        ("Where was he on the 12th of May 2023?", [TWELFTH]),
        ("Что было 12 мая 2023 года?", [TWELFTH]),
        ("Что было 12-го мая 2023?", [TWELFTH]),
        ("Чем болел кот в мае?", [MAY, LAST_MAY]),
        ("What came on 2023-05-12?", [TWELFTH]),
        ("Что пришло 12.05.2023?", [TWELFTH]),
        ("What about 2023-05?", [MAY]),
        ("How often was she at the beach in 2023?", [("2023-01-01", "2023-12-31")]),
        ("What did he buy in December 2022?", [("2022-12-01", "2022-12-31")]),
        ("Who came in February 2024?", [("2024-02-01", "2024-02-29")]),
    ],
)
def test_days_months_and_years_are_understood(question: str, meant: list[tuple[str, str]]) -> None:
    assert days(question) == meant


LAST_WEEK, TWO_WEEKS_AGO = ("2023-10-09", "2023-10-15"), ("2023-10-02", "2023-10-08")
LAST_MONTH, LAST_YEAR = ("2023-09-01", "2023-09-30"), ("2022-01-01", "2022-12-31")
SPRING, WINTER = ("2023-03-01", "2023-05-31"), ("2022-12-01", "2023-02-28")
YESTERDAY, BEFORE = ("2023-10-21", "2023-10-21"), ("2023-10-20", "2023-10-20")


@pytest.mark.parametrize(
    ("meant", "questions"),
    [
        (
            YESTERDAY,
            "What did I buy yesterday?|Что я купила вчера?|Was habe ich gestern gekauft?|昨天买了什么|昨日は何を食べた",
        ),
        (BEFORE, "And the day before yesterday?|А позавчера?|Und vorgestern?|前天呢"),
        (LAST_WEEK, "last week|Кто звонил на прошлой неделе?|letzte Woche|la semana pasada|上個星期誰來了|先週|지난주"),
        (TWO_WEEKS_AGO, "two weeks ago|Две недели назад|vor zwei Wochen|hace dos semanas|两周前|2週間前|2주 전"),
        (LAST_MONTH, "last month|в прошлом месяце|месяц назад|letzten Monat|el mes pasado|上个月去了哪里|先月|지난달"),
        (LAST_YEAR, "last year|в прошлом году|letztes Jahr|год назад|去年|작년"),
        (SPRING, "last spring|прошлой весной|letzten Frühling|la primavera pasada"),
        (WINTER, "last winter|прошлой зимой"),
    ],
)
def test_a_distance_from_the_last_message_is_understood(meant: tuple[str, str], questions: str) -> None:
    assert {each: days(each) for each in questions.split("|")} == {each: [meant] for each in questions.split("|")}


@pytest.mark.parametrize(
    "question",
    [
        "Wohin fliegen wir im Mai?",
        "¿Adónde volamos en mayo?",
        "Où allons-nous en mai ?",
        "Dokąd lecimy w maju?",
        "Куди ми летимо у травні?",
        "五月我们飞去哪里",
        "5月はどこへ行く?",
        "5월에 어디로 가?",
        "Tháng 5 bay đi đâu?",
    ],
)
def test_months_of_many_languages_are_understood(question: str) -> None:
    assert days(question) == [MAY, LAST_MAY]


@pytest.mark.parametrize(
    "question", ["2023年5月12日发生了什么", "12. Mai 2023", "el 12 de mayo de 2023", "2023년 5월 12일"]
)
def test_days_of_many_languages_are_understood(question: str) -> None:
    assert days(question) == [TWELFTH]


@pytest.mark.parametrize(
    "question",
    [
        "How long ago did she move?",
        "Where did we go last weekend?",
        "999999999999 years ago",
        "0 days ago",
        "прошлых лет",
        "Which chocolate mart is it?",
        "the planet Mars",
        "Do you like mayo?",
        "用了5个月",
        "一个月多少钱",
        "13月",
        "2023-13",
        "vor dem Haus",
        "Ich habe keine Woche frei",
    ],
)
def test_what_only_looks_like_a_distance_or_a_month_is_none(question: str) -> None:
    assert days(question) == []


@pytest.mark.parametrize("today", [date.min, date(50, 1, 1), date.max])
@pytest.mark.parametrize("question", ["99 years ago", "99 weeks ago", "yesterday", "last month", "last winter"])
def test_a_memory_whose_messages_have_any_date_is_asked_by_distances(question: str, today: date) -> None:
    """An import takes such dates where it is told to (``--any-dates``)."""
    assert windows(question, today) == ()


@pytest.mark.parametrize(
    "question",
    [
        "May I ask what the march of events was?",
        "What may have caused it?",
        "марковские цепи",
        "Which of 12 plans was it?",
        "version 3.5.12",
        "Что она маялась?",
        "",
    ],
)
def test_what_only_looks_like_a_date_is_none(question: str) -> None:
    assert days(question) == []


@pytest.mark.parametrize(
    ("question", "meant"),
    [
        ("What came early in May 2023?", MAY),
        ("What came in early May 2023?", ("2023-05-01", "2023-05-12")),
        ("What came at the beginning of May 2023?", ("2023-05-01", "2023-05-12")),
        ("What broke in mid-May 2023?", ("2023-05-09", "2023-05-21")),
        ("Which node failed at the end of February 2023?", ("2023-02-20", "2023-02-28")),
        ("What good news came in the second half of May 2023?", ("2023-05-16", "2023-05-31")),
        ("Куда мы ездили в начале мая 2023?", ("2023-05-01", "2023-05-12")),
        ("Сколько книг прочитано к середине мая 2023?", ("2023-05-09", "2023-05-21")),
        ("Что сломалось в последних числах мая 2023?", ("2023-05-20", "2023-05-31")),
        ("Где мы жили во второй половине мая 2023?", ("2023-05-16", "2023-05-31")),
    ],
)
def test_a_part_of_a_month_is_shorter_than_the_month(question: str, meant: tuple[str, str]) -> None:
    assert days(question) == [meant]


@pytest.mark.parametrize(
    "question",
    [
        "Where was he on the twelfth of May 2023?",
        "Чем мы занимались двенадцатого мая 2023?",
        "Кто пришёл к двенадцатому мая 2023?",
    ],
)
def test_a_day_may_be_a_word(question: str) -> None:
    assert days(question) == [TWELFTH]


def test_a_day_in_two_words_is_one_number() -> None:
    third = ("2023-02-23", "2023-02-23")
    assert days("двадцать третьего февраля 2023") == days("on the twenty-third of February 2023") == [third]


def test_an_ordinal_before_another_word_names_no_day() -> None:
    assert days("Who won the second march?") == []


def test_the_words_that_name_a_part_are_returned() -> None:
    assert [each.words for each in windows("Что было в конце мая 2023?", TODAY)] == ["конце мая 2023"]


def test_a_year_counts_only_where_nothing_finer_is_named() -> None:
    assert days("the 2022 plan, as of May 2023") == [MAY]


def test_a_day_that_no_calendar_has_is_left_out() -> None:
    assert days("on 30 February 2023") == days("2023-13-01") == []


def test_closeness_rises_before_stays_during_and_falls_after() -> None:
    window = (Window(date(2023, 5, 12), date(2023, 5, 12), "12 may 2023"),)
    times = [day(5, 8), day(5, 10, 12), day(5, 12), day(5, 13, 23), day(5, 24, 12), day(6, 6), np.nan]
    assert closeness(window, np.array(times)).tolist() == pytest.approx([0, 0.25, 1, 1, 0.5, 0, 0])


def test_of_several_stretches_the_nearest_counts() -> None:
    assert closeness(windows("in May", TODAY), np.array([day(5, 20), day(8, 1)])).tolist() == [1, 0]


@given(st.text(max_size=200))
def test_no_text_breaks_the_reading(text: str) -> None:
    for each in windows(text, TODAY):
        assert each.first <= each.last
