"""Waiting for the end of a run, whichever process executes it."""

from __future__ import annotations

import asyncio

from memoryapp.models import Run
from memoryapp.operations.database import in_thread

LOOK_AGAIN = 0.2
# Beyond the seconds the run itself may take: its search, and the sweep that closes what was abandoned.
PATIENCE = 60.0


async def ended(run: Run) -> None:
    """Read the row until the run has ended. Raises TimeoutError where that takes longer than any run may."""
    async with asyncio.timeout(run.parameters["seconds"] + run.parameters["turn_seconds"] + PATIENCE):
        await in_thread(run.refresh_from_db)
        while not run.is_finished:
            await asyncio.sleep(LOOK_AGAIN)
            await in_thread(run.refresh_from_db)
