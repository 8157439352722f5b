"""Tries a change of topics on past runs.

Each run's query is searched again: once over its passages, and twice over topics, as they are and as they would be. The
measure is the position of the messages that answered the query: whether the model is still shown their topic, at which
rank, and how much it has to read for them. Merging hardly lowers the rank of a topic, because a topic ranks by its best
passage; a bad merge shows in how much there is to read, and so does a good split. What a summary says beyond the
passages counts as well, so a new summary may change a topic's rank.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

import numpy as np
from django.utils.translation import gettext as _

from memoryapp.curation.change import Change
from memoryapp.curation.swapping import check_live
from memoryapp.effect import rescoring
from memoryapp.effect.assignments import Assignment, MessagePassages, Rank, assignments, message_passages, numbered
from memoryapp.effect.past_runs import PastRun, runs_that_saw
from memoryapp.effect.rescoring import RescoredQuery
from memoryapp.effect.summaries import QuerySummaries, summaries_for
from memoryapp.effect.verdict import Position, Verdict, explanation, verdict_of
from memoryapp.models import ChatUser, EmbeddingProfile, Topic, TopicMessage
from memoryapp.search.columns import Ids
from memoryapp.search.scores import ScoredTexts

_WORST_FIRST = {"worse": 0, "better": 1, "same": 2}


@dataclass(frozen=True, slots=True)
class Evidence:
    """How a search finds what answered a run. ``rank`` counts from 1; it is that of the evidence that is hardest to
    find, None when some of it is in no topic or beyond the first 200. ``shown`` says whether the model is shown all of
    it; ``chars`` is the length of the topics that contain it.
    """

    rank: int | None
    shown: bool = False
    chars: int = 0


@dataclass(frozen=True, slots=True)
class RunEffect:
    """A past run, and what the change would do to it. A run that selected no topic has no evidence and no ranks."""

    run_id: UUID
    query: str
    when: datetime
    before: Evidence
    after: Evidence
    verdict: Verdict
    sentence: str
    is_golden: bool


@dataclass(frozen=True, slots=True)
class Effect:
    """``rows`` are the ``affected`` runs: worse ones first, golden questions before others, newest first.

    ``words_only`` counts those that were compared by words alone, because their query's vector is not known.
    """

    affected: int
    better: int
    worse: int
    same: int
    rows: tuple[RunEffect, ...]
    words_only: int = 0


def effect_of(owner: ChatUser, change: Change) -> Effect:
    """What ``change`` would do to the owner's past runs. Raises CurationError or Stale.

    Considered are the latest 200 runs by hand and the latest run of each golden question, if they found one of the
    retired topics, or an earlier one with their messages.
    """
    live = dict(Topic.objects.of(owner).filter(pk__in=change.out).values_list("pk", "is_live"))
    check_live(owner, change.out, live)
    runs = runs_that_saw(owner.pk, change.out)
    rows = sorted(_effects(owner.pk, change, runs), key=lambda row: (_WORST_FIRST[row.verdict], not row.is_golden))
    counted = Counter(row.verdict for row in rows)
    words_only = sum(run.query.vector is None for run in runs)
    return Effect(len(rows), counted["better"], counted["worse"], counted["same"], tuple(rows), words_only)


@dataclass(frozen=True, slots=True)
class _RescoredRun:
    """A run's query compared with the passages and with the summaries."""

    by_passages: RescoredQuery
    by_summaries: QuerySummaries

    def ranked(self, assignment: Assignment, *, threshold: float, shown: int) -> dict[int, Rank]:
        summaries = self.by_summaries.words(assignment.passages.topics, self.by_passages.common)
        return assignment.ranked(self.by_passages.found, summaries, threshold=threshold, shown=shown)


