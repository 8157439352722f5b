"""Fusion of both signals, and the score that is shown."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryapp.engine.lexical import Matches, bm25
from memoryapp.engine.scoring import (
    FOREIGN_SHARE,
    Best,
    best_passages,
    descending,
    fuse,
    fused_score,
    shown_score,
    z_scores,
)


def words(*documents: int, n: int = 6, unknown: int = 0):
    found = Matches(np.array(documents, dtype=np.intp), np.ones(len(documents)))
    return bm25({"word": found, **{f"unknown{i}": None for i in range(unknown)}}, np.full(n, 10.0))


def own(n: int) -> np.ndarray:
    """No passage is in another script."""
    return np.zeros(n, dtype=np.bool_)


def test_a_passage_that_leads_in_both_signals_comes_first() -> None:
    cosine = np.array([0.1, 0.6, 0.1, 0.2, 0.5, 0.1])
    assert descending(fuse(cosine, words(1, 2), own(len(cosine))))[0] == 1


def test_a_passage_without_a_vector_is_found_by_its_words() -> None:
    cosine = np.array([0.1, 0.2, np.nan, 0.1, 0.2, 0.1])
    fused = fuse(cosine, words(2), own(len(cosine)))
    assert descending(fused)[0] == 2
    assert not np.isnan(fused).any()


def test_without_any_vector_the_words_decide_alone() -> None:
    assert descending(fuse(np.full(6, np.nan), words(3), own(6)))[0] == 3


def test_one_accidental_word_of_many_lifts_less_than_a_word_that_is_the_whole_query() -> None:
    cosine = np.linspace(0.1, 0.2, 2000)
    whole = fuse(cosine, words(0, n=2000), own(len(cosine))).max()
    accidental = fuse(cosine, words(0, n=2000, unknown=9), own(len(cosine))).max()
    assert accidental < 12 < whole


def test_a_near_passage_in_another_script_is_not_beaten_for_want_of_shared_words() -> None:
    cosine = np.array([0.6, 0.3, 0.1, 0.1, 0.1, 0.1])
    foreign = np.array([True, False, False, False, False, False])
    assert descending(fuse(cosine, words(1, unknown=1), own(6)))[0] == 1
    fused = fuse(cosine, words(1, unknown=1), foreign)
    assert fused[0] == pytest.approx((1 + FOREIGN_SHARE) * z_scores(cosine)[0])


def test_equal_values_have_no_deviation() -> None:
    assert z_scores(np.full(4, 0.3)).tolist() == pytest.approx([0, 0, 0, 0])


@given(st.floats(-50, 50), st.floats(-50, 50))
def test_the_shown_score_lies_between_0_and_1_and_keeps_the_order(one: float, other: float) -> None:
    assert 0 < shown_score(one) < 1
    assert (one <= other) == (shown_score(one) <= shown_score(other)) or abs(one - other) < 1e-6


@given(st.floats(-4, 18))
def test_two_digits_of_the_shown_score_tell_the_fused_one_to_half_a_deviation(fused: float) -> None:
    assert fused_score(round(shown_score(fused), 2)) == pytest.approx(fused, abs=0.6)


def test_a_topic_gets_its_best_passage_and_ties_go_to_the_lower_id() -> None:
    values = np.array([1.0, 3.0, 3.0, 2.0])
    places, topics = np.array([0, 1, 1, 2]), np.array([7, 9, 7, 4])
    found = best_passages(descending(values), values, places, topics)
    assert found == [Best(4, 2, 3.0), Best(7, 1, 3.0), Best(9, 1, 3.0)]
    assert best_passages(descending(values)[:1], values, places, topics) == [Best(7, 1, 3.0), Best(9, 1, 3.0)]
