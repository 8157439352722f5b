"""Runs of one memory side by side: topics by what became of them in each run, and the first difference."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any, Literal, get_args
from uuid import UUID

from django.db.models import Sum
from django.utils.translation import gettext as _

from memoryapp.curation.history import HistoryEntry, Narrowing, page
from memoryapp.curation.lineage import LEAST_SHARE, successors
from memoryapp.engine.beside import table_beside
from memoryapp.engine.events import KINDS, from_payload
from memoryapp.engine.kinds.kind import EventKind
from memoryapp.engine.memory import is_talk, parse_topic_id, topic_id
from memoryapp.insight.compare.divergence import Divergence, Side, first_divergence
from memoryapp.insight.explain.why_not import searched_at_of
from memoryapp.models import ImportBatch, KnowledgeEdit, Run, RunEvent, Topic, TopicEdit, TopicMessage
from memoryapp.models.run import CANDIDATE_FIELD, SHOWN_IDS
from memoryapp.platform.statements import fetched
from memoryapp.runs.followers import StoredEvent

# What became of every topic in a run, for many runs at once; the long texts of their events are not read.

# From the least to the most that can become of a topic; each is a code of the interface for programs.
ABSENT_TOPIC, BELOW, SHOWN = "absent", "below", "shown"
State = Literal[
    "absent",
    "below",
    "shown",
    "initial",
    "threshold",
    "gap",
    "top_k",
    "requested",
    "read",
    "dropped",
    "instead",
    "chosen",
]
STATES: tuple[str, ...] = get_args(State)
USED = frozenset(("chosen", "instead"))
_PLACE = {state: place for place, state in enumerate(STATES)}
EVENTS = f"""
SELECT run_id, kind, CASE kind
    WHEN 'candidates_found' THEN jsonb_build_object(
        'ids', {CANDIDATE_FIELD.format(payload="payload", name="id")},
        'ranks', {CANDIDATE_FIELD.format(payload="payload", name="rank")},
        'shown', {SHOWN_IDS.format(payload="payload")}, 'sessions', payload -> 'sessions',
        'titles', CASE WHEN payload #>> '{{candidates,0,id}}' LIKE 'Document:%%'
                  THEN jsonb_path_query_array(payload, '$.candidates[*].summary') END
    )
    WHEN 'model_replied' THEN payload || '{{"text": "", "reasoning": ""}}'
    ELSE payload - 'context' END
