"""How many sockets one login session may keep open in this process, and all sessions together.

They are counted before the database is queried, because many sockets at once are what blocks a server. A socket beyond
the limit gets a notice and is closed; its page works without it.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from django.conf import settings
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import override

from rerankui.web.languages import language_of
from rerankui.web.page_socket import PageSocket

TOO_MANY = 4429
OF_PROCESS = 1_000


class SocketLimit:
    """Accepts sockets within the limit; it is placed behind the middleware that reads cookies."""

    def __init__(self, application: Any) -> None:
        self._application = application
        self._open: Counter[str] = Counter()

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        session = scope["cookies"].get(settings.SESSION_COOKIE_NAME, "")
        if self._open[session] >= settings.SOCKETS_PER_SESSION or self._open.total() >= OF_PROCESS:
            await OneTooMany.as_asgi()(scope, receive, send)
            return
        self._open[session] += 1
        try:
            await self._application(scope, receive, send)
        finally:
            self._open[session] -= 1
            self._open += Counter()  # keeps only what is still open


class OneTooMany(PageSocket):
    """Says why, in the page that asked, and closes with a code on which htmx does not connect again."""

    async def connect(self) -> None:
        accepted = dict(self.scope.get("headers", ())).get(b"accept-language", b"").decode("latin-1")
        with override(language_of(self.scope["cookies"], accepted)):
            sentence = _("Too many pages follow runs at once. This one does not follow by itself; close some others.")
        await self.accept()
        await self.send(
            text_data=format_html(
                '<div hx-swap-oob="afterbegin:#content"><p class="notice notice-warning" role="status">{}</p></div>',
                sentence,
            )
        )
        await self.close(TOO_MANY)
