"""The periods that a question names, and how near a time is to them."""

from datetime import date

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryapp.engine.text.dates import Window, closeness, windows
from tests.examples import table

TODAY = date(2023, 10, 22)


def days(question: str) -> list[list[str]]:
    return [[f"{each.first}", f"{each.last}"] for each in windows(question, TODAY)]


def day(month: int, of: int, hour: int = 0) -> float:
    return (date(2023, month, of) - date(1970, 1, 1)).days + hour / 24


MAY = ["2023-05-01", "2023-05-31"]
LAST_MAY = ["2022-05-01", "2022-05-31"]
TWELFTH = ["2023-05-12", "2023-05-12"]


@pytest.mark.parametrize(("question", "meant"), table("dates"))
def test_days_months_and_years_are_understood(question: str, meant: list[list[str]]) -> None:
    assert days(question) == meant


@pytest.mark.parametrize(("meant", "questions"), table("distances"))
def test_a_distance_from_the_last_message_is_understood(meant: list[str], questions: str) -> None:
    assert {each: days(each) for each in questions.split("|")} == {each: [meant] for each in questions.split("|")}


@pytest.mark.parametrize("question", table("months_of_languages"))
def test_months_of_many_languages_are_understood(question: str) -> None:
    assert days(question) == [MAY, LAST_MAY]


@pytest.mark.parametrize(
    "question", ["2023年5月12日发生了什么", "12. Mai 2023", "el 12 de mayo de 2023", "2023년 5월 12일"]
)
def test_days_of_many_languages_are_understood(question: str) -> None:
    assert days(question) == [TWELFTH]


@pytest.mark.parametrize("question", table("no_distances"))
def test_what_only_looks_like_a_distance_or_a_month_is_none(question: str) -> None:
    assert days(question) == []


@pytest.mark.parametrize("today", [date.min, date(50, 1, 1), date.max])
@pytest.mark.parametrize("question", ["99 years ago", "99 weeks ago", "yesterday", "last month", "last winter"])
def test_a_memory_whose_messages_have_any_date_is_asked_by_distances(question: str, today: date) -> None:
    """An import takes such dates where it is told to (``--any-dates``)."""
    assert windows(question, today) == ()


@pytest.mark.parametrize("question", table("no_dates"))
def test_what_only_looks_like_a_date_is_none(question: str) -> None:
    assert days(question) == []


@pytest.mark.parametrize(("question", "meant"), table("parts_of_months"))
def test_a_part_of_a_month_is_shorter_than_the_month(question: str, meant: list[str]) -> None:
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
    third = ["2023-02-23", "2023-02-23"]
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
