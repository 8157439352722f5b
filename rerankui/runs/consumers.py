"""The sockets of a run's page and of an answer: each follows a run and sends its rows as HTML; it decides nothing else.
The first frame is the whole run so far, later frames append events. In between, frames update the words of the current
turn."""

import asyncio
import logging
from contextlib import aclosing
from typing import Any
from uuid import UUID

from channels.routing import URLRouter
from channels.security.websocket import WebsocketDenier
from django.core.exceptions import PermissionDenied
from django.db import DatabaseError
from django.urls import path, re_path

from memoryapp.platform import metrics
from memoryapp.platform.database import in_thread, reason
from memoryapp.runs import followers
from memoryapp.runs.runner import runner
from rerankui.frame.access import run_seen_by, run_still_seen_by
from rerankui.runs import fragments
from rerankui.web.pages import language_of, reader_zone
from rerankui.web.sockets import PageSocket

BETWEEN_FRAMES = 0.1
CHECK_AGAIN = 2.0
NOT_FOUND = 4404
ENDED = 1000
TRY_AGAIN = 1011

logger = logging.getLogger(__name__)


class RunConsumer(PageSocket):
    """One viewer of one run. Closes with 1000 at the run's end, on which htmx does not reconnect."""

    async def connect(self) -> None:
        self.run_id: UUID = self.scope["url_route"]["kwargs"]["pk"]
        self.following: asyncio.Task[None] | None = None
        self.checked_at = asyncio.get_running_loop().time()
        await self.accept()
        try:
            is_seen = await in_thread(run_seen_by, self.scope["user"], self.run_id, self.scope)
        except DatabaseError as error:
            await self._try_again(error)
            return
        if not is_seen:
            await self.close(NOT_FOUND)
            return
        self.following = asyncio.create_task(self._follow())

    async def disconnect(self, code: int) -> None:
        if self.following:
            self.following.cancel()

    async def _follow(self) -> None:
        try:
            with metrics.viewers.track_inprogress():
                await self._send_frames()
        except PermissionDenied:
            await self.close(NOT_FOUND)
        except (DatabaseError, OSError) as error:
            await self._try_again(error)
        else:
            await self.close(ENDED)

    async def _try_again(self, error: Exception) -> None:
        """Closes with a code on which the page reconnects; its first frame contains everything that was missed."""
        logger.warning("the rows of run %s are out of reach: %s", self.run_id, reason(error))
        await self.close(TRY_AGAIN)

    async def _send_frames(self) -> None:
        seen = fragments.Seen()
        async with aclosing(followers.looks(runner, self.run_id)) as each_look:
            async for _is_noticed in each_look:
                await self._check_right()
                frame = await self._frame(seen)
                if frame.html:
                    await self.send(text_data=frame.html)
                if frame.finished:
                    return
                seen = frame.seen
                await asyncio.sleep(BETWEEN_FRAMES)

    async def _check_right(self) -> None:
        """Raises PermissionDenied when the session that opened the socket was ended, or may no longer see the run."""
        session, now = self.scope.get("session"), asyncio.get_running_loop().time()
        if session is None or now - self.checked_at < CHECK_AGAIN:
            return
        self.checked_at = now
        if not await in_thread(run_still_seen_by, session.session_key, self.run_id):
            raise PermissionDenied

    async def _frame(self, seen: fragments.Seen) -> fragments.SocketFrame:
        return await in_thread(fragments.frame, self.run_id, seen=seen, **self._reader)

    @property
    def _reader(self) -> dict[str, Any]:
        """The language and time zone of the viewer."""
        return {"language": _language(self.scope), "zone": reader_zone(self.scope.get("cookies", {}))}


class AnswerConsumer(RunConsumer):
    """One viewer of one answer on the page *Ask*."""

    async def _frame(self, seen: fragments.Seen) -> fragments.SocketFrame:
        return await in_thread(fragments.answer_frame, self.run_id, seen=seen, user=self.scope["user"], **self._reader)


def _language(scope: dict[str, Any]) -> str:
    accepted = dict(scope.get("headers", ())).get(b"accept-language", b"").decode("latin-1")
    return language_of(scope.get("cookies", {}), accepted)


# The websocket's paths.

websocket_urlpatterns = [
    path("ws/runs/<uuid:pk>/", RunConsumer.as_asgi(), name="run_socket"),
    path("ws/runs/<uuid:pk>/answer/", AnswerConsumer.as_asgi(), name="answer_socket"),
]
# A path that is none is refused; the router alone would raise, and the server log a fault.
sockets: Any = URLRouter([*websocket_urlpatterns, re_path("", WebsocketDenier.as_asgi())])
