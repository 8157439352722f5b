"""The stages of background work: what waits in each, what is running, what failed and why, and what was done in each
hour.

Everything is read from the rows of the work itself. Counts stop at a bound, so that the page costs the same however
much is waiting. A stage whose rows record no time has no hours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import Aggregate, Count, Exists, OuterRef, Q, QuerySet, Sum
from django.db.models.functions import TruncHour

from memoryapp import consolidation, extraction, work
from memoryapp.browsing import costs
from memoryapp.browsing.coverage import MOST_PASSAGES, passages_without_vector
from memoryapp.engine.embeddings import Profile
from memoryapp.models import (
    AgentCall,
    Artifact,
    ChatUser,
    EditedTopic,
    EmbeddingProfile,
    Erasure,
    ImportBatch,
    ImportFile,
    Message,
    PassageVector,
    Pause,
    Run,
    StagePause,
    TopicEdit,
    Work,
)
from memoryapp.search import profiles

MOST = 10_000
MOST_FAULTS = 5
HOURS = 24
NAMES = ("import", "archive", "embed", "consolidate", "extract", "artifacts", "runs", "erase")
# Ends of a recall that somebody intended; all others count as failures.
_MEANT = ("", "disabled", "stopped", "no_candidates")


@dataclass(frozen=True, slots=True)
class StageFault:
    """A failure of the last day: whose memory, when, why, in an English sentence and as a note.

    ``subject`` is the name of the file that it is about, ``count`` the number of equal failures. ``call`` is the call
    of an agent that shows it, ``topic`` a topic that could not be read, ``code`` the outcome if that is the reason,
    ``file`` a file whose import failed and that waits for a person, ``artifact`` a file that was not read.
    """

    owner: ChatUser | None
    at: datetime | None
    subject: str = ""
    why: str = ""
    note: Mapping[str, Any] | None = None
    code: str = ""
    count: int = 1
    call: int | None = None
    topic: int | None = None
    file: int | None = None
    artifact: int | None = None
    is_work: bool = False


@dataclass(frozen=True, slots=True)
class Successor:
    """The embedding profile that is to take over, and how many passages lack its vector, up to a bound."""

    row: EmbeddingProfile
    waiting: int

    @property
    def has_more(self) -> bool:
        return self.waiting >= MOST_PASSAGES


@dataclass(frozen=True, slots=True)
class PipelineStage:
    """``waiting`` is counted up to a bound; ``hours`` are the last 24, oldest first, empty when the rows record none.

    ``latest`` is the work that ended last. ``pause`` is what stops the worker: a pause for everybody or, on the page of
    a chat user, for that one. ``away`` is an embedding profile whose model did not answer, ``successor`` the profile
    that is to take over.
    """

    name: str
    waiting: int
    going: Sequence[work.WorkProgress] = ()
    running: int = 0
    faults: Sequence[StageFault] = ()
    hours: Sequence[int] = ()
    cost_usd: float = 0.0
    latest: work.WorkProgress | None = None
    pause: StagePause | Pause | None = None
    away: EmbeddingProfile | None = None
    successor: Successor | None = None

    @property
    def kind(self) -> str:
        """The kind of work that can be paused; empty when none can."""
        return self.name if self.name in Work.Kind.values else ""

    @property
    def is_paused_for_all(self) -> bool:
        return isinstance(self.pause, StagePause)

    @property
    def has_more(self) -> bool:
        return self.waiting >= (MOST_PASSAGES if self.name == "embed" else MOST)

    @property
    def done(self) -> int:
        return sum(self.hours)

    @property
    def is_at_work(self) -> bool:
        return bool(self.going or self.running)


@dataclass(frozen=True, slots=True)
class _Scope:
    """The chat users and the moment of the page; ``owner`` if it shows a single one.

    ``profile`` serves, and ``following`` is the row of the one that is to take over, if its vectors are being made.
    """

    owners: QuerySet[ChatUser]
    owner: ChatUser | None
    profile: Profile
    following: EmbeddingProfile | None
    now: datetime

    @property
    def seen(self) -> QuerySet[ChatUser]:
        return ChatUser.objects.filter(pk=self.owner.pk) if self.owner else self.owners

    @property
    def day_ago(self) -> datetime:
        return self.now - timedelta(days=1)

    def of(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        return rows.filter(owner=self.owner) if self.owner else rows.filter(owner__in=self.owners)


def stages(
    owners: QuerySet[ChatUser],
    profile: Profile,
    *,
    now: datetime,
    owner: ChatUser | None = None,
    erasures: bool = False,
) -> list[PipelineStage]:
    """Every stage of these chat users, or of ``owner`` alone; that of erasures, which name nobody, if requested.

    About twenty queries, whatever the memory contains.
    """
    scope = _Scope(owners, owner, profile, profiles.being_made(), now)
    works, faults, pauses = _works(scope), _faults(scope), _pauses(owner)
    dollars = costs.by_stage(scope.seen, scope.day_ago)
    return [
        PipelineStage(
            name=name,
            waiting=_WAITING[name](scope),
            going=[shown for shown in works if shown.work.kind == name and shown.is_going_on],
            running=_running(scope) if name == costs.RUNS else 0,
            faults=faults.get(name, [])[:MOST_FAULTS],
            hours=_hours(scope, name),
            cost_usd=dollars.get(name, 0.0),
            latest=next((s for s in works if s.work.kind == name and s.work.state == Work.State.DONE), None),
            pause=pauses.get(name),
            **(_embedding(scope) if name == "embed" else {}),
        )
        for name in NAMES
        if name != "erase" or erasures
    ]


def _embedding(scope: _Scope) -> dict[str, Any]:
    """Returns what only the stage of vectors has: a model that does not answer, and a profile that is to take over."""
    row = scope.following
    waiting = passages_without_vector(scope.seen, profiles.profile_of(row)) if row else 0
    return {"away": profiles.away(), "successor": Successor(row, waiting) if row else None}


def _works(scope: _Scope) -> list[work.WorkProgress]:
    """Work that is running, or failed or ended within a day, the latest first."""
    rows = scope.of(Work.objects.filter(at__gte=scope.day_ago)).select_related("owner")
    return [work.progress(row) for row in rows.order_by("-at")[:200]]


def _pauses(owner: ChatUser | None) -> dict[str, StagePause | Pause]:
    found: dict[str, StagePause | Pause] = {}
    if owner:
        found = {pause.kind: pause for pause in Pause.objects.filter(owner=owner)}
    return found | {pause.kind: pause for pause in StagePause.objects.all()}


def _counted(rows: QuerySet[Any]) -> int:
    """Returns the number of ``rows``, up to ``MOST``."""
    return rows.order_by().values("pk")[:MOST].count()


def _files(scope: _Scope) -> int:
    """Files that were uploaded and not imported; some wait for a person's decision."""
    ended = (ImportFile.State.DONE, ImportFile.State.FAILED)
    return _counted(scope.of(ImportFile.objects.exclude(state__in=ended)))


