"""Scores and reports with values that the tests choose."""

from collections.abc import Sequence
from typing import Any

from memoryapp.insight.evaluation.scores import QuestionScore, report
from memoryapp.models import ChatUser, Evaluation, Run


def score(**given: Any) -> QuestionScore:
    """Returns the score of a question with two messages of evidence in two topics; the first and the third candidate
    contain one each."""
    figures = {"qid": "q1", "category": "", "run": "", "evidence": 2, "ranked": (1, 0, 1)}
    chosen = {"selected": 2, "hits": 1, "evidence_topics": 2, "seconds": 0.1, "expected": 2}
    return QuestionScore(**{**figures, **chosen, **given})


def unanswerable(**given: Any) -> QuestionScore:
    nothing = {"evidence": 0, "ranked": (0, 0, 0), "hits": 0, "evidence_topics": 0, "expected": 0}
    return score(**{**nothing, **given})


def reported(scores: Sequence[QuestionScore], strategy: str = "flash") -> dict[str, Any]:
    return report(scores, strategy=strategy, cuts=(5, 10))


def stored(
    owner: ChatUser, scores: Sequence[QuestionScore], strategy: str = "flash", reference: Evaluation | None = None
) -> Evaluation:
    """Stores an evaluation with a run for each score, whose query is the question's id."""
    row = Evaluation.objects.create(source="golden.jsonl", strategy=strategy, reference=reference)
    row.report = reported(scores, strategy)
    for each in row.report["questions"]:
        run = Run.objects.create(owner=owner, evaluation=row, query=f"what of {each['qid']}?", strategy=strategy)
        each["run"] = str(run.pk)
    row.save()
    return row
