"""The merger's verdict on a suggested merge, stored in the suggestion's evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from enum import Enum
from typing import Any

from memoryapp.engine.agents.merger import MergeVerdict
from memoryapp.models import Suggestion

_KEPT = "merger"


class Check(Enum):
    """The state of the merger's check of a suggestion."""

    WAITING = "waiting"
    JUDGED = "judged"
    FAILED = "failed"


def check_of(suggestion: Suggestion) -> Check:
    """A failed check is left to people: they may repeat it, or decide without it."""
    if verdict_of(suggestion):
        return Check.JUDGED
    return Check.FAILED if suggestion.call_id else Check.WAITING


def verdict_of(suggestion: Suggestion) -> MergeVerdict | None:
    """The merger's verdict on exactly these topics; None without one."""
    return verdict_in(suggestion.evidence)


def verdict_in(evidence: Mapping[str, Any]) -> MergeVerdict | None:
    kept = evidence.get(_KEPT)
    return MergeVerdict(**kept) if kept else None


def evidence_with(suggestion: Suggestion, verdict: MergeVerdict) -> dict[str, Any]:
    """The suggestion's evidence with the verdict, for its row."""
    return {**suggestion.evidence, _KEPT: asdict(verdict)}