def _unread(scope: _Scope) -> int:
    waiting = (Artifact.State.PENDING, Artifact.State.PROCESSING)
    return _counted(scope.of(Artifact.objects.filter(state__in=waiting)))


def _without_vector(scope: _Scope) -> int:
    """Passages that lack a vector of the profile that serves, or of the one that is to take over."""
    following = [profiles.profile_of(scope.following)] if scope.following else []
    return passages_without_vector(scope.seen, scope.profile, *following)


def _running(scope: _Scope) -> int:
    return _counted(scope.of(Run.objects.made_here().filter(state=Run.State.RUNNING)))


_WAITING: Mapping[str, Callable[[_Scope], int]] = {
    "import": _files,
    "archive": lambda scope: _counted(scope.of(Message.objects.active())),
    "embed": _without_vector,
    "consolidate": lambda scope: _counted(scope.of(consolidation.unjudged())),
    "extract": lambda scope: _counted(scope.of(extraction.unread())),
    "artifacts": _unread,
    "runs": lambda scope: _counted(scope.of(Run.objects.filter(state=Run.State.PENDING))),
    "erase": lambda scope: _counted(Erasure.objects.filter(ended_at__isnull=True)),
}


def _hours(scope: _Scope, name: str) -> list[int]:
    """Returns the work of the stage in each of the last hours: messages, topics, vectors, calls, runs and others."""
    since = scope.day_ago
    if name == "import":
        batches = scope.of(ImportBatch.objects.filter(started_at__gte=since))
        return _by_hour(scope, batches, "started_at", Sum("added"))
    if name == "archive":
        edits = scope.of(TopicEdit.objects.filter(at__gte=since, kind=TopicEdit.Kind.ARCHIVE))
        made = EditedTopic.objects.filter(side=EditedTopic.Side.IN, edit__in=edits)
        return _by_hour(scope, made, "edit__at", Count("pk"))
    if name in ("consolidate", "extract"):
        asked = scope.of(AgentCall.objects.filter(at__gte=since, agent__in=costs.agents_of(name)))
        return _by_hour(scope, asked, "at", Count("pk"))
    if name == "embed":
        vectors = scope.of(PassageVector.objects.filter(made_at__gte=since))
        # Counts rows instead of summing numbers: the index of times is then enough.
        return _by_hour(scope, vectors, "made_at", Count("*"))
    if name == "artifacts":
        return _by_hour(scope, scope.of(Artifact.objects.filter(read_at__gte=since)), "read_at", Count("pk"))
    if name == costs.RUNS:
        return _by_hour(
            scope, scope.of(Run.objects.made_here().filter(created_at__gte=since)), "created_at", Count("pk")
        )
    if name == "erase":
        return _by_hour(scope, Erasure.objects.filter(ended_at__gte=since), "ended_at", Count("pk"))
    return []


