"""Waits for the end of a run, whichever process executes it."""

from __future__ import annotations

import asyncio

from memoryapp.models import Run
from memoryapp.operations.database import in_thread

LOOK_AGAIN = 0.2
# Seconds beyond those of the run itself: for its search, and for the sweep that closes abandoned runs.
PATIENCE = 60.0


async def wait_for_end(run: Run) -> None:
    """Reads the row until the run has ended. Raises TimeoutError when that takes longer than any run may."""
    async with asyncio.timeout(run.parameters["seconds"] + run.parameters["turn_seconds"] + PATIENCE):
        await in_thread(run.refresh_from_db)
        while not run.is_finished:
            await asyncio.sleep(LOOK_AGAIN)
            await in_thread(run.refresh_from_db)
