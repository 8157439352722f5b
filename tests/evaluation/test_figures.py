"""The figures of an evaluation, computed from scores that the tests write."""

import pytest

from memoryapp.engine.outline import Outline
from memoryapp.insight.evaluation import passes
from memoryapp.models import ChatUser, Message, Run
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
