"""One question's figures.

Metrics as in the field: recall@k is the share of evidence messages that lie in the first k topics
(Manning et al., Introduction to Information Retrieval, ch. 8), MRR the reciprocal rank of the first topic
with evidence; precision, recall and F1 count topics, per question, and an empty selection scores 0.

A citation is right if it contains a message of the evidence or of the expected citations; coverage is the share of
expected citations that were made. Without any citation both are 0."""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from memoryapp.engine.events import Selected
from memoryapp.engine.memory import MessageContent, parse_topic_id
from memoryapp.engine.outline import Outline
from memoryapp.engine.text.excerpts import best_exchanges
from memoryapp.engine.text.passages import exchanges
from memoryapp.memory.content import content
from memoryapp.models import Message, Run, RunEvent


@dataclass(frozen=True, slots=True)
class QuestionScore:
    """``ranked`` lists, by rank of the candidate, the evidence messages in that topic; ``run`` is the run's id.

    ``early`` is how many of the evidence messages are within the first 20,000 characters of the ranked topics.
    ``cited`` counts the citations, ``rightly`` the right ones, ``expected`` the expected ones and ``covered`` those of
    them that were made. All are 0 for an unanswerable question, whose ``evidence`` is 0. ``passages`` marks a run
    that shows passages in place of an answer, ``failed`` one that did not end as its strategy intended."""

    qid: str
    category: str
    run: str
    evidence: int
    ranked: tuple[int, ...]
    selected: int
    hits: int
    evidence_topics: int
    seconds: float
    early: int = 0
    cited: int = 0
    rightly: int = 0
    expected: int = 0
    covered: int = 0
    refused: bool = False
    passages: bool = False
    failed: bool = False

    @property
    def is_answerable(self) -> bool:
        return self.evidence > 0

    def recall_at(self, k: int) -> float:
        return _share(sum(self.ranked[:k]), self.evidence)

    @property
    def reciprocal_rank(self) -> float:
        return next((1 / rank for rank, found in enumerate(self.ranked, start=1) if found), 0.0)

    @property
    def precision(self) -> float:
        return _share(self.hits, self.selected)

    @property
    def recall(self) -> float:
        return _share(self.hits, self.evidence_topics)

    @property
    def f1(self) -> float:
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0

    @property
    def citation_precision(self) -> float:
        return _share(self.rightly, self.cited)

    @property
    def citation_coverage(self) -> float:
        return _share(self.covered, self.expected)

    @property
    def is_supported(self) -> bool:
        """Whether every expected citation was made."""
        return self.expected > 0 and self.covered == self.expected

    def row(self) -> dict[str, Any]:
        """The part of the score that a report stores, so that two reports can be compared question by question. It
        names no chat user and quotes nothing: a report belongs to nobody and outlives the memories it is about."""
        return {
            "qid": self.qid,
            "category": self.category,
            "run": self.run,
            "answerable": self.is_answerable,
            "refused": self.refused,
            "passages": self.passages,
            "failed": self.failed,
            "seconds": round(self.seconds, 4),
            "recall@5": round(self.recall_at(5), 4),
            "recall@10": round(self.recall_at(10), 4),
            "f1": round(self.f1, 4),
            "citation_precision": round(self.citation_precision, 4),
            "citation_coverage": round(self.citation_coverage, 4),
        }


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


# The report of a strategy: means over its questions, as one JSON document.