def _by_hour(scope: _Scope, rows: QuerySet[Any], column: str, counted: Aggregate) -> list[int]:
    found = rows.annotate(hour=TruncHour(column, tzinfo=UTC)).order_by().values_list("hour").annotate(n=counted)
    last = scope.now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    counts = [0] * HOURS
    for hour, count in found:
        back = round((last - hour) / timedelta(hours=1))
        if 0 <= back < HOURS:
            counts[HOURS - 1 - back] += count or 0
    return counts


def _faults(scope: _Scope) -> dict[str, list[StageFault]]:
    """Failures of the last day by stage, the latest first."""
    found: dict[str, list[StageFault]] = {}
    for row in scope.of(extraction.failed())[:MOST_FAULTS]:
        found.setdefault("extract", []).append(StageFault(row.owner, row.at, why=row.fault, topic=row.topic_id))
    refused = ImportFile.objects.filter(state=ImportFile.State.FAILED, at__gte=scope.day_ago)
    for file in scope.of(refused).select_related("owner").order_by("-at")[:MOST_FAULTS]:
        # Most reasons name the file themselves.
        why = file.fault if file.source in file.fault else f"{file.source}: {file.fault}"
        fault = StageFault(file.owner, file.at, why=why, file=file.pk)
        found.setdefault("import", []).append(fault)
    # An import that had begun may also have a row of work.
    named = refused.filter(owner=OuterRef("owner"), source=OuterRef("source"))
    is_shown = Q(kind=Work.Kind.IMPORT) & Exists(named)
    failed = Work.objects.filter(~is_shown, state=Work.State.FAILED, at__gte=scope.day_ago)
    for row in scope.of(failed).select_related("owner").order_by("-at")[:50]:
        fault = StageFault(row.owner, row.at, why=row.fault, note=row.fault_note, is_work=True)
        found.setdefault(row.kind, []).append(fault)
    unanswered = AgentCall.objects.filter(at__gte=scope.day_ago).exclude(outcome="")
    for call in scope.of(unanswered).select_related("owner").defer("events").order_by("-at")[:50]:
        fault = StageFault(call.owner, call.at, code=call.outcome, call=call.pk)
        found.setdefault(costs.stage_of(call.agent), []).append(fault)
    found["artifacts"] = _unreadable(scope)
    found[costs.RUNS] = _fallen_back(scope)
    return found


def _unreadable(scope: _Scope) -> list[StageFault]:
    """Files that could not be read, for good or so far."""
    states = Artifact.State
    tried = Q(state=states.FAILED) | Q(state=states.PENDING, attempts__gt=0) & ~Q(fault="")
    rows = scope.of(Artifact.objects.filter(tried)).select_related("owner").order_by("-updated_at")[:MOST_FAULTS]
    return [StageFault(row.owner, row.updated_at, row.name, row.fault, row.fault_note, artifact=row.pk) for row in rows]


def _fallen_back(scope: _Scope) -> list[StageFault]:
    """Runs of the day that fell back, by reason."""
    runs = scope.of(Run.objects.made_here().filter(created_at__gte=scope.day_ago).exclude(fallback__in=_MEANT))
    counted = runs.order_by().values_list("fallback").annotate(n=Count("pk")).order_by("-n")
    return [StageFault(None, None, code=fallback, count=n) for fallback, n in counted[:MOST_FAULTS]]
