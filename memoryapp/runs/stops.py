"""Stops a run that is being executed.

The name of the person who asks is written into the run's row. If this process executes the run, it stops at once; any
other process sees the name when it renews the run's lease.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from uuid import UUID

from django.db import transaction

from memoryapp.models import Run
from memoryapp.operations import metrics
from memoryapp.outgoing.telemetry import ended
from memoryapp.runs import endings


class Stopped(Exception):
    """A person asked for the end of the run; ``by`` is their name."""

    def __init__(self, by: str) -> None:
        super().__init__(f"The run was stopped by {by}.")
        self.by = by


class Stop:
    """A request to stop some work, which can be made while the work goes on. For the event loop that creates it."""

    def __init__(self) -> None:
        self.by = ""
        self._loop = asyncio.get_running_loop()
        self._limit: asyncio.Timeout | None = None

    async def complete(self, work: Awaitable[None]) -> None:
        """Does the work to its end. Raises Stopped when a person asked for the end before or meanwhile."""
        limit = self._limit = asyncio.timeout(0 if self.by else None)
        try:
            async with limit:
                await work
        except TimeoutError:
            if not limit.expired():
                raise
            raise Stopped(self.by) from None
        finally:
            self._limit = None

    def ask(self, by: str) -> None:
        """Ends the work in the name of the first person who asked. Call it only in the work's event loop."""
        if by and not self.by:
            self.by = by
            if self._limit is not None:
                self._limit.reschedule(self._loop.time())

    def ask_from_elsewhere(self, by: str) -> None:
        """``ask`` from any thread."""
        self._loop.call_soon_threadsafe(self.ask, by)


# The runs that this process executes.
_stops: dict[UUID, Stop] = {}


@contextmanager
def stoppable(run_id: UUID) -> Iterator[Stop]:
    """While the body lasts, ``stop_here`` can stop the run."""
    stop = _stops[run_id] = Stop()
    try:
        yield stop
    finally:
        # The run may have been handed over and claimed again in this process, with a stop of its own.
        if _stops.get(run_id) is stop:
            del _stops[run_id]


def stop(run_id: UUID, by: str) -> bool:
    """Asks for the end of the run in the name of ``by``; False when it has ended, a person already asked, or another
    program executes it.

    A run that no process has begun ends at once; one whose process is dead ends with the next sweep.
    """
    with transaction.atomic():
        asked = Run.objects.select_for_update(of=("self",)).filter(pk=run_id, stopped_by="", origin="")
        run = asked.exclude(state=Run.State.FINISHED).first()
        if run is None:
            return False
        run.stopped_by = by
        run.save(update_fields=["stopped_by"])
        events, _lost = endings.end(run, endings.stopped_event(by)) if run.state == Run.State.PENDING else ([], 0)
    if events:
        metrics.run_finished(events, owner=run.owner_id)
        ended.run_ended(run_id)
    stop_here(run_id, by)
    return True


def stop_here(run_id: UUID, by: str) -> None:
    """Stops the run if this process executes it; from any thread. Other processes read the row."""
    stop = _stops.get(run_id)
    if stop is not None:
        stop.ask_from_elsewhere(by)
