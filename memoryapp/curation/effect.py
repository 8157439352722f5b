"""The effect of a planned change of topics on past runs, shown before anybody makes it.

In: a chat user and a ``curation.Change``. Out: an ``Effect``, with each run's rank before and after, a verdict and a
sentence. It writes nothing and asks no remote model, but the embedded scorer again where that had chosen. It imports
the models, ``content``, ``curation``, ``search``, the bounds of ``runs`` and the engine.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

import numpy as np
from django.utils.translation import gettext as _

from memoryapp.curation import rescoring
from memoryapp.curation.change import Change
from memoryapp.curation.choices import AskedAgain, TwoChoices
from memoryapp.curation.effect_verdict import Verdict, explanation, verdict_of
from memoryapp.curation.past_runs import PastRun, runs_that_saw
from memoryapp.curation.rescoring import (
    Assignment,
    MessagePassages,
    QuerySummaries,
    Rank,
    RescoredQuery,
    assignments,
    message_passages,
    numbered,
    summaries_for,
)
from memoryapp.curation.topic_writer import check_live
from memoryapp.models import ChatUser, EmbeddingProfile, Topic, TopicMessage
from memoryapp.search.columns import Ids
from memoryapp.search.scores import ScoredTexts

# Tries a change of topics on past runs.
#
# Each run's query is searched again: once over its passages, and twice over topics, as they are and as they would be.
# The measure is the position of the messages that answered the query: whether the model is still shown their topic,
# at which rank, and how much it has to read for them. Merging hardly lowers the rank of a topic, because a topic
# ranks by its best passage; a bad merge shows in how much there is to read, and so does a good split. What a summary
# says beyond the passages counts as well, so a new summary may change a topic's rank. Where the embedded scorer
# chose, it is asked again (``choices``), and whether it chooses the topic counts before everything else.

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

    ``words_only`` counts those that were compared by words alone, because their query's vector is not known, and
    ``asked_again`` those for which the embedded scorer, which had chosen, was asked twice more.
    """

    affected: int
    better: int
    worse: int
    same: int
    rows: tuple[RunEffect, ...]
    words_only: int = 0
    asked_again: int = 0


def effect_of(owner: ChatUser, change: Change, also: UUID | None = None) -> Effect:
    """What ``change`` would do to the owner's past runs. Raises CurationError or Stale.

    Considered are the latest 200 runs by hand, the latest run of each golden question and the run ``also``, if they
    found one of the retired topics, or an earlier one with their messages.
    """
    live = dict(Topic.objects.of(owner).filter(pk__in=change.out).values_list("pk", "is_live"))
    check_live(owner, change.out, live)
    return effect_on(owner.pk, change, runs_that_saw(owner.pk, change.out, also))


def effect_on(owner_id: int, change: Change, runs: Sequence[PastRun]) -> Effect:
    """What ``change`` would do to these runs. Topic 0 may be retired: it has the messages that are in no topic."""
    effects, asked_again = _effects(owner_id, change, runs)
    rows = sorted(effects, key=lambda row: (_WORST_FIRST[row.verdict], not row.is_golden))
    counted = Counter(row.verdict for row in rows)
    words_only = sum(run.query.vector is None for run in runs)
    return Effect(len(rows), counted["better"], counted["worse"], counted["same"], tuple(rows), words_only, asked_again)


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
    scorer: AskedAgain

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

    def ranks(self, run: PastRun, query: _RescoredRun) -> tuple[dict[int, Rank], dict[int, Rank]]:
        """The ranked topics today, and after the change."""
        threshold = self.thresholds.get(run.query.profile_id, np.inf)
        today, then = (
            query.ranked(assignment, threshold=threshold, shown=run.shown) for assignment in (self.today, self.then)
        )
        return today, then

    def chooses(self, choices: TwoChoices, evidence: Collection[int]) -> tuple[bool, bool]:
        """Whether the scorer chooses a topic with evidence, today and after the change; without any evidence, whether
        it chooses one that the change concerns."""
        if not evidence:
            return not self.out.isdisjoint(choices.today), not self.scorer.put.isdisjoint(choices.then)
        return (
            any(self.today.of.get(message) in choices.today for message in evidence),
            any(self.then.of.get(message) in choices.then for message in evidence),
        )

    def touched(self, evidence: Collection[int]) -> list[int]:
        """The messages whose topic is retired."""
        return [message for message in evidence if self.today.of.get(message) in self.out]


def _effects(owner_id: int, change: Change, runs: Sequence[PastRun]) -> tuple[list[RunEffect], int]:
    """The effect on each run, and for how many the scorer was asked again."""
    if not runs:
        return [], 0
    passages = rescoring.passages(owner_id)
    rows = message_passages(owner_id, passages.ids)
    today, then = assignments(owner_id, rows, change)
    thresholds = dict(EmbeddingProfile.objects.values_list("pk", "threshold"))
    drafts = numbered(today.chars, change)
    scorer = AskedAgain(owner_id, today, then, drafts)
    memory = _TrialMemory(frozenset(change.out), rows, today, then, thresholds, _messages_of(owner_id, runs), scorer)
    queries = [run.query for run in runs]
    put = {number: draft.summary.strip() for number, draft in drafts.items()}
    stems = rescoring.stems_of(queries)
    summaries = summaries_for(owner_id, queries, stems, put)
    rescored = map(_RescoredRun, rescoring.rescored(owner_id, passages, queries, stems), summaries)
    return [_effect(memory, run, query) for run, query in zip(runs, rescored, strict=True)], scorer.asked


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
    today, then = memory.ranks(run, query)
    choices = memory.scorer.choices(run, today, then)
    touched = memory.touched(evidence)
    measured = touched or evidence
    chosen = memory.chooses(choices, measured) if choices else (False, False)
    changed: Verdict = "same" if chosen[0] == chosen[1] else "better" if chosen[1] else "worse"
    again = _asked_again(*chosen) if choices else ""
    nothing = RunEffect(run.id, run.text, run.when, none, none, changed, _without(run, again), run.is_golden)
    if not evidence:
        return nothing
    before, after = memory.today.standing(measured, today), memory.then.standing(measured, then)
    sentence = " ".join(filter(None, (explanation(before, after, touched=bool(touched)), again)))
    return replace(
        nothing,
        before=Evidence(before.rank, before.shown == before.messages, before.chars),
        after=Evidence(after.rank, after.shown == after.messages, after.chars),
        verdict=changed if changed != "same" else verdict_of(before, after, touched=bool(touched)),
        sentence=sentence if run.query.vector is not None else f"{sentence} {_by_words()}",
    )


def _without(run: PastRun, again: str) -> str:
    if run.messages or run.chosen:
        return " ".join(filter(None, (_("The messages it rested on are gone."), again)))
    return " ".join((_("It chose no topic."), again)) if again else _("It chose no topic, so it has nothing to lose.")


def _asked_again(today: bool, then: bool) -> str:
    """What the scorer, asked twice, makes of the topic that counts."""
    if today and then:
        return _("The embedded scorer, asked again, chooses it as today.")
    if then:
        return _("The embedded scorer, asked again, does not choose it today; afterwards it would.")
    if today:
        return _("The embedded scorer, asked again, chooses it today; afterwards it would not.")
    return _("The embedded scorer, asked again, chooses it neither today nor afterwards.")


def _by_words() -> str:
    return _("Compared by words alone, because the vector of its query is not known.")