FROM memoryapp_runevent WHERE owner_id = %(owner)s AND run_id = ANY(%(runs)s) AND kind = ANY(%(kinds)s)
ORDER BY run_id, seq
"""


@dataclass
class RunStates:
    """The state and the rank of each topic that a run ranked, by id; ``sessions`` are active sessions with the numbers
    of their messages, ``titles`` those of documents of a foreign memory, which are in no table."""

    states: dict[str, str] = field(default_factory=dict)
    ranks: dict[str, int] = field(default_factory=dict)
    sessions: dict[str, Sequence[int]] = field(default_factory=dict)
    titles: dict[str, str] = field(default_factory=dict)


def states_of_runs(owner_id: int, runs: Sequence[UUID]) -> Mapping[UUID, RunStates]:
    """One statement for all runs; a run that has found nothing yet has no states."""
    found = {run: RunStates() for run in runs}
    # Of the others only the kinds of events that say something of candidates.
    kinds = ["candidates_found", *(name for name, event in KINDS.items() if event.marks is not EventKind.marks)]
    for run, kind, payload in fetched(EVENTS, {"owner": owner_id, "runs": list(runs), "kinds": kinds}):
        _add(found[run], kind, json.loads(payload))
    return found


def _add(known: RunStates, kind: str, payload: Mapping[str, Any]) -> None:
    if kind == "candidates_found":
        shown = frozenset(payload["shown"])
        known.ranks = dict(zip(payload["ids"], payload["ranks"], strict=True))
        known.states = {id: SHOWN if id in shown else BELOW for id in payload["ids"]}
        known.sessions = dict(payload["sessions"] or {})
        known.titles = dict(zip(payload["ids"], payload["titles"] or (), strict=False))
        return
    marked = from_payload(kind, payload).marks()
    known.states.update({id: state for id, state in marked.items() if is_talk(id)})


def best(states: Iterable[str]) -> str:
    """The state that is most of them; ``absent`` where there is none."""
    return max(states, key=lambda state: _PLACE.get(state, 0), default=ABSENT_TOPIC)


def is_listed(state: str) -> bool:
    """Whether the topic was among those that are shown, or more became of it."""
    return _PLACE.get(state, 0) >= _PLACE[SHOWN]


# Which topics of several runs are one matter: those that hold the same messages, before and after edits.
#
# Topics never change, and retired ones keep their messages. So two topics are of one lineage if the later one holds
# at least a twentieth of the messages of the retired one, however many edits lie between.

_SQL = table_beside(__file__)
RELATED: str = _SQL["related"]


@dataclass(frozen=True, slots=True)
class Matter:
    """The ``ids`` of one matter, the newest first; ``now`` are the live topics if it is retired."""

    ids: tuple[str, ...]
    summary: str
    now: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        return self.ids[0]


def lineages(owner_id: int, ids: Iterable[str], sessions: Mapping[str, Sequence[int]]) -> list[Matter]:
    """Every id in one lineage; four statements. ``sessions`` are the active sessions among them with their messages."""
    wanted = list(dict.fromkeys(ids))
    numbers = {number: id for id in wanted if (number := parse_topic_id(id)) is not None and number > 0}
    rows = Topic.objects.of(owner_id).filter(pk__in=list(numbers)).values_list("pk", "is_live", "summary")
    known = {topic_id(pk): (is_live, summary) for pk, is_live, summary in rows}
    retired = [number for number, id in numbers.items() if not known.get(id, (False,))[0]]
    joined = _Matters(wanted)
    for old, other in _related(owner_id, retired, list(numbers)):
        joined.join(topic_id(old), topic_id(other))
    for session, other in _archived(owner_id, sessions, list(numbers)):
        joined.join(session, topic_id(other))
    heirs = successors(owner_id, retired) if retired else {}
    return [_lineage(group, known, heirs) for group in joined.groups()]


def _lineage(ids: Sequence[str], known: Mapping[str, tuple[bool, str]], heirs: Mapping[int, tuple[int, ...]]) -> Matter:
    newest = sorted(ids, key=lambda id: (known.get(id, (False, ""))[0], parse_topic_id(id) or 0), reverse=True)
    is_live, summary = known.get(newest[0], (False, ""))
    now = () if is_live else tuple(topic_id(live) for live in heirs.get(parse_topic_id(newest[0]) or 0, ()))
    return Matter(tuple(newest), summary, now)


def _related(owner_id: int, retired: Sequence[int], ids: Sequence[int]) -> list[tuple[int, int]]:
    if not retired:
        return []
    values = {"owner": owner_id, "retired": list(retired), "ids": list(ids), "share": LEAST_SHARE}
    return [(old, other) for old, other in fetched(RELATED, values)]


def _archived(owner_id: int, sessions: Mapping[str, Sequence[int]], ids: Sequence[int]) -> Iterator[tuple[str, int]]:
    """Each session with the topics that hold at least a twentieth of its messages."""
    session_of = {message: id for id, listed in sessions.items() for message in listed}
    if not session_of:
        return
    listed = TopicMessage.objects.filter(owner=owner_id, message__in=list(session_of), topic__in=list(ids))
    counts = Counter((session_of[message], topic) for message, topic in listed.values_list("message_id", "topic_id"))
    yield from (pair for pair, count in counts.items() if count * LEAST_SHARE >= len(sessions[pair[0]]))


class _Matters:
    """Disjoint groups of ids (Tarjan, 1975), in the order in which their first ids were given."""

    def __init__(self, ids: Iterable[str]) -> None:
        self._root = {id: id for id in ids}

    def _of(self, id: str) -> str:
        while self._root[id] != id:
            self._root[id] = self._root[self._root[id]]
            id = self._root[id]
        return id

    def join(self, one: str, other: str) -> None:
        self._root[self._of(other)] = self._of(one)

    def groups(self) -> list[list[str]]:
        found: dict[str, list[str]] = {}
        for id in self._root:
            found.setdefault(self._of(id), []).append(id)
        return list(found.values())


MOST_RUNS = 200
MOST_TOPICS = 500


class CompareError(ValueError):
    """Runs that cannot be compared; the text is a sentence for people."""


@dataclass(frozen=True, slots=True)
class ComparedTopic:
    """A topic in every run: its state and, where the run ranked it, its rank. ``met_as`` are the ids under which a run
    met it, where they are others."""

    lineage: Matter
    states: Mapping[UUID, str]
    ranks: Mapping[UUID, int]
    met_as: Mapping[UUID, tuple[str, ...]] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return self.lineage.id

    @property
    def times_chosen(self) -> int:
        return sum(state in USED for state in self.states.values())

    @property
    def differs(self) -> bool:
        """Whether not the same became of it in all runs."""
        return len(set(self.states.values())) > 1


@dataclass
class RunComparison:
    """``runs`` in the order in which they were given, ``topics`` those that any of them listed: of two runs in the
    order of the first one, then of the other; of more runs the ones that were chosen most often first. ``left_out``
    counts topics beyond the most that are compared."""

    runs: Sequence[Run]
    topics: Sequence[ComparedTopic]
    same: Mapping[str, str]
    left_out: int = 0

    @cached_property
    def stored(self) -> Mapping[UUID, Sequence[StoredEvent]]:
        """The events of the first two runs, in one statement."""
        rows: dict[UUID, list[StoredEvent]] = {run.pk: [] for run in self.runs[:2]}
        found = RunEvent.objects.filter(owner=self.runs[0].owner_id, run__in=list(rows)).order_by("run", "seq")
        for run, seq, at, kind, payload in found.values_list("run", "seq", "at", "kind", "payload"):
            rows[run].append(StoredEvent(seq, at, from_payload(kind, payload)))
        return rows

    @cached_property
    def divergence(self) -> Divergence:
        """The first difference between the first two runs, A and B."""
        gone = frozenset(id for run in self.runs[:2] for id in run.changes.get("without", ()))
        a, b = (Side(run.query, [item.event for item in self.stored[run.pk]], self.same, gone) for run in self.runs[:2])
        return first_divergence(a, b)


def compare(runs: Sequence[Run]) -> RunComparison:
    """Raises CompareError for fewer than two or too many runs, for runs of several memories, and while one goes on."""
    distinct = list({run.pk: run for run in runs}.values())
    _check(distinct)
    return lined_up(distinct)


def lined_up(runs: Sequence[Run]) -> RunComparison:
    """The topics of different runs of one memory, also of a single run, which have all ended."""
    owner = runs[0].owner_id
    known = states_of_runs(owner, [run.pk for run in runs])
    ids = dict.fromkeys(id for each in known.values() for id in each.states)
    sessions = {id: listed for each in known.values() for id, listed in each.sessions.items() if id in ids}
    titles = {id: title for each in known.values() for id, title in each.titles.items()}
    found = lineages(owner, ids, sessions)
    groups = [replace(group, summary=titles.get(group.id, group.summary)) for group in found]
    compared = [_compared(group, known) for group in groups]
    topics = [topic for topic in compared if any(map(is_listed, topic.states.values()))]
    ordered = _in_order(topics, runs)
    same = {id: group.id for group in groups for id in group.ids}
    return RunComparison(runs, ordered[:MOST_TOPICS], same, max(len(ordered) - MOST_TOPICS, 0))


def _check(runs: Sequence[Run]) -> None:
    if len(runs) < 2:
        raise CompareError(_("Give at least two different runs."))
    if len(runs) > MOST_RUNS:
        raise CompareError(_("At most %(most)d runs can be compared at once.") % {"most": MOST_RUNS})
    if len({run.owner_id for run in runs}) > 1:
        raise CompareError(_("These runs are of several memories, so they have no topic in common."))
    if open_runs := [run for run in runs if not run.is_finished]:
        raise CompareError(_("Run %(run)s has not ended; compare it then.") % {"run": open_runs[0].short_id})


def _compared(lineage: Matter, known: Mapping[UUID, RunStates]) -> ComparedTopic:
    states, ranks, met_as = {}, {}, {}
    for run, each in known.items():
        met = [id for id in lineage.ids if id in each.states]
        states[run] = best(each.states[id] for id in met)
        if ranked := [each.ranks[id] for id in met if id in each.ranks]:
            ranks[run] = min(ranked)
        if met and lineage.id not in met:
            met_as[run] = tuple(met)
    return ComparedTopic(lineage, states, ranks, met_as)


def _in_order(topics: Sequence[ComparedTopic], runs: Sequence[Run]) -> list[ComparedTopic]:
    if len(runs) == 2:
        last = len(topics) + 1_000
        return sorted(topics, key=lambda each: [each.ranks.get(run.pk, last) for run in runs])
    return sorted(topics, key=lambda each: (-each.times_chosen, min(each.ranks.values(), default=0), each.id))


def always_together(topics: Iterable[ComparedTopic]) -> list[tuple[ComparedTopic, ...]]:
    """Groups of topics that were chosen in exactly the same runs, in two of them or more, the largest first."""
    by_runs: dict[frozenset[UUID], list[ComparedTopic]] = defaultdict(list)
    for topic in topics:
        by_runs[frozenset(run for run, state in topic.states.items() if state in USED)].append(topic)
    found = [tuple(group) for runs, group in by_runs.items() if len(runs) > 1 and len(group) > 1]
    return sorted(found, key=len, reverse=True)


# What changed in the memory between the searches of two runs.

CHANGES_SHOWN = 12


@dataclass(frozen=True, slots=True)
class Meanwhile:
    """Counts of what is new, and the last changes, newest first. ``messages`` are those that imports brought, ``edits``
    leaves out those that only archived; ``more`` changes are not listed."""

    since: datetime
    until: datetime
    topics: int
    edits: int
    facts: int
    people: int
    messages: int
    entries: Sequence[HistoryEntry]
    more: bool

    def __bool__(self) -> bool:
        return bool(self.topics or self.edits or self.facts or self.people or self.messages or self.entries)


def meanwhile(one: Run, other: Run) -> Meanwhile:
    """The changes between the searches of two runs, whichever was earlier; a fork may have replayed its parent's."""
    since, until = sorted((searched_at_of(one), searched_at_of(other)))
    owner = one.owner
    within = {"owner": owner, "at__gte": since, "at__lt": until}
    imported = ImportBatch.objects.filter(owner=owner, started_at__gte=since, started_at__lt=until)
    changes = KnowledgeEdit.objects.filter(**within)
    shown = page(owner, Narrowing(since=since, until=until), CHANGES_SHOWN)
    return Meanwhile(
        since,
        until,
        topics=Topic.objects.of(owner).filter(created_at__gte=since, created_at__lt=until).count(),
        edits=TopicEdit.objects.filter(**within).exclude(kind=TopicEdit.Kind.ARCHIVE).count(),
        facts=changes.filter(noun=KnowledgeEdit.Noun.FACT).count(),
        people=changes.filter(noun=KnowledgeEdit.Noun.PERSON).count(),
        messages=imported.aggregate(n=Sum("added"))["n"] or 0,
        entries=shown.entries,
        more=shown.has_after,
    )