def report(scores: Sequence[QuestionScore], *, strategy: str, cuts: Sequence[int]) -> dict[str, Any]:
    """The document of ``evaluate --json``: figures in [0, 1], latencies in milliseconds; None when nothing was counted.

    Refusals are shares of their own questions, without those to which passages were shown and nothing answered; all
    other figures are means over the answerable ones. ``questions`` has a row for each, which ``comparison`` uses to
    compare two reports."""
    categories = sorted({score.category for score in scores if score.category})
    times = sorted(score.seconds * 1000 for score in scores)
    return {
        "n": len(scores),
        "unanswerable": sum(not score.is_answerable for score in scores),
        "strategy": strategy,
        **_figures(scores, cuts),
        "failed": sum(score.failed for score in scores),
        "latency_ms": {
            "avg": round(statistics.fmean(times), 1),
            "p50": round(_quantile(times, 0.5), 1),
            "p95": round(_quantile(times, 0.95), 1),
            "most": round(times[-1], 1),
        },
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


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Linear interpolation between the two nearest ranks."""
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


# What a run cites, and whether it refuses.
#
# A run that answers in words (the event ``answered``) cites messages, and says whether it refuses. Where no model
# wrote an answer, each passage that it shows is one citation, and it neither answers nor refuses. For any other run
# the excerpts of the selected topics count as citations: those in the run, or else the exchange of each topic with
# most of the query's rarer words, as ``memoryapp.engine.context`` hands it over. An exchange is one citation. Such a
# run refuses when it ends as its strategy intended and selects nothing.

# About the length of a passage, so that a topic is cited by one exchange or a few short ones.
EXCERPT_CHARS = 600
ANSWERED = "answered"


@dataclass(frozen=True, slots=True)
class Citations:
    """``places`` has an entry for each citation: the numbers of the messages that it refers to. ``passages`` says that
    they are shown in place of an answer."""

    places: tuple[frozenset[int], ...]
    refused: bool
    passages: bool = False

    @property
    def messages(self) -> frozenset[int]:
        return frozenset().union(*self.places)


def cited(run: Run, outline: Outline) -> Citations:
    """The citations in the run's answer, or those of its selection."""
    rows = RunEvent.objects.filter(run=run, kind=ANSWERED).order_by("-seq")
    answer = rows.values_list("payload", flat=True).first()
    if answer is not None:
        is_passages = answer["outcome"] == "passages"
        cited = tuple(frozenset(each["passage"] if is_passages else (each["message"],)) for each in answer["citations"])
        return Citations(cited, refused=answer["outcome"] == "refused", passages=is_passages)
    if outline.finished is None:
        return Citations((), refused=False)
    messages: dict[int, list[MessageContent]] = defaultdict(list)
    numbers = [number for topic in outline.finished.selected if (number := parse_topic_id(topic.id)) is not None]
    for row in Message.objects.of(run.owner).filter(topic__in=numbers).in_order():
        messages[row.topic_id or 0].append(content(row))
    places = [
        place
        for topic in outline.finished.selected
        for place in _excerpted(run.query, topic, messages.get(parse_topic_id(topic.id) or 0, ()))
    ]
    chosen = outline.finished.selected or outline.finished.people or outline.finished.artifacts
    return Citations(tuple(places), refused=not chosen and not outline.finished.fallback)


def _excerpted(query: str, topic: Selected, messages: Sequence[MessageContent]) -> list[frozenset[int]]:
    numbers = {piece.message for piece in topic.excerpt} - {None}
    if not numbers and messages:
        numbers = {piece.message for piece in best_exchanges(query, messages, EXCERPT_CHARS)}
    runs = [frozenset(message.id for message in run) for run in exchanges(messages)]
    return [run for run in runs if run & numbers]


# How certain a difference is: the paired bootstrap over questions (Efron and Tibshirani, 1993, ch. 13).
#
# Both strategies answered the same questions. The differences for each question are resampled with replacement, and
# the interval is between the 2.5th and the 97.5th percentile of their means. The generator is seeded: the same
# differences have the same interval, and reversed differences have its mirror image.

SHARE = 0.95
RESAMPLES = 10_000
SEED = 20_250_925
# So many numbers need little memory.
AT_ONCE = 4_000_000


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean difference over ``n`` questions, and its 95 % confidence interval."""

    n: int
    mean: float
    low: float
    high: float

    @property
    def is_below_zero(self) -> bool:
        return self.high < 0

    @property
    def is_above_zero(self) -> bool:
        return self.low > 0


def interval(differences: Sequence[float], resamples: int = RESAMPLES, at_once: int = AT_ONCE) -> Interval:
    """The interval of at least one difference, all numbers rounded to four digits; ``at_once`` are drawn at a time."""
    values = np.asarray(differences, dtype=np.float64)
    random = np.random.default_rng(SEED)
    rows = max(1, at_once // len(values))
    means = np.concatenate(
        [
            values[random.integers(0, len(values), (min(rows, resamples - start), len(values)))].mean(axis=1)
            for start in range(0, resamples, rows)
        ]
    )
    low, high = np.quantile(means, ((1 - SHARE) / 2, (1 + SHARE) / 2))
    return Interval(len(values), _rounded(values.mean()), _rounded(low), _rounded(high))


def _rounded(value: float) -> float:
    """To four digits, without a sign before zero."""
    return round(float(value), 4) + 0.0
