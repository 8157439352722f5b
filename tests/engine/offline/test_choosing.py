"""How many topics are kept, and when none is."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryapp.engine.offline.choosing import choose, expected_f1
from memoryapp.engine.offline.judging import JudgedTopic, judge
from memoryapp.engine.offline.question_kinds import wants_judgement, wants_several

CHANCES = st.lists(st.floats(0.01, 0.99), min_size=1, max_size=6)


@given(CHANCES, st.integers(1, 6))
def test_the_expected_f1_is_that_of_all_that_may_be_true(chances: list[float], k: int) -> None:
    k = min(k, len(chances))
    total = 0.0
    for truth in product((0, 1), repeat=len(chances)):
        likely = np.prod([p if holds else 1 - p for p, holds in zip(chances, truth, strict=True)])
        total += float(likely) * 2 * sum(truth[:k]) / (k + sum(truth))
    assert expected_f1(np.array(chances), k) == pytest.approx(total)


def test_one_sure_topic_is_kept_alone_and_two_sure_ones_together() -> None:
    topics = [JudgedTopic(f"Topic:{n}", 0.8, ("Anna",), ("my knee meniscus is torn",)) for n in range(3)]
    judged = judge("knee meniscus torn", topics)
    for sure in (1, 2, 3):
        known = [replace(each, chance=0.95 if n < sure else 0.02) for n, each in enumerate(judged)]
        assert len(choose(known)) == sure


def test_never_more_than_five_are_kept() -> None:
    topics = [JudgedTopic(f"Topic:{n}", 0.9, ("Anna",), ("my knee meniscus is torn",)) for n in range(9)]
    assert len(choose([replace(each, chance=0.99) for each in judge("knee meniscus torn", topics)])) == 5


def test_a_common_word_of_a_question_about_something_else_is_no_answer() -> None:
    topics = [
        JudgedTopic(f"Topic:{n}", 0.5, ("Anna",), (f"we spoke of the weather {n}", "and of work")) for n in range(12)
    ]
    assert choose(judge("Which paint did we choose for the railing at work?", topics)) == []


@pytest.mark.parametrize(
    "question", ["What books did she read?", "How many cats are there?", "Какие книги она читала?"]
)
def test_several_things_are_asked_for(question: str) -> None:
    assert wants_several(question)


@pytest.mark.parametrize("question", ["What is her name?", "Where does he live?", "Где он живёт?"])
def test_one_thing_is_asked_for(question: str) -> None:
    assert not wants_several(question)


def test_a_judgement_is_asked_for() -> None:
    assert wants_judgement("Would she likely move?")
    assert wants_judgement("Стала бы она переезжать?")
    assert not wants_judgement("Where did she move?")
