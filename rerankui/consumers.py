"""The socket of a run page: follows a run's rows and sends them as HTML; it decides nothing else.

The first frame is the whole run so far, later frames append, and between them the words of the turn that is going
on grow. A notice on the channel layer only wakes the reader; without one it looks again by itself, so a page behind
a broken layer is late, never wrong.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any
from uuid import UUID

from channels.generic.websocket import AsyncWebsocketConsumer
from django.core.exceptions import PermissionDenied
from django.db import DatabaseError

from memoryapp import metrics
from memoryapp.database import in_thread
from memoryapp.notices import FAULTS, group_of
from rerankui import fragments
from rerankui.access import run_seen_by, run_still_seen_by
from rerankui.languages import language_of
from rerankui.local_time import reader_zone

LOOK_AGAIN = 1.0
BETWEEN_FRAMES = 0.1
CHECK_AGAIN = 2.0
NOT_FOUND = 4404
ENDED = 1000
TRY_AGAIN = 1011

logger = logging.getLogger(__name__)


class RunConsumer(AsyncWebsocketConsumer):  # type: ignore[misc]
    """One viewer of one run. Closes with 1000 at the run's end, on which htmx does not reconnect."""

    async def connect(self) -> None:
        self.run_id: UUID = self.scope["url_route"]["kwargs"]["pk"]
        self.more = asyncio.Event()
        self.following: asyncio.Task[None] | None = None
        self.checked_at = asyncio.get_running_loop().time()
        await self.accept()
        if not await in_thread(run_seen_by, self.scope["user"], self.run_id):
            await self.close(NOT_FOUND)
            return
        await self._listen()
        self.following = asyncio.create_task(self._follow())

    async def disconnect(self, code: int) -> None:
        if self.following:
            self.following.cancel()
        try:
            await self.channel_layer.group_discard(group_of(self.run_id), self.channel_name)
        except FAULTS as error:
            logger.warning("the channel layer is out of reach: %s", error)

    async def run_more(self, event: dict[str, Any]) -> None:
        self.more.set()

    async def _listen(self) -> None:
        try:
            await self.channel_layer.group_add(group_of(self.run_id), self.channel_name)
        except FAULTS as error:
            logger.warning("the channel layer is out of reach, looking every %s s: %s", LOOK_AGAIN, error)

    async def _follow(self) -> None:
        try:
            with metrics.viewer():
                await self._send_frames()
        except PermissionDenied:
            await self.close(NOT_FOUND)
        except (DatabaseError, OSError) as error:
            # On this code the page connects anew, and its first frame brings everything that was missed.
            logger.warning("the rows of run %s are out of reach: %s", self.run_id, error)
            await self.close(TRY_AGAIN)
        else:
            await self.close(ENDED)

    async def _send_frames(self) -> None:
        seen, finished = fragments.Seen(), False
        while not finished:
            self.more.clear()
            await self._check_right()
            frame = await self._frame(seen)
            if frame.html:
                await self.send(text_data=frame.html)
            seen, finished = frame.seen, frame.finished
            if not finished:
                await asyncio.sleep(BETWEEN_FRAMES)
                await self._woken()

    async def _check_right(self) -> None:
        """Raises PermissionDenied once the session that opened the socket was ended, or may not see the run."""
        session, now = self.scope.get("session"), asyncio.get_running_loop().time()
        if session is None or now - self.checked_at < CHECK_AGAIN:
            return
        self.checked_at = now
        if not await in_thread(run_still_seen_by, session.session_key, self.run_id):
            raise PermissionDenied

    async def _frame(self, seen: fragments.Seen) -> fragments.Frame:
        zone = reader_zone(self.scope.get("cookies", {}))
        return await in_thread(fragments.frame, self.run_id, seen=seen, language=_language(self.scope), zone=zone)

    async def _woken(self) -> None:
        try:
            async with asyncio.timeout(LOOK_AGAIN):
                await self.more.wait()
        except TimeoutError:
            return


def _language(scope: dict[str, Any]) -> str:
    accepted = dict(scope.get("headers", ())).get(b"accept-language", b"").decode("latin-1")
    return language_of(scope.get("cookies", {}), accepted)
