"""Notices that a run has more to show.

They only wake whoever watches: rows are the truth, and a viewer who hears nothing looks again by itself within
a second. So a notice may be lost, doubled or late, and nothing waits long for one that cannot be sent. Only
the web process sends them: the embedded layer's pool belongs to the first event loop that used it, and a
worker has a new loop for every task.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from uuid import UUID

import psycopg
from channels.layers import get_channel_layer

SECONDS = 0.5
# What an unreachable layer raises; RuntimeError is asyncio's word for a pool of another, closed loop.
FAULTS = (psycopg.Error, OSError, RuntimeError, TimeoutError)

Announce = Callable[[UUID], Awaitable[None]]

logger = logging.getLogger(__name__)


def group_of(run_id: UUID) -> str:
    """The channel-layer group in which this run's notices go out."""
    return f"run.{run_id}"


async def say_more(run_id: UUID) -> None:
    """Wake the viewers of this run."""
    try:
        async with asyncio.timeout(SECONDS):
            await get_channel_layer().group_send(group_of(run_id), {"type": "run.more"})
    except FAULTS as error:
        logger.warning("no notice for run %s: %s", run_id, error)


async def say_nothing(run_id: UUID) -> None:
    """For processes that nobody watches directly."""
