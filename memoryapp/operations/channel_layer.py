"""The embedded channel layer, which continues to listen after its connection to the database was lost."""

from __future__ import annotations

import asyncio
import logging

import psycopg
from channels_postgres.core import PostgresChannelLayer

from memoryapp.operations.outages import reason

PAUSE = 1.0

logger = logging.getLogger(__name__)


class PersistentChannelLayer(PostgresChannelLayer):  # type: ignore[misc]
    """Reconnects after a restart of the database; without this, a process would never receive notices again."""

    async def listen_to_all_channels(self) -> None:
        """Listens until the layer is shut down."""
        while True:
            try:
                await super().listen_to_all_channels()
            except (psycopg.Error, OSError) as error:
                logger.warning("No notices come from other processes for a moment: %s", reason(error))
                await asyncio.sleep(PAUSE)
            else:
                return
