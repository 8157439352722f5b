"""The figures of an evaluation, computed from scores that the tests write."""

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from memoryapp.engine.events import RunFinished, Selected
from memoryapp.engine.kinds.kind import Piece
from memoryapp.engine.outline import Outline
from memoryapp.insight.evaluation import passes
from memoryapp.insight.evaluation.scores import Interval, cited, interval
from memoryapp.models import ChatUser, Message, Run, RunEvent, Topic
from tests.conftest import talk
from tests.support.evaluations import reported, score, unanswerable


def test_recall_counts_evidence_messages_and_precision_counts_topics() -> None:
    one = score()
    assert (one.recall_at(1), one.recall_at(2), one.recall_at(3)) == (0.5, 0.5, 1.0)
    assert (one.precision, one.recall, one.f1) == (0.5, 0.5, 0.5)
    assert one.reciprocal_rank == 1.0


def test_citations_are_precise_where_they_hit_and_support_where_none_is_missing() -> None:
    half = score(cited=4, rightly=1, covered=1)
    assert (half.citation_precision, half.citation_coverage, half.is_supported) == (0.25, 0.5, False)
    assert score(cited=2, rightly=2, covered=2).is_supported
    assert (score().citation_precision, score().citation_coverage) == (0.0, 0.0)
    assert not unanswerable().is_supported


def test_an_empty_selection_scores_nothing_and_is_counted() -> None:
    figures = reported([score(selected=0, hits=0), score()])
    assert figures["selection"]["empty"] == 0.5
    assert figures["selection"]["f1"] == 0.25


def test_evidence_in_the_first_characters_is_a_share_of_all_evidence() -> None:
    assert reported([score(early=1), score(early=2)])["candidates"]["evidence@20000chars"] == 0.75


@pytest.mark.django_db(transaction=True)
def test_how_early_evidence_is_read_hangs_on_what_stands_before_it(anna: ChatUser) -> None:
    long, short = talk(anna, ("Long", ["x" * 15_000, "the end of it"]), ("Short", ["y" * 4_990, "now"]))
    numbers = list(Message.objects.of(anna).in_order().values_list("pk", flat=True))
    order = [f"Topic:{long.pk}", f"Topic:{short.pk}"]
    whole = Run(owner=anna, query="the end", parameters={"context": "topics"})
    assert passes._early(whole, Outline.of([]), order, numbers) == 2
    assert passes._early(whole, Outline.of([]), order[::-1], numbers) == 3
    assert passes._early(whole, Outline.of([]), order, numbers[:1]) == 1
    passages = Run(owner=anna, query="the end", parameters={"context": "passages"})
    assert passes._early(passages, Outline.of([]), order, numbers) == 4


def test_evidence_found_nowhere_has_no_rank() -> None:
    lost = score(ranked=(0, 0, 0))
    assert (lost.reciprocal_rank, lost.recall_at(3)) == (0.0, 0.0)


def test_categories_and_latencies_are_separate() -> None:
    slow = [score(category="a", seconds=n / 10) for n in range(1, 11)]
    figures = reported([*slow, score(category="b", seconds=0.5)])
    assert figures["by_category"]["a"]["n"] == 10
    assert figures["latency_ms"] == {"avg": 545.5, "p50": 500.0, "p95": 950.0, "most": 1000.0}


def test_refusals_are_shares_of_their_own_questions_and_count_nowhere_else() -> None:
    refusing = [unanswerable(refused=True, selected=0), unanswerable(), score(refused=True, selected=0, hits=0)]
    figures = reported([*refusing, *[score(qid=f"{n}") for n in range(3)]])
    assert figures["refusals"] == {"unanswerable": 0.5, "answerable": 0.25}
    assert (figures["n"], figures["unanswerable"]) == (6, 2)
    assert figures["candidates"]["recall@5"] == 1.0
    assert figures["selection"]["empty"] == 0.25


def test_where_nothing_counts_there_is_no_figure() -> None:
    assert reported([score()])["refusals"]["unanswerable"] is None
    figures = reported([unanswerable()])
    assert figures["candidates"]["recall@5"] is figures["citations"]["supported"] is None


