"""The effect of a planned change of topics on past runs, shown before anybody makes it.

In: a chat user and a ``curation.Change``. Out: an ``Effect``, with each run's rank before and after, a verdict and a
sentence. It writes nothing and asks no remote model, but the embedded scorer again where that had chosen. It imports
the models, ``content``, ``curation``, ``search``, the bounds of ``runs`` and the engine."""

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

import numpy as np
from asgiref.sync import async_to_sync, sync_to_async
from django.utils.translation import gettext as _

from memoryapp.curation import rescoring
from memoryapp.curation.change import Change
from memoryapp.curation.effect_verdict import Verdict, explanation, verdict_of
from memoryapp.curation.rescoring import Assignment, Query, Rank, vector_of
from memoryapp.curation.topic_writer import check_live
from memoryapp.engine.beside import table_beside
from memoryapp.engine.candidates import Candidate
from memoryapp.engine.emit import unheard
from memoryapp.engine.memory import TopicContent, TopicDraft, parse_topic_id, topic_id
from memoryapp.engine.offline.scorer import MODEL as EMBEDDED_MODEL
from memoryapp.engine.offline.scorer import OfflineChat
from memoryapp.engine.parameters import Limits
from memoryapp.engine.prompts.rerank import RerankRequest
from memoryapp.engine.strategies.flash import rerank
from memoryapp.engine.text.lines import candidate_line
from memoryapp.memory import content as reading
from memoryapp.models import ChatUser, EmbeddingProfile, Message, Topic, TopicMessage
from memoryapp.models.run import CANDIDATE_FIELD
from memoryapp.platform.statements import fetched
from memoryapp.runs.parameters import of_run
from memoryapp.search.columns import Ids
from memoryapp.search.scores import ScoredTexts

# Past runs as questions with a known answer. A golden question names its messages, as does a run that somebody
# reported as a miss. For any other run they are derived from its selection: the messages with the excerpts, and for a
# topic without an excerpt the messages of its best passage, which only a search can find.


MOST_BY_HAND = 200
MOST_GOLDEN = 500

_SQL = table_beside(__file__)
# Also includes topics that held these messages earlier: a run of last month saw what today's topic was made from.
FORMER: str = _SQL["former"]
RUNS: str = _SQL["runs"].format(candidate=CANDIDATE_FIELD.format(payload="f.payload", name="id"))


@dataclass(frozen=True, slots=True)
class PastRun:
    """A finished run; ``shown`` is how many topics the model was shown, ``by_scorer`` that the embedded one chose.
    ``messages`` are known to answer it; ``chosen`` are selected topics, live or retired, whose best passage answers it;
    ``handed`` are all that it selected."""

    id: UUID
    text: str
    when: datetime
    is_golden: bool
    shown: int
    query: Query
    messages: tuple[int, ...]
    chosen: tuple[int, ...]
    limits: Limits
    by_scorer: bool
    handed: frozenset[int] = frozenset()


def runs_that_saw(owner_id: int, topics: Sequence[int] | None, also: UUID | None = None) -> list[PastRun]:
    """The owner's runs that involve these topics, newest first; with None, whatever they involve.

    Considered are the latest 200 runs by hand, the latest run of each golden question and the run ``also``. A run
    counts if it found one of the topics or an earlier version of it; a golden question also if its answer is in one of
    them. A run whose search was restricted to days, chats or authors is left out, because messages it never saw might
    answer it. Two statements."""
    numbers = None if topics is None else list(topics)
    values: dict[str, Any] = {"owner": owner_id, "topics": numbers, "by_hand": MOST_BY_HAND, "golden": MOST_GOLDEN}
    values |= {"scorer": EMBEDDED_MODEL, "also": also}
    names = [topic_id(number) for (number,) in fetched(FORMER, values)]
    return [_run(*row) for row in fetched(RUNS, {**values, "names": names})]


def _run(
    id: UUID,
    text: str,
    when: datetime,
    is_golden: bool,
    parameters: str,
    evidence: str,
    enriched: str,
    selected: str,
    profile: int | None,
    vector: bytes | None,
    typed_vector: bytes | None,
    by_scorer: bool,
) -> PastRun:
    query = Query(enriched)
    if vector is not None and profile is not None:
        typed = None if typed_vector is None else Query(text, vector_of(typed_vector), profile)
        query = Query(enriched, vector_of(vector), profile, typed)
    picked = json.loads(selected)
    messages, chosen = (tuple(json.loads(evidence)), ()) if is_golden else _evidence_of(picked)
    handed = frozenset(number for item in picked if (number := parse_topic_id(item["id"])))
    asked = of_run(json.loads(parameters))
    limits = asked.limits(asked.seconds)
    return PastRun(id, text, when, is_golden, asked.candidates, query, messages, chosen, limits, by_scorer, handed)


