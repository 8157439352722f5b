"""Fusion of both signals, the score that is shown, and the restriction of a search as a value."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryapp.engine.fusion import (
    FOREIGN_SHARE,
    MEANING,
    TopicPassages,
    descending,
    fuse,
    fused_score,
    shown_scores,
    z_scores,
)
from memoryapp.engine.memory import ANYWHERE, Where
from memoryapp.engine.text.lexical import Matches, bm25


def words(*documents: int, n: int = 6, unknown: int = 0):
    found = Matches(np.array(documents, dtype=np.intp), np.ones(len(documents)))
    return bm25({"word": found, **{f"unknown{i}": None for i in range(unknown)}}, np.full(n, 10.0))


def own(n: int) -> np.ndarray:
    """No passage is in another script than the query."""
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
    assert fused[0] == pytest.approx((MEANING + FOREIGN_SHARE) * z_scores(cosine)[0])


def test_equal_values_have_no_deviation() -> None:
    assert z_scores(np.full(4, 0.3)).tolist() == pytest.approx([0, 0, 0, 0])


@given(st.floats(-50, 50), st.floats(-50, 50))
def test_the_shown_score_lies_between_0_and_1_and_keeps_the_order(one: float, other: float) -> None:
    first, second = shown_scores(np.array([one, other])).tolist()
    assert 0 < first < 1
    assert (one <= other) == (first <= second) or abs(one - other) < 1e-6


@given(st.floats(-4, 18))
def test_two_digits_of_the_shown_score_tell_the_fused_one_to_half_a_deviation(fused: float) -> None:
    assert fused_score(round(float(shown_scores(np.array(fused))), 2)) == pytest.approx(fused, abs=0.6)


def test_a_topic_gets_its_best_passage_and_ties_go_to_the_lower_id() -> None:
    values = np.array([1.0, 3.0, 3.0, 2.0])
    places, topics = np.array([0, 1, 1, 2]), np.array([7, 9, 7, 4])
    found = TopicPassages.of(topics, places).best(values)
    assert (found.topics.tolist(), found.passages.tolist()) == ([4, 7, 9], [2, 1, 1])
    assert TopicPassages.of(topics, places).best(values, 1).topics.tolist() == [4]


def test_a_passage_of_two_messages_of_a_topic_is_kept_once() -> None:
    topics, places = np.array([7, 4, 7, 7]), np.array([1, 2, 0, 1])
    kept = TopicPassages.of(topics, places)
    assert (kept.starts.tolist(), kept.places.tolist()) == ([0, 1], [2, 0, 1])
    assert kept.nearest(np.array([0.1, 0.5, np.nan])).tolist() == [7]


def test_a_topic_none_of_whose_passages_has_a_value_is_left_out() -> None:
    values = np.array([np.nan, 0.1, np.nan])
    best = TopicPassages.of(np.array([5, 6, 6]), np.array([0, 2, 1])).best(values)
    assert (best.topics.tolist(), best.passages.tolist()) == ([6], [1])


def test_without_pairs_there_is_no_best_topic() -> None:
    none = TopicPassages.of(np.zeros(0, np.int64), np.zeros(0, np.intp))
    assert not len(none.best(np.zeros(3)).topics)


_PAIRS = st.lists(st.tuples(st.integers(1, 6), st.integers(0, 9)), min_size=1)
_VALUES = st.lists(st.sampled_from([0.0, 1.0, 2.0, np.nan]), min_size=10, max_size=10)


@given(_PAIRS, _VALUES)
def test_the_best_topics_are_those_a_look_at_each_pair_finds(pairs: list[tuple[int, int]], values: list[float]) -> None:
    known = [(topic, place) for topic, place in pairs if not np.isnan(values[place])]
    first = {topic: min((-values[place], place) for other, place in known if other == topic) for topic, _ in known}
    expected = sorted((value, topic, place) for topic, (value, place) in first.items())
    topics, places = np.array(pairs).T
    best = TopicPassages.of(topics, places).best(np.array(values))
    found = list(zip(best.topics.tolist(), best.passages.tolist(), strict=True))
    assert found == [(topic, place) for _, topic, place in expected]


# The restriction of a search as a value, and the combination of two of them.


DAYS = st.sampled_from(["", "2025-05-01"])
NAMES = st.sampled_from([(), ("a",)])


@given(st.builds(Where, DAYS, DAYS, NAMES, NAMES))
def test_what_a_run_sets_goes_before_what_a_strategy_asks(asked: Where) -> None:
    own = Where(since="2024-01-01", authors=("Vera",))
    assert asked.over(ANYWHERE) == ANYWHERE.over(asked) == asked
    assert own.over(asked) == Where("2024-01-01", asked.until, asked.channels, ("Vera",))


def test_a_filter_that_sets_nothing_is_none() -> None:
    assert not ANYWHERE
    assert all([Where(since="2025-05-01"), Where(until="2025-05-01"), Where(channels=("a",)), Where(authors=("a",))])
