"""Stopping a run that goes on.

Whoever wants it stopped is written into its row. The process that executes the run learns of it at once where it is
this one, and any other with its next sign of life.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from uuid import UUID


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


def stop_here(run_id: UUID, by: str) -> None:
    """Stop the run where this process executes it, from any thread; any other process looks into the row."""
    stop = _going.get(run_id)
    if stop is not None:
        stop.ask_from_elsewhere(by)
