"""Small topics joined to a neighbour: the least size of a topic also applies to the topics that a model makes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memoryapp.engine.memory import LONGEST_SUMMARY, MessageContent, TopicDraft
from memoryapp.engine.offline.segmenter import GENERAL
from memoryapp.engine.text.json_answers import clipped


@dataclass(frozen=True, slots=True)
class _DraftedStretch:
    """Consecutive messages, and the summaries of the drafts that they come from, in order."""

    messages: tuple[MessageContent, ...]
    summaries: tuple[str, ...]

    @property
    def chars(self) -> int:
        return sum(len(message.text) for message in self.messages)

    def __add__(self, after: _DraftedStretch) -> _DraftedStretch:
        return _DraftedStretch((*self.messages, *after.messages), (*self.summaries, *after.summaries))


def joined(
    drafts: Sequence[TopicDraft], messages: Sequence[MessageContent], least: int, most_chars: int
) -> list[TopicDraft]:
    """``drafts`` of consecutive ``messages`` of one session, joined until each has at least ``least`` messages.

    The smallest draft is joined first, to the neighbour that the shorter pause separates from it. A draft stays small
    when it is the only one, or when either neighbour would have more than ``most_chars`` characters with it.
    """
    by_id = {message.id: message for message in messages}
    runs = [_DraftedStretch(tuple(by_id[id] for id in draft.messages), (draft.summary,)) for draft in drafts]
    settled: set[_DraftedStretch] = set()
    while small := [run for run in runs if len(run.messages) < least and run not in settled]:
        smallest = min(small, key=lambda run: len(run.messages))
        first = _neighbour(runs, runs.index(smallest), most_chars)
        if first is None:
            settled.add(smallest)
        else:
            runs[first : first + 2] = [runs[first] + runs[first + 1]]
    return [TopicDraft(_summary(run), tuple(message.id for message in run.messages)) for run in runs]


def _neighbour(runs: Sequence[_DraftedStretch], at: int, most_chars: int) -> int | None:
    """The position of the first of the two drafts to join, one of which is at ``at``; None when no two fit."""
    pairs = [first for first in (at - 1, at) if 0 <= first < len(runs) - 1]
    fitting = [first for first in pairs if runs[first].chars + runs[first + 1].chars <= most_chars]
    return min(fitting, key=lambda first: _pause(runs[first], runs[first + 1]), default=None)


def _pause(before: _DraftedStretch, after: _DraftedStretch) -> float:
    return (after.messages[0].sent_at - before.messages[-1].sent_at).total_seconds()


def _summary(run: _DraftedStretch) -> str:
    """The summaries of the joined drafts, each once; small talk adds nothing to them."""
    if len(run.summaries) == 1:
        return run.summaries[0]
    named = [summary.strip().rstrip(".") for summary in run.summaries if summary != GENERAL]
    return clipped("; ".join(dict.fromkeys(named)) or GENERAL, LONGEST_SUMMARY)
