"""HTTP and websocket doors. A socket passes only with a session and from this site's own pages."""

from __future__ import annotations

import os
import sys
from typing import Any

from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter
from channels.sessions import CookieMiddleware
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "memoryapp.settings")
http = get_asgi_application()

from memoryapp.runner import runner  # noqa: E402 rows can be imported only once Django is set up
from rerankui import server_limits  # noqa: E402
from rerankui.origins import OwnOrigin  # noqa: E402
from rerankui.routing import sockets  # noqa: E402
from rerankui.socket_limits import SocketLimit  # noqa: E402

doors = ProtocolTypeRouter(
    {
        "http": http,
        "websocket": OwnOrigin(CookieMiddleware(SocketLimit(AuthMiddlewareStack(sockets)))),
    }
)


def _warm_up() -> None:
    """Have the models loaded once the loop of the server that imports this runs, before somebody asks for a run."""
    reactor = sys.modules.get("twisted.internet.reactor")
    if reactor:
        reactor.callWhenRunning(reactor.callLater, 0, runner.bind)


_warm_up()
server_limits.limit()


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Every door, in the loop that also executes runs."""
    runner.bind()
    await doors(scope, receive, send)
