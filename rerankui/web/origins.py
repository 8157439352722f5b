"""Sockets open from this site's own pages only: the same scheme, name and port, or an origin of CSRF_TRUSTED_ORIGINS.

The rule is the one Django has for forms; that of Channels looks at the name alone, so a page served on another port of
this machine could open them.
"""

from __future__ import annotations

from io import BytesIO
from typing import Any

from channels.security.websocket import WebsocketDenier
from django.core.exceptions import DisallowedHost
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest
from django.middleware.csrf import CsrfViewMiddleware

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
