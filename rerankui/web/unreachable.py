"""Sockets while the database is out of reach: refused, where the server would log a fault and answer 500.

The page of a refused socket looks each second by itself, says that the server does not answer, and connects again.
"""

from __future__ import annotations

import logging
from typing import Any

from django.db import DatabaseError

from memoryapp.operations.outages import reason

logger = logging.getLogger(__name__)


class RefusedWithoutDatabase:
    """Passes sockets to ``application``, which looks up their session before it accepts them."""

    def __init__(self, application: Any) -> None:
        self._application = application

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        is_answered = False

        async def noting(frame: dict[str, Any]) -> None:
            nonlocal is_answered
            is_answered = True
            await send(frame)

        try:
            await self._application(scope, receive, noting)
        except DatabaseError as error:
            if is_answered:
                raise
            logger.warning("a socket was refused: %s", reason(error))
            # Not by a consumer, which would listen for notices in the same database.
            await receive()
            await send({"type": "websocket.close"})
