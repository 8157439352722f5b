"""Properties of the paired bootstrap."""

import numpy as np
import pytest

from memoryapp.insight.evaluation.scores import Interval, interval

SOME = [0.0, 0.5, -0.25, 1.0, 0.0, -1.0, 0.75, 0.0]


@pytest.mark.parametrize("n", [1, 7, 400])
def test_strategies_that_do_the_same_differ_by_nothing(n: int) -> None:
    assert interval([0.0] * n) == Interval(n, 0.0, 0.0, 0.0)


def test_a_difference_that_every_question_shows_is_sure() -> None:
    assert interval([0.1] * 30) == Interval(30, 0.1, 0.1, 0.1)
    assert interval([0.1] * 30).is_above_zero
    assert interval([-0.1] * 30).is_below_zero


def test_the_same_differences_have_the_same_interval() -> None:
    assert interval(SOME) == interval(SOME)


def test_the_other_way_round_it_is_the_mirror_image() -> None:
    found, mirrored = interval(SOME), interval([-each for each in SOME])
    assert (mirrored.mean, mirrored.low, mirrored.high) == pytest.approx((-found.mean, -found.high, -found.low))


def test_the_mean_lies_within_and_more_questions_make_it_narrower() -> None:
    few, many = interval(SOME), interval(SOME * 20)
    assert few.low < few.mean < few.high
    assert few.mean == many.mean
    assert many.high - many.low < (few.high - few.low) / 3


def test_one_question_of_many_is_never_sure() -> None:
    lost = interval([-1.0] + [0.0] * 99)
    assert not lost.is_below_zero
    assert lost.high == 0.0


def test_about_ninety_five_of_a_hundred_intervals_hold_the_truth() -> None:
    random = np.random.default_rng(7)
    found = [interval(list(random.normal(0.2, 1.0, 60)), resamples=1_000) for _trial in range(200)]
    holding = sum(each.low <= 0.2 <= each.high for each in found)
    assert 180 <= holding <= 198


def test_drawing_in_parts_draws_as_often() -> None:
    parts = interval(SOME, resamples=1_000, at_once=3 * len(SOME))
    assert (parts.low, parts.high) == pytest.approx((interval(SOME).low, interval(SOME).high), abs=0.07)
