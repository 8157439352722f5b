"""The embedded channel layer, which continues to listen after its connection to the database was lost."""

import asyncio
import logging

import psycopg
from channels_postgres.core import PostgresChannelLayer

from memoryapp.platform.database import reason

PAUSE = 1.0

logger = logging.getLogger(__name__)


class PersistentChannelLayer(PostgresChannelLayer):  # type: ignore[misc]
    """Reconnects after a restart of the database; without this, a process would never receive notices again."""

    _listening: asyncio.AbstractEventLoop | None = None

    async def listen_to_all_channels(self) -> None:
        """Listens until the layer is shut down. Of several calls in a loop only the first does: each ``receive`` calls
        this until there is a connection, and each listener keeps one."""
        loop = asyncio.get_running_loop()
        if self._listening is loop:
            return
        self._listening = loop
        try:
            await self._listen()
        finally:
            self._listening = None

    async def _listen(self) -> None:
        while True:
            try:
                await super().listen_to_all_channels()
            except (psycopg.Error, OSError) as error:
                logger.warning("No notices come from other processes for a moment: %s", reason(error))
                await asyncio.sleep(PAUSE)
            else:
                return
