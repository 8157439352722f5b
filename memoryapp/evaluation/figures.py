"""The report of a strategy: means over its questions, as one JSON document."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from memoryapp.evaluation.scores import QuestionScore


def report(scores: Sequence[QuestionScore], *, strategy: str, cuts: Sequence[int]) -> dict[str, Any]:
    """The document of ``evaluate --json``: figures in [0, 1], latencies in milliseconds; None when nothing was counted.

    Refusals are shares of their own questions, without those to which passages were shown and nothing answered; all
    other figures are means over the answerable ones. ``questions`` has a row for each, which ``comparison`` uses to
    compare two reports.
    """
    categories = sorted({score.category for score in scores if score.category})
    return {
        "n": len(scores),
        "unanswerable": sum(not score.is_answerable for score in scores),
        "strategy": strategy,
        **_figures(scores, cuts),
        "failed": sum(score.failed for score in scores),
        "latency_ms": _latency(scores),
        "by_category": {
            name: {"n": len(group), **_figures(group, cuts)}
            for name in categories
            if (group := [score for score in scores if score.category == name])
        },
        "questions": [score.row() for score in scores],
    }


def _figures(scores: Sequence[QuestionScore], cuts: Sequence[int]) -> dict[str, Any]:
    answerable = [score for score in scores if score.is_answerable]
    unanswerable = [score for score in scores if not score.is_answerable]
    return {
        "candidates": {
            **{f"recall@{k}": mean(score.recall_at(k) for score in answerable) for k in cuts},
            "mrr": mean(score.reciprocal_rank for score in answerable),
            "evidence@20000chars": mean(score.early / score.evidence for score in answerable),
        },
        "selection": {
            "precision": mean(score.precision for score in answerable),
            "recall": mean(score.recall for score in answerable),
            "f1": mean(score.f1 for score in answerable),
            "mean_selected": mean(score.selected for score in answerable),
            "empty": mean(score.selected == 0 for score in answerable),
        },
        "citations": {
            "precision": mean(score.citation_precision for score in answerable),
            "coverage": mean(score.citation_coverage for score in answerable),
            "supported": mean(score.is_supported for score in answerable),
        },
        "refusals": {
            "unanswerable": mean(score.refused for score in unanswerable if not score.passages),
            "answerable": mean(score.refused for score in answerable if not score.passages),
        },
    }


def mean(values: Iterable[float]) -> float | None:
    """Rounded to four digits; None of no values."""
    numbers = list(values)
    return round(statistics.fmean(numbers), 4) if numbers else None


def _latency(scores: Sequence[QuestionScore]) -> dict[str, float]:
    times = sorted(score.seconds * 1000 for score in scores)
    return {
        "avg": round(statistics.fmean(times), 1),
        "p50": round(_quantile(times, 0.5), 1),
        "p95": round(_quantile(times, 0.95), 1),
        "most": round(times[-1], 1),
    }


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Linear interpolation between the two nearest ranks."""
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
