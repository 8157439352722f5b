"""Tries a change of topics on past runs.

Each run's query is searched again, once over its passages and twice over topics: as they are and as they would be.
What counts is where the messages that answered it end up: whether the model is still shown their topic, at which
rank, and how much there is to read for them. Merging hardly costs a topic its rank, for a topic is as good as its best
passage: a bad merge shows in how much there is to read, and so does a good split. What a summary says more than the
passages counts as well, so a new summary may move a topic.
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
from memoryapp.effect import rescoring, summaries
from memoryapp.effect.assignments import Assignment, MessagePassages, Rank, assignments, message_passages, numbered
from memoryapp.effect.past_runs import PastRun, runs_that_saw
from memoryapp.effect.rescoring import Tried
from memoryapp.effect.summaries import QuerySummaries
from memoryapp.effect.verdict import Standing, Verdict, explanation, verdict_of
from memoryapp.models import ChatUser, EmbeddingProfile, Topic, TopicMessage
from memoryapp.search.columns import Ids
from memoryapp.search.similarity import Compared

_WORST_FIRST = {"worse": 0, "better": 1, "same": 2}


@dataclass(frozen=True, slots=True)
class RunEffect:
    """One past run, and what the change would do to it.

    Ranks count from 1 and are those of the evidence that is hardest to find, None where some is in no topic or
    beyond the first 200. ``shown`` tells whether the model is shown all of it; ``chars`` are those of the topics
    that hold it. A run that chose no topic has no evidence, and no ranks.
    """

    run_id: UUID
    query: str
    when: datetime
    before_rank: int | None
    after_rank: int | None
    verdict: Verdict
    sentence: str
    is_golden: bool
    before_shown: bool = False
    after_shown: bool = False
    before_chars: int = 0
    after_chars: int = 0


@dataclass(frozen=True, slots=True)
class Effect:
    """``rows`` are the ``affected`` runs, worse ones first, golden before others, the newest first.

    ``words_only`` is how many of them were compared by words alone, their query's vector not being known.
    """

    affected: int
    better: int
    worse: int
    same: int
    rows: tuple[RunEffect, ...]
    words_only: int = 0


def effect_of(owner: ChatUser, change: Change) -> Effect:
    """What ``change`` would do to the owner's past runs. Raises CurationError, Stale.

    Looked at are the latest 200 runs by hand and the latest run of each golden question, as far as they found one
    of the topics taken out, or one that held their messages before.
    """
    live = dict(Topic.objects.of(owner).filter(pk__in=change.out).values_list("pk", "is_live"))
    check_live(owner, change.out, live)
    runs = runs_that_saw(owner.pk, change.out)
    rows = sorted(_effects(owner.pk, change, runs), key=lambda row: (_WORST_FIRST[row.verdict], not row.is_golden))
    counted = Counter(row.verdict for row in rows)
    words_only = sum(run.query.vector is None for run in runs)
    return Effect(len(rows), counted["better"], counted["worse"], counted["same"], tuple(rows), words_only)


@dataclass(frozen=True, slots=True)
class _Trial:
    """A run's query on the passages, and on summaries."""

    tried: Tried
    said: QuerySummaries

    def ranked(self, assignment: Assignment, *, threshold: float, shown: int) -> dict[int, Rank]:
        said = self.said.words(assignment.passages.topics, self.tried.common)
        return assignment.ranked(self.tried.found, said, threshold=threshold, shown=shown)


@dataclass(frozen=True, slots=True)
class _TrialMemory:
    """What all runs are tried on: the topics taken ``out``, and which message is in which topic today and ``then``."""

    out: frozenset[int]
    rows: MessagePassages
    today: Assignment
    then: Assignment
    thresholds: Mapping[int, float]
    chosen: Mapping[int, Ids]

    def evidence(self, run: PastRun, found: Compared) -> list[int]:
        """The messages known to answer the run, and those of the best passage of each topic chosen without any."""
        best = [message for topic in run.chosen for message in self._best(topic, found)]
        return list(dict.fromkeys((*run.messages, *best)))

    def _best(self, topic: int, found: Compared) -> list[int]:
        """The messages of the topic, as it was then, that stand in its best passage."""
        here = np.flatnonzero(np.isin(self.rows.messages, self.chosen[topic]) & (self.rows.places >= 0))
        if not len(here):
            return []
        places = self.rows.places[here]
        found_here: list[int] = self.rows.messages[here[places == places[np.argmax(found.fused[places])]]].tolist()
        return found_here

    def standings(self, run: PastRun, trial: _Trial, evidence: Collection[int]) -> tuple[Standing, Standing]:
        """Where the evidence stands today, and then."""
        threshold = self.thresholds.get(run.query.profile_id, np.inf)
        today, then = (
            assignment.standing(evidence, trial.ranked(assignment, threshold=threshold, shown=run.shown))
            for assignment in (self.today, self.then)
        )
        return today, then

    def touched(self, evidence: Collection[int]) -> list[int]:
        """The messages whose topic is taken out."""
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
    said = summaries.of_queries(owner_id, queries, stems, put)
    trials = map(_Trial, rescoring.tried(owner_id, passages, queries, stems), said)
    return [_effect(memory, run, trial) for run, trial in zip(runs, trials, strict=True)]


def _messages_of(owner_id: int, runs: Sequence[PastRun]) -> dict[int, Ids]:
    """The messages that chosen topics were made of."""
    chosen = {topic for run in runs for topic in run.chosen}
    listed: dict[int, list[int]] = {topic: [] for topic in chosen}
    rows = TopicMessage.objects.filter(owner=owner_id, topic__in=chosen)
    for topic, message in rows.values_list("topic", "message"):
        listed[topic].append(message)
    return {topic: np.array(messages, np.int64) for topic, messages in listed.items()}


def _effect(memory: _TrialMemory, run: PastRun, trial: _Trial) -> RunEffect:
    evidence = memory.evidence(run, trial.tried.found)
    nothing = RunEffect(run.id, run.text, run.when, None, None, "same", _without(run), run.is_golden)
    if not evidence:
        return nothing
    touched = memory.touched(evidence)
    before, after = memory.standings(run, trial, touched or evidence)
    sentence = explanation(before, after, touched=bool(touched))
    return replace(
        nothing,
        before_rank=before.rank,
        after_rank=after.rank,
        verdict=verdict_of(before, after, touched=bool(touched)),
        sentence=sentence if run.query.vector is not None else f"{sentence} {_by_words()}",
        before_shown=before.shown == before.messages,
        after_shown=after.shown == after.messages,
        before_chars=before.chars,
        after_chars=after.chars,
    )


def _without(run: PastRun) -> str:
    if run.messages or run.chosen:
        return _("The messages it rested on are gone.")
    return _("It chose no topic, so it has nothing to lose.")


def _by_words() -> str:
    return _("Compared by words alone, for the vector of its query is not known.")
