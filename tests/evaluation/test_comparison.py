"""Two reports compared: differences, the verdict of the gate, regressions."""

import random
from collections.abc import Sequence
from typing import Any

import pytest

from memoryapp.insight.evaluation.comparison import (
    Loss,
    bounds,
    differences,
    loss,
    may_go,
    pairs,
    regression_lines,
    regressions,
    table,
)
from memoryapp.insight.evaluation.scores import Interval, QuestionScore
from tests.support.evaluations import reported, score, unanswerable

SUPPORTED = {"cited": 2, "rightly": 2, "covered": 2}


def many(n: int, **given: Any) -> list[QuestionScore]:
    return [score(qid=f"q{number}", **given) for number in range(n)]


def hard(n: int, refused: int, **given: Any) -> list[QuestionScore]:
    """Returns unanswerable questions, of which the first ones are refused."""
    return [unanswerable(qid=f"u{number}", refused=number < refused, **given) for number in range(n)]


def document(*scores: Sequence[QuestionScore], strategy: str = "flash") -> dict[str, Any]:
    return reported([each for group in scores for each in group], strategy)


def met(report: dict[str, Any], reference: dict[str, Any] | None = None) -> dict[str, bool | None]:
    return {bound.name: bound.is_met for bound in bounds(report, reference)}


def test_a_strategy_differs_from_itself_by_nothing() -> None:
    report = document(many(9), hard(3, 1))
    found = differences(report, report)
    assert len(found) == 8
    assert {(each.mean, each.low, each.high) for each in found.values()} == {(0.0, 0.0, 0.0)}
    assert regressions(report, report) == []


def test_only_what_both_were_asked_is_compared() -> None:
    ours, theirs = document(many(4), hard(2, 0)), document(many(2, selected=1), [unanswerable(qid="q3")])
    assert [row["qid"] for row, _theirs in pairs(ours, theirs)] == ["q0", "q1"]
    found = differences(ours, theirs)
    assert found["f1"] == Interval(2, pytest.approx(0.1667, abs=1e-4), *[pytest.approx(0.1667, abs=1e-4)] * 2)
    assert "refused_unanswerable" not in found


def test_a_report_of_before_has_nothing_to_compare() -> None:
    old = {key: value for key, value in document(many(2)).items() if key != "questions"}
    assert differences(old, document(many(2))) == {}


def test_it_goes_with_enough_support_fewer_inventions_and_in_time() -> None:
    reference = document(many(10), hard(12, 0))
    good = document(many(7, **SUPPORTED), many(10)[7:], hard(12, 10, seconds=0.1))
    assert met(good, reference) == {"supported": True, "fewer_inventions": True, "slowdown": True, "slowest": True}
    assert may_go(bounds(good, reference))


@pytest.mark.parametrize(
    ("scores", "missed"),
    [
        pytest.param([many(6, **SUPPORTED), many(10)[6:], hard(12, 10)], "supported", id="six-of-ten"),
        pytest.param([many(10, **SUPPORTED), hard(12, 1)], "fewer_inventions", id="one-more-refusal-may-be-luck"),
        pytest.param([many(10, **SUPPORTED, seconds=0.5), hard(12, 10)], "slowdown", id="slower"),
        pytest.param([many(10, **SUPPORTED), hard(11, 10), hard(12, 12, seconds=30.0)[11:]], "slowest", id="late"),
    ],
)
def test_one_condition_missed_is_no_go(scores: list[list[QuestionScore]], missed: str) -> None:
    reference = document(many(10, seconds=0.1), hard(12, 0, seconds=30.0 if missed == "slowest" else 0.1))
    judged = bounds(document(*scores), reference)
    assert [bound.name for bound in judged if bound.is_met is False] == [missed]
    assert not may_go(judged)


def test_without_a_reference_two_conditions_are_not_judged() -> None:
    judged = bounds(document(many(3, **SUPPORTED)))
    assert [bound.is_met for bound in judged] == [True, None, None, True]
    assert may_go(judged)


