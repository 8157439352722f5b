"""What the page *Pipeline* shows of each stage: what waits, what is running, what failed and why, and what was done.

Counts stop at a bound, so that the page costs the same however much is waiting.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from django.db.models import Q, QuerySet

from memoryapp.engine.embeddings import Profile
from memoryapp.insight.browsing import usage
from memoryapp.models import AgentCall, ChatUser, EmbeddingProfile, Pause, StagePause, Work
from memoryapp.platform import cells, work
from memoryapp.search import profiles
from memoryapp.upkeep.pipeline import STAGES
from memoryapp.upkeep.pipeline.embed import Successor
from memoryapp.upkeep.pipeline.stage import MOST_FAULTS, Scope, Stage, StageFault


@dataclass(frozen=True, slots=True)
class PipelineStage:
    """``waiting`` is counted up to a bound; ``hours`` are the last 24, oldest first, empty when the rows record none.

    ``latest`` is the work that ended last. ``pause`` is what stops the worker: a pause for everybody or, on the page of
    a chat user, for that one. ``away`` is an embedding profile whose model did not answer, ``successor`` the profile
    that is to take over.
    """

    stage: Stage
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
    def name(self) -> str:
        return self.stage.name

    @property
    def kind(self) -> str:
        """The kind of work that can be paused; empty when none can."""
        return self.stage.kind or ""

    @property
    def is_paused_for_all(self) -> bool:
        return isinstance(self.pause, StagePause)

    @property
    def has_more(self) -> bool:
        return self.waiting >= self.stage.most

    @property
    def done(self) -> int:
        return sum(self.hours)

    @property
    def is_at_work(self) -> bool:
        return bool(self.going or self.running)


def stages(
    owners: QuerySet[ChatUser],
    profile: Profile,
    *,
    now: datetime,
    owner: ChatUser | None = None,
    erasures: bool = False,
) -> list[PipelineStage]:
    """Every stage of these chat users, or of ``owner`` alone; that of erasures, which name nobody, if requested. About
    twenty queries, whatever the memory contains."""
    scope = Scope(owners, owner, profile, profiles.being_made(), now)
    # Work that is running, or failed or ended within a day, the latest first.
    works = [work.progress(row) for row in _works(scope, Q(at__gte=scope.day_ago), 200)]
    pauses, dollars, failed = _pauses(owner), usage.by_stage(scope.seen, scope.day_ago), _failed(scope)
    figures = _figures(scope, [stage for stage in STAGES.values() if erasures or not stage.names_nobody])
    return [
        PipelineStage(
            stage,
            waiting=figures[name].waiting,
            going=[shown for shown in works if shown.work.kind == name and shown.is_going_on],
            running=figures[name].running,
            faults=[*figures[name].faults, *failed.get(name, ())][:MOST_FAULTS],
            hours=[*figures[name].hours.values()],
            cost_usd=dollars.get(name, 0.0),
            latest=next((s for s in works if s.work.kind == name and s.work.state == Work.State.DONE), None),
            pause=pauses.get(name),
            **figures[name].more,
        )
        for name, stage in STAGES.items()
        if name in figures
    ]


class _Figures(NamedTuple):
    """What the rows of memories say about a stage."""

    waiting: int
    running: int
    faults: Sequence[StageFault]
    hours: Mapping[int, int]
    more: Mapping[str, Any]


_ADDED = ("waiting", "running", "faults", "hours")


def _joined(one: dict[str, _Figures], other: dict[str, _Figures]) -> dict[str, _Figures]:
    """Of a model that is to take over, the first cell says how many of its passages wait."""
    return {
        name: mine._replace(**{part: cells.added(getattr(mine, part), getattr(other[name], part)) for part in _ADDED})
        for name, mine in one.items()
    }


@cells.everywhere(join=_joined)
def _figures(scope: Scope, stages: Sequence[Stage]) -> dict[str, _Figures]:
    """One after another: a cell is entered once for all stages."""
    return {
        stage.name: _Figures(
            stage.waiting(scope),
            stage.running(scope),
            stage.faults(scope),
            dict(enumerate(stage.hours(scope))),
            stage.more(scope),
        )
        for stage in stages
    }


def _pauses(owner: ChatUser | None) -> dict[str, StagePause | Pause]:
    found: dict[str, StagePause | Pause] = {}
    if owner:
        found = {pause.kind: pause for pause in Pause.objects.filter(owner=owner)}
    return found | {pause.kind: pause for pause in StagePause.objects.all()}


def _failed(scope: Scope) -> Mapping[str, Sequence[StageFault]]:
    """Work and calls of agents that failed within the last day, or were given up, by stage, the latest first."""
    found: dict[str, list[StageFault]] = {}
    already = set(_already(scope))
    recent = Q(at__gte=scope.day_ago) | Q(tries__gte=work.MOST_TRIES)
    for row in _works(scope, recent & Q(state=Work.State.FAILED), 50):
        if (row.kind, row.owner_id, row.source) in already:
            continue
        given_up = row.tries >= work.MOST_TRIES
        fault = StageFault(row.owner, row.at, why=row.fault, note=row.fault_note, is_work=True, is_given_up=given_up)
        found.setdefault(row.kind, []).append(fault)
    for call in _failed_calls(scope):
        fault = StageFault(call.owner, call.at, code=call.outcome, call=call.pk)
        found.setdefault(usage.stage_of(call.agent), []).append(fault)
    return found


@cells.everywhere()
def _already(scope: Scope) -> list[tuple[str, int, str]]:
    return [(name, *key) for name, stage in STAGES.items() for key in stage.shown_already(scope)]


@cells.everywhere(order=lambda row: row.at)
def _works(scope: Scope, condition: Q, most: int) -> list[Work]:
    return list(scope.of(Work.objects.filter(condition)).select_related("owner").order_by("-at")[:most])


@cells.everywhere(order=lambda call: call.at, most=50)
def _failed_calls(scope: Scope) -> list[AgentCall]:
    quiet = [agent for name, stage in STAGES.items() if not stage.shows_calls for agent in usage.agents_of(name)]
    calls = AgentCall.objects.filter(at__gte=scope.day_ago).exclude(outcome="").exclude(agent__in=quiet)
    return list(scope.of(calls).select_related("owner").defer("events").order_by("-at")[:50])
