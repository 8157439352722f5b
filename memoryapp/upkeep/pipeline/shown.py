"""What the page *Pipeline* shows of each stage: what waits, what is running, what failed and why, and what was done.

Counts stop at a bound, so that the page costs the same however much is waiting.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

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
    return [
        PipelineStage(
            stage,
            waiting=cells.everywhere()(stage.waiting)(scope),
            going=[shown for shown in works if shown.work.kind == name and shown.is_going_on],
            running=cells.everywhere()(stage.running)(scope),
            faults=[*cells.everywhere()(stage.faults)(scope), *failed.get(name, ())][:MOST_FAULTS],
            hours=cells.everywhere(join=_hour_by_hour)(stage.hours)(scope),
            cost_usd=dollars.get(name, 0.0),
            latest=next((s for s in works if s.work.kind == name and s.work.state == Work.State.DONE), None),
            pause=pauses.get(name),
            **cells.everywhere(join=lambda one, other: one)(stage.more)(scope),
        )
        for name, stage in STAGES.items()
        if erasures or not stage.names_nobody
    ]


def _hour_by_hour(one: Sequence[int], other: Sequence[int]) -> list[int]:
    return [sum(hour) for hour in zip(one, other, strict=True)]


def _pauses(owner: ChatUser | None) -> dict[str, StagePause | Pause]:
    found: dict[str, StagePause | Pause] = {}
    if owner:
        found = {pause.kind: pause for pause in Pause.objects.filter(owner=owner)}
    return found | {pause.kind: pause for pause in StagePause.objects.all()}


def _failed(scope: Scope) -> Mapping[str, Sequence[StageFault]]:
    """Work and calls of agents that failed within the last day, or were given up, by stage, the latest first."""
    found: dict[str, list[StageFault]] = {}
    already = {(name, *key) for name, stage in STAGES.items() for key in cells.everywhere()(stage.shown_already)(scope)}
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


@cells.everywhere(order=lambda row: row.at)
def _works(scope: Scope, condition: Q, most: int) -> list[Work]:
    return list(scope.of(Work.objects.filter(condition)).select_related("owner").order_by("-at")[:most])


@cells.everywhere(order=lambda call: call.at, most=50)
def _failed_calls(scope: Scope) -> list[AgentCall]:
    quiet = [agent for name, stage in STAGES.items() if not stage.shows_calls for agent in usage.agents_of(name)]
    calls = AgentCall.objects.filter(at__gte=scope.day_ago).exclude(outcome="").exclude(agent__in=quiet)
    return list(scope.of(calls).select_related("owner").defer("events").order_by("-at")[:50])