def test_a_loss_that_the_questions_make_sure_of_is_a_regression() -> None:
    stored = document(many(60))
    worse = document(many(5, ranked=(0,) * 10), many(60)[5:])
    assert [each.name for each in regressions(stored, worse)] == ["recall@5", "recall@10"]
    assert regressions(worse, stored) == []


def test_a_small_loss_that_may_be_luck_is_none_and_a_large_mean_is_one() -> None:
    stored, worse = document(many(12), hard(12, 12)), document(many(12), hard(12, 11))
    assert regressions(stored, worse) == []
    (found,) = regressions(stored, worse, margin=0.05)
    assert found.name == "refused_unanswerable"
    assert not found.difference.is_below_zero


def test_more_refusals_of_answerable_questions_are_a_regression_and_more_seconds_are_none() -> None:
    refusing = document(many(20, refused=True, seconds=9.0))
    (found,) = regressions(document(many(20)), refusing)
    assert (found.name, found.difference.mean) == ("refused_answerable", 1.0)
    assert regression_lines("flash", [found]) == [
        "flash: refused_answerable changed by +1.000 [+1.000, +1.000] over 20 questions."
    ]


def test_a_question_loses_what_its_worst_figure_lost() -> None:
    ours, theirs = score().row(), score(ranked=(0, 1), covered=1).row()
    assert loss(ours, theirs) == Loss("recall@5", 0.5)
    assert loss(theirs, ours) == Loss("citation_coverage", 0.5)
    assert loss(unanswerable(refused=True).row(), unanswerable(cited=3).row()) == Loss("refused_unanswerable", 1.0)
    assert loss(ours, score(refused=True).row()) == Loss("refused_answerable", 1.0)
    assert loss(ours, score(seconds=60).row()) is None


def test_the_table_has_a_column_a_strategy_and_says_who_may_go() -> None:
    reference = document(many(10), hard(12, 0), strategy="vector")
    other = document(many(10, **SUPPORTED), hard(12, 12), strategy="flash")
    text = table([reference, other])
    assert "22 questions, 12 of them unanswerable" in text
    assert "refused_unanswerable" in text
    assert "1.000 (+1.000 [+1.000, +1.000])" in text
    assert "vector: no go" in text
    assert "flash: go" in text
    assert "bootstrap" not in table([reference])


def of_two_hundred(hits: Sequence[int]) -> dict[str, Any]:
    scores = [score(qid=f"q{number}", hits=hit, selected=2, evidence_topics=2) for number, hit in enumerate(hits)]
    return reported(scores)


@pytest.mark.parametrize("seed", range(20))
def test_three_points_less_over_two_hundred_questions_are_caught_and_a_repeat_raises_no_alarm(seed: int) -> None:
    chance = random.Random(seed)
    hits = [chance.choice((1, 2, 2)) for _question in range(200)]
    before = of_two_hundred(hits)
    # Some answers of a repeat are better by chance, and as many worse.
    repeated = list(hits)
    for better, worse in zip(*[iter(chance.sample(range(200), 12))] * 2, strict=True):
        repeated[better], repeated[worse] = hits[worse], hits[better]
    assert regressions(before, of_two_hundred(repeated)) == []
    lost = chance.sample([number for number, hit in enumerate(hits) if hit], 8)
    worse = of_two_hundred([0 if number in lost else hit for number, hit in enumerate(hits)])
    (found,) = [each for each in regressions(before, worse) if each.name == "f1"]
    assert -0.045 < found.difference.mean < -0.02


def test_four_questions_that_a_repeat_loses_are_chance_and_six_are_not() -> None:
    hits = [2] * 200
    before = of_two_hundred(hits)
    assert regressions(before, of_two_hundred([0] * 4 + hits[4:])) == []
    assert "f1" in {each.name for each in regressions(before, of_two_hundred([0] * 6 + hits[6:]))}