def _evidence_of(selected: Sequence[Mapping[str, Any]]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The messages with excerpts, and the topics selected without one."""
    messages: list[int] = []
    chosen: list[int] = []
    for item in selected:
        quoted = [piece["message"] for piece in item.get("excerpt", ()) if piece.get("message") is not None]
        messages += quoted
        number = parse_topic_id(item["id"])
        if not quoted and number is not None:
            chosen.append(number)
    return tuple(dict.fromkeys(messages)), tuple(chosen)


# The embedded scorer is the only chooser that can be asked twice: it is here, costs nothing, and says the same of the
# same topics. People, files and active sessions are left out.


# Different questions, of the latest runs; each is asked twice and takes at most a tenth of a second.
MOST_ASKED = 20
# The scorer waits for nothing, so on a slow machine it is not late either.
_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class TwoChoices:
    """The numbers of the topics that the scorer chooses for a run, of today's and of those after the change."""

    today: frozenset[int]
    then: frozenset[int]


class AskedAgain:
    """The scorer over the topics of both assignments, with the same number for a topic in each. ``put`` are new."""

    def __init__(self, owner_id: int, today: Assignment, then: Assignment, put: Mapping[int, TopicDraft]) -> None:
        self.asked = 0
        self.put = frozenset(put)
        self._owner_id = owner_id
        self._put = put
        self._holders: dict[int, set[int]] = defaultdict(set)
        for message, topic in (*today.of.items(), *then.of.items()):
            self._holders[topic].add(message)
        self._topics: dict[int, TopicContent] = {}
        self._known: dict[object, TwoChoices] = {}

    def choices(self, run: PastRun, today: Mapping[int, Rank], then: Mapping[int, Rank]) -> TwoChoices | None:
        """None for a run in which the scorer did not choose, and beyond the first ``MOST_ASKED`` questions."""
        question = run.text, run.query.text, run.query.profile_id, run.query.vector is None, run.limits, run.shown
        if not run.by_scorer or (question not in self._known and len(self._known) == MOST_ASKED):
            return None
        if question not in self._known:
            self._known[question] = TwoChoices(self._chosen(run, today), self._chosen(run, then))
        self.asked += 1
        return self._known[question]

    def _chosen(self, run: PastRun, ranks: Mapping[int, Rank]) -> frozenset[int]:
        shown = {topic: rank for topic, rank in ranks.items() if rank.shown}
        self._learn(shown)
        request = RerankRequest(
            query=run.text,
            enriched=run.query.text,
            candidates=tuple(_candidate(self._topics[topic], rank) for topic, rank in shown.items()),
            baseline=(),
            today=run.when.date(),
        )
        limits = replace(run.limits, seconds=_SECONDS, turn_seconds=_SECONDS)
        finished = async_to_sync(rerank)(
            request,
            chat=OfflineChat(limits.least_certainty),
            read_topics=sync_to_async(self._read),
            limits=limits,
            emit=unheard,
        )
        chosen = () if finished.fallback else finished.selected
        return frozenset(number for each in chosen if (number := parse_topic_id(each.id)) is not None)

    def _learn(self, numbers: Collection[int]) -> None:
        """Reads the topics that are not known yet, in two statements."""
        unknown = [number for number in numbers if number not in self._topics]
        wanted = {message for number in unknown for message in self._holders[number]}
        if not wanted:
            return
        rows = Message.objects.of(self._owner_id).filter(pk__in=wanted).order_by("sent_at", "pk")
        messages = {row.pk: reading.content(row) for row in rows}
        summaries = dict(Topic.objects.of(self._owner_id).filter(pk__in=unknown).values_list("pk", "summary"))
        for number in unknown:
            here = tuple(content for pk, content in messages.items() if pk in self._holders[number])
            summary = self._put[number].summary.strip() if number in self._put else summaries.get(number, "")
            size = sum(len(content.text) for content in here)
            self._topics[number] = TopicContent(number, summary, here[0].sent_at, size, here)

    def _read(self, numbers: Sequence[int]) -> list[TopicContent]:
        return [self._topics[number] for number in numbers]


def _candidate(topic: TopicContent, rank: Rank) -> Candidate:
    id, date = topic_id(topic.id), f"{topic.started_at:%Y-%m-%d}"
    line = candidate_line(id, rank.score, date, len(topic.messages), topic.size_chars, topic.summary)
    return Candidate(
        id, rank.rank, rank.rank, 0.0, 0.0, 0.0, rank.score,
        date, len(topic.messages), topic.size_chars, topic.summary, line, shown=True,
    )  # fmt: skip


# Tries a change of topics on past runs.
#
# Each run's query is searched again: once over its passages, and twice over topics, as they are and as they would be.
# The measure is the position of the messages that answered the query: whether the model is still shown their topic,
# at which rank, and how much it has to read for them. Merging hardly lowers the rank of a topic, because a topic
# ranks by its best passage; a bad merge shows in how much there is to read, and so does a good split. What a summary
# says beyond the passages counts as well, so a new summary may change a topic's rank. Where the embedded scorer
# chose, it is asked again, and whether it chooses the topic counts before everything else.

_WORST_FIRST = {"worse": 0, "better": 1, "same": 2}


@dataclass(frozen=True, slots=True)
class Evidence:
    """How a search finds what answered a run. ``rank`` counts from 1; it is that of the evidence that is hardest to
    find, None when some of it is in no topic or beyond the first 200. ``shown`` says whether the model is shown all of
    it; ``chars`` is the length of the topics that contain it."""

    rank: int | None
    shown: bool = False
    chars: int = 0


@dataclass(frozen=True, slots=True)
class RunEffect:
    """A past run, and what the change would do to it. A run that selected no topic has no evidence and no ranks.
    ``is_passed_over`` says that the embedded scorer, asked again, does not choose it after the change either."""

    run_id: UUID
    query: str
    when: datetime
    before: Evidence
    after: Evidence
    verdict: Verdict
    sentence: str
    is_golden: bool
    is_passed_over: bool = False


@dataclass(frozen=True, slots=True)
class Effect:
    """``rows`` are the ``affected`` runs: worse ones first, golden questions before others, newest first.
    ``words_only`` counts those that were compared by words alone, because their query's vector is not known, and
    ``asked_again`` those for which the embedded scorer, which had chosen, was asked twice more."""

    affected: int
    better: int
    worse: int
    same: int
    rows: tuple[RunEffect, ...]
    words_only: int = 0
    asked_again: int = 0


def effect_of(owner: ChatUser, change: Change, also: UUID | None = None) -> Effect:
    """What ``change`` would do to the owner's past runs. Raises CurationError or Stale. Considered are the latest 200
    runs by hand, the latest run of each golden question and the run ``also``, if they found one of the retired topics,
    or an earlier one with their messages."""
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

    by_passages: rescoring.RescoredQuery
    by_summaries: rescoring.QuerySummaries

    def ranked(self, assignment: rescoring.Assignment, *, threshold: float, shown: int) -> dict[int, rescoring.Rank]:
        summaries = self.by_summaries.words(assignment.passages.topics, self.by_passages.common)
        return assignment.ranked(self.by_passages.found, summaries, threshold=threshold, shown=shown)


@dataclass(frozen=True, slots=True)
class _TrialMemory:
    """What runs are tried on: the retired topics ``out``, and which message is in which topic today and ``then``."""

    out: frozenset[int]
    rows: rescoring.MessagePassages
    today: rescoring.Assignment
    then: rescoring.Assignment
    thresholds: Mapping[int, float]
    chosen: Mapping[int, Ids]
    scorer: AskedAgain

    def evidence(self, run: PastRun, found: ScoredTexts) -> list[int]:
        """The messages that answer the run, and those of the best passage of each topic selected without an excerpt."""
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

    def ranks(self, run: PastRun, query: _RescoredRun) -> tuple[dict[int, rescoring.Rank], dict[int, rescoring.Rank]]:
        """The ranked topics today, and after the change."""
        threshold = self.thresholds.get(run.query.profile_id, np.inf)
        today, then = (query.ranked(each, threshold=threshold, shown=run.shown) for each in (self.today, self.then))
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
    rows = rescoring.message_passages(owner_id, passages.ids)
    today, then = rescoring.assignments(owner_id, rows, change)
    thresholds = dict(EmbeddingProfile.objects.values_list("pk", "threshold"))
    drafts = rescoring.numbered(today.chars, change)
    scorer = AskedAgain(owner_id, today, then, drafts)
    memory = _TrialMemory(frozenset(change.out), rows, today, then, thresholds, _messages_of(owner_id, runs), scorer)
    queries = [run.query for run in runs]
    put = {number: draft.summary.strip() for number, draft in drafts.items()}
    stems = rescoring.stems_of(queries)
    summaries = rescoring.summaries_for(owner_id, queries, stems, put)
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
    without, passed_over = _without(run, again), bool(choices) and not chosen[1]
    nothing = RunEffect(run.id, run.text, run.when, none, none, changed, without, run.is_golden, passed_over)
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
