"""Whose summary the merged topic gets: one member's, all of them composed, the model's, or what a person wrote.

The page fills in the field at once; without JavaScript the choice and the field arrive together, and a field that
still says what all of them composed say, or what the model proposed, was not written by anybody.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from memoryapp import curation
from memoryapp.curation import MERGE, Change, ChangeRequest
from memoryapp.models import ChatUser, Topic

COMPOSED = "composed"
MODEL = "model"


@dataclass(frozen=True, slots=True)
class Survivor:
    """The ``chosen`` one, a topic's number, ``COMPOSED`` or ``MODEL``; ``request`` and ``change`` have the summary of
    the field."""

    chosen: str
    composed: str
    request: ChangeRequest
    change: Change

    @property
    def summary(self) -> str:
        return self.change.put[0].summary


def survivor(owner: ChatUser, topics: Sequence[Topic], chosen: str, written: str = "", proposed: str = "") -> Survivor:
    """The summary by what was ``chosen``, ``written`` and ``proposed`` by the model.

    Raises CurationError, Stale, as a merge does.
    """
    wanted = ChangeRequest(MERGE, owner, tuple(topic.pk for topic in topics))
    change = curation.plan(wanted)
    merged = change.put[0]
    summaries = {str(topic.pk): topic.summary for topic in topics} | ({MODEL: proposed} if proposed else {})
    kept = chosen if chosen in summaries else COMPOSED
    is_own = bool(written) and written not in (merged.summary, proposed)
    summary = written if is_own else summaries.get(kept) or merged.summary
    changed = replace(change, put=(replace(merged, summary=summary),))
    return Survivor(kept, merged.summary, replace(wanted, summaries=(summary,)), changed)
