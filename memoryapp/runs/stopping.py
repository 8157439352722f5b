"""Stopping a run that goes on.

The name of whoever asks for it is written into the run's row. The process that executes the run learns of it at once
where it is this one, and any other when it renews the run's lease.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from uuid import UUID

from django.db import transaction

from memoryapp.models import Run
from memoryapp.operations import metrics
from memoryapp.runs import closing


class Stopped(Exception):
    """Somebody asked for the end of the run; ``by`` is their name."""

    def __init__(self, by: str) -> None:
        super().__init__(f"The run was stopped by {by}.")
        self.by = by


class Stop:
    """A way to end work of the event loop that makes it."""

    def __init__(self) -> None:
        self.by = ""
        self._loop = asyncio.get_running_loop()
        self._limit: asyncio.Timeout | None = None

    async def bound(self, work: Awaitable[None]) -> None:
        """Do the work to its end. Raises Stopped where somebody asked for the end meanwhile or before."""
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
        """End the work, in the name of whoever asked first; from the event loop of the work alone."""
        if by and not self.by:
            self.by = by
            if self._limit is not None:
                self._limit.reschedule(self._loop.time())

    def ask_from_elsewhere(self, by: str) -> None:
        """The same from any thread."""
        self._loop.call_soon_threadsafe(self.ask, by)


# The runs that this process executes.
_going: dict[UUID, Stop] = {}


@contextmanager
def stoppable(run_id: UUID) -> Iterator[Stop]:
    """As long as the body lasts, ``stop_here`` reaches the run."""
    stop = _going[run_id] = Stop()
    try:
        yield stop
    finally:
        del _going[run_id]


def stop(run_id: UUID, by: str) -> bool:
    """Have the run ended soon, in the name of whoever asks; False when it is over or on its way there.

    A run that nobody has begun ends at once, one whose process is dead with the next sweep.
    """
    with transaction.atomic():
        asked = Run.objects.select_for_update(of=("self",)).filter(pk=run_id, stopped_by="")
        run = asked.exclude(state=Run.State.FINISHED).first()
        if run is None:
            return False
        run.stopped_by = by
        run.save(update_fields=["stopped_by"])
        ended, _lost = closing.end(run, closing.stopped(by)) if run.state == Run.State.PENDING else ([], 0)
    if ended:
        metrics.run_finished(ended, owner=run.owner_id)
    stop_here(run_id, by)
    return True


def stop_here(run_id: UUID, by: str) -> None:
    """Stop the run where this process executes it, from any thread; any other process looks into the row."""
    stop = _going.get(run_id)
    if stop is not None:
        stop.ask_from_elsewhere(by)
