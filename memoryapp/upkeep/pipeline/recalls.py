"""The stage of runs: the worker executes those that no other process took."""

import asyncio
import logging
from uuid import UUID

from asgiref.sync import async_to_sync
from django.db.models import Count, QuerySet

from memoryapp.celery import sweep
from memoryapp.insight.browsing.usage import RUNS
from memoryapp.models import Run
from memoryapp.platform.database import is_outage
from memoryapp.runs import endings, lifecycle
from memoryapp.runs.clients import open_clients
from memoryapp.upkeep.pipeline.stage import MOST_FAULTS, Scope, Stage, StageFault, up_to_most, words_beside

# Ends of a recall that somebody intended; all others count as failures.
_MEANT = ("", "disabled", "stopped", "no_candidates")

logger = logging.getLogger(__name__)


@sweep(every=3.0)
def execute_waiting_runs() -> None:
    """Executes the runs that no process has claimed."""
    late = lifecycle.unclaimed()
    for run_id, fault in zip(late, async_to_sync(_execute)(late) if late else (), strict=True):
        if isinstance(fault, BaseException) and not is_outage(fault):
            logger.error("A run ended with a fault.", exc_info=fault)
            # If it was not even claimed, it would be tried again and again.
            endings.end_unbegun(run_id, fault)


async def _execute(late: list[UUID]) -> list[BaseException | None]:
    """Executes all at once: they wait for models and not for each other. Returns the fault of each."""
    async with open_clients() as opened:
        return await asyncio.gather(*(lifecycle.execute(run_id, opened) for run_id in late), return_exceptions=True)


def _runs(scope: Scope) -> QuerySet[Run]:
    return Run.objects.made_here().filter(created_at__gte=scope.day_ago)


def _faults(scope: Scope) -> list[StageFault]:
    """Runs of the day that fell back, by reason."""
    runs = scope.of(_runs(scope).exclude(fallback__in=_MEANT))
    counted = runs.order_by().values_list("fallback").annotate(n=Count("pk")).order_by("-n")
    return [StageFault(None, None, code=fallback, count=n) for fallback, n in counted[:MOST_FAULTS]]


STAGE = Stage(
    RUNS,
    words_beside(__file__),
    lambda scope: up_to_most(scope.of(Run.objects.filter(state=Run.State.PENDING))),
    hours=lambda scope: scope.by_hour(scope.of(_runs(scope)), "created_at"),
    faults=_faults,
    shows_calls=False,
    running=lambda scope: up_to_most(scope.of(Run.objects.made_here().filter(state=Run.State.RUNNING))),
)