@dataclass(frozen=True, slots=True)
class _TrialMemory:
    """What all runs are tried on: the retired topics ``out``, and which message is in which topic today and
    ``then``."""

    out: frozenset[int]
    rows: MessagePassages
    today: Assignment
    then: Assignment
    thresholds: Mapping[int, float]
    chosen: Mapping[int, Ids]

    def evidence(self, run: PastRun, found: ScoredTexts) -> list[int]:
        """The messages known to answer the run, and those of the best passage of each topic selected without an
        excerpt."""
        best = [message for topic in run.chosen for message in self._best(topic, found)]
        return list(dict.fromkeys((*run.messages, *best)))

    def _best(self, topic: int, found: ScoredTexts) -> list[int]:
        """The messages of the topic, as it was then, that are in its best passage."""
        here = np.flatnonzero(np.isin(self.rows.messages, self.chosen[topic]) & (self.rows.places >= 0))
        if not len(here):
            return []
        places = self.rows.places[here]
        found_here: list[int] = self.rows.messages[here[places == places[np.argmax(found.fused[places])]]].tolist()
        return found_here

    def standings(self, run: PastRun, query: _RescoredRun, evidence: Collection[int]) -> tuple[Position, Position]:
        """The standing of the evidence today, and after the change."""
        threshold = self.thresholds.get(run.query.profile_id, np.inf)
        today, then = (
            assignment.standing(evidence, query.ranked(assignment, threshold=threshold, shown=run.shown))
            for assignment in (self.today, self.then)
        )
        return today, then

    def touched(self, evidence: Collection[int]) -> list[int]:
        """The messages whose topic is retired."""
        return [message for message in evidence if self.today.of.get(message) in self.out]


def _effects(owner_id: int, change: Change, runs: Sequence[PastRun]) -> list[RunEffect]:
    if not runs:
        return []
    passages = rescoring.passages(owner_id)
    rows = message_passages(owner_id, passages.ids)
    today, then = assignments(owner_id, rows, change)
    thresholds = dict(EmbeddingProfile.objects.values_list("pk", "threshold"))
    memory = _TrialMemory(frozenset(change.out), rows, today, then, thresholds, _messages_of(owner_id, runs))
    queries = [run.query for run in runs]
    put = {number: draft.summary.strip() for number, draft in numbered(today.chars, change).items()}
    stems = rescoring.stems_of(queries)
    summaries = summaries_for(owner_id, queries, stems, put)
    rescored = map(_RescoredRun, rescoring.rescored(owner_id, passages, queries, stems), summaries)
    return [_effect(memory, run, query) for run, query in zip(runs, rescored, strict=True)]


def _messages_of(owner_id: int, runs: Sequence[PastRun]) -> dict[int, Ids]:
    """The messages of the selected topics."""
    chosen = {topic for run in runs for topic in run.chosen}
    listed: dict[int, list[int]] = {topic: [] for topic in chosen}
    rows = TopicMessage.objects.filter(owner=owner_id, topic__in=chosen)
    for topic, message in rows.values_list("topic", "message"):
        listed[topic].append(message)
    return {topic: np.array(messages, np.int64) for topic, messages in listed.items()}


def _effect(memory: _TrialMemory, run: PastRun, query: _RescoredRun) -> RunEffect:
    evidence = memory.evidence(run, query.by_passages.found)
    none = Evidence(None)
    nothing = RunEffect(run.id, run.text, run.when, none, none, "same", _without(run), run.is_golden)
    if not evidence:
        return nothing
    touched = memory.touched(evidence)
    before, after = memory.standings(run, query, touched or evidence)
    sentence = explanation(before, after, touched=bool(touched))
    return replace(
        nothing,
        before=Evidence(before.rank, before.shown == before.messages, before.chars),
        after=Evidence(after.rank, after.shown == after.messages, after.chars),
        verdict=verdict_of(before, after, touched=bool(touched)),
        sentence=sentence if run.query.vector is not None else f"{sentence} {_by_words()}",
    )


def _without(run: PastRun) -> str:
    if run.messages or run.chosen:
        return _("The messages it rested on are gone.")
    return _("It chose no topic, so it has nothing to lose.")


def _by_words() -> str:
    return _("Compared by words alone, because the vector of its query is not known.")