# Properties of the paired bootstrap.


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


# What counts as a run's citations, and what counts as a refusal.


@pytest.fixture
def cake(anna: ChatUser) -> Topic:
    return talk(anna, ("Cake", ["Which plum cake?", "The one of Dasha", "And the wine?", "A dry one"]))[0]


@pytest.fixture
def numbers(cake: Topic) -> list[int]:
    return list(Message.objects.filter(topic=cake).in_order().values_list("pk", flat=True))


@pytest.fixture
def run(anna: ChatUser) -> Run:
    return Run.objects.create(owner=anna, strategy="flash", query="the wine")


def ended(*selected: Selected, **fields: Any) -> Outline:
    return Outline(finished=RunFinished(selected, (), **{"fallback": "", **fields}))


def test_a_topic_without_an_excerpt_is_cited_by_its_best_exchange(run: Run, cake: Topic, numbers: list[int]) -> None:
    found = cited(run, ended(Selected(f"Topic:{cake.pk}", 1, "", 0.5, 1)))
    assert found.places == (frozenset(numbers[2:]),)
    assert not found.refused


def test_an_excerpt_is_what_is_cited_and_what_stands_nowhere_is_not(run: Run, cake: Topic, numbers: list[int]) -> None:
    excerpt = (Piece("Dasha", "exact", numbers[1], 11, 16), Piece("rum", "absent"))
    found = cited(run, ended(Selected(f"Topic:{cake.pk}", 1, "", 0.5, 1, excerpt)))
    assert found.places == (frozenset(numbers[:2]),)
    assert found.messages == frozenset(numbers[:2])


@pytest.mark.parametrize(
    ("outline", "refused"),
    [
        pytest.param(ended(), True, id="nothing-chosen"),
        pytest.param(ended(fallback="llm_error"), False, id="nothing-because-it-failed"),
        pytest.param(ended(people=(Selected("Person:1", 1, "", 0.5, 1),)), False, id="a-person-chosen"),
        pytest.param(Outline(), False, id="never-ended"),
    ],
)
def test_a_refusal_is_an_end_with_nothing_chosen(run: Run, outline: Outline, refused: bool) -> None:
    assert cited(run, outline).refused is refused
    assert cited(run, outline).places == ()


@pytest.mark.parametrize(("outcome", "refused"), [("answered", False), ("softened", False), ("refused", True)])
def test_a_run_that_answers_in_words_cites_and_refuses_by_its_answer(
    run: Run, cake: Topic, numbers: list[int], outcome: str, refused: bool
) -> None:
    citation = {"n": 1, "topic": f"Topic:{cake.pk}", "message": numbers[3], "quote": "dry"}
    payload = {"text": "Dry [1].", "citations": [] if refused else [citation], "outcome": outcome}
    RunEvent.objects.create(owner=run.owner, run=run, seq=1, kind="answered", at=datetime.now(UTC), payload=payload)
    found = cited(run, ended(Selected(f"Topic:{cake.pk}", 1, "", 0.5, 1)))
    assert found.refused is refused
    assert found.messages == (frozenset() if refused else frozenset(numbers[3:]))


def test_each_passage_is_one_citation_and_no_answer(run: Run, cake: Topic, numbers: list[int]) -> None:
    """Without a chat model."""
    passages = [numbers[:2], numbers[3:]]
    cites = [
        {"n": n, "topic": f"Topic:{cake.pk}", "message": passage[0], "quote": "Dry", "passage": passage}
        for n, passage in enumerate(passages, start=1)
    ]
    payload = {"text": "", "citations": cites, "outcome": "passages"}
    RunEvent.objects.create(owner=run.owner, run=run, seq=1, kind="answered", at=datetime.now(UTC), payload=payload)
    found = cited(run, ended(Selected(f"Topic:{cake.pk}", 1, "", 0.5, 1)))
    assert found.places == tuple(map(frozenset, passages))
    assert (found.refused, found.passages) == (False, True)
