"""One question's figures.

Metrics as in the field: recall@k is the share of evidence messages that lie in the first k topics
(Manning et al., Introduction to Information Retrieval, ch. 8), MRR the reciprocal rank of the first topic
with evidence; precision, recall and F1 count topics, per question, and an empty selection scores 0.

A citation is right if it contains a message of the evidence or of the expected citations; coverage is the share of
expected citations that were made. Without any citation both are 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class QuestionScore:
    """``ranked`` lists, by rank of the candidate, the evidence messages in that topic; ``run`` is the run's id.

    ``early`` is how many of the evidence messages are within the first 20,000 characters of the ranked topics.
    ``cited`` counts the citations, ``rightly`` the right ones, ``expected`` the expected ones and ``covered`` those of
    them that were made. All are 0 for an unanswerable question, whose ``evidence`` is 0. ``passages`` marks a run
    that shows passages in place of an answer, ``failed`` one that did not end as its strategy intended.
    """

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
        """The part of the score that a report stores, so that two reports can be compared question by question.

        It names no chat user and quotes nothing: a report belongs to nobody and outlives the memories it is about.
        """
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
