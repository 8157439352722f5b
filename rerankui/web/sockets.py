"""How many sockets one login session may keep open in this process, and all sessions together. They are counted before
the database is queried, because many sockets at once are what blocks a server. A socket beyond the limit gets a notice
and is closed; its page works without it."""

from collections import Counter
from io import BytesIO
from typing import Any

# First of all of daphne, see ``server_limits``.
import daphne.server  # noqa: F401
from channels.generic.websocket import AsyncWebsocketConsumer
from channels.security.websocket import WebsocketDenier
from daphne.ws_protocol import WebSocketFactory, WebSocketProtocol
from django.conf import settings
from django.core.exceptions import DisallowedHost
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest
from django.middleware.csrf import CsrfViewMiddleware
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import override

from rerankui.web.pages import language_of

# How sockets are closed: with every code that the protocol knows.
#
# Autobahn, below daphne, refuses to send codes below 3000 except 1000. A socket that was to be closed with 1011, on
# which a page connects again, would stay open and never send anything.

ENDED = 1000


class ClosedWithAnyCode(WebSocketProtocol):  # type: ignore[misc]
    def serverClose(self, code: int | None = None) -> None:
        self.sendCloseFrame(code=ENDED if code is None else code)


def allow() -> None:
    """Have daphne close sockets with any code."""
    WebSocketFactory.protocol = ClosedWithAnyCode


# Sockets open from this site's own pages only: the same scheme, name and port, or an origin of CSRF_TRUSTED_ORIGINS.
#
# The rule is the one Django has for forms; that of Channels looks at the name alone, so a page served on another port
# of this machine could open them.

Application = Any


class OwnOrigin:
    """Passes sockets of own pages to ``application`` and refuses all others."""

    def __init__(self, application: Application) -> None:
        self._application = application

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> Any:
        application = self._application if is_own(scope) else WebsocketDenier()
        return await application(scope, receive, send)


class _Forms(CsrfViewMiddleware):
    def allows(self, request: HttpRequest) -> bool:
        return bool(self._origin_verified(request))  # type: ignore[attr-defined]


def is_own(scope: dict[str, Any]) -> bool:
    """Whether the page that opens the socket is one of ours, by the header ``Origin``, which no page can forge."""
    scheme = "https" if scope.get("scheme") == "wss" else "http"
    asked = ASGIRequest({**scope, "type": "http", "method": "GET", "scheme": scheme}, BytesIO())
    try:
        return "origin" in asked.headers and _Forms(lambda _: None).allows(asked)  # type: ignore[arg-type]
    except (DisallowedHost, ValueError):
        return False


# What the sockets of pages have in common.


class PageSocket(AsyncWebsocketConsumer):  # type: ignore[misc]
    """A socket without a channel of its own: what it sends comes from the rows of a run, whose notices the process
    receives once. A channel would take a lock of the database for each viewer, held on a connection."""

    # No layer has this name, so channels uses none.
    channel_layer_alias = ""


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
