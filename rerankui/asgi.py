"""HTTP and websockets. A socket is accepted only with a session and from this site's own pages."""

import asyncio
import os
import sys
from typing import Any

from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter
from channels.sessions import CookieMiddleware
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "memoryapp.settings")
http = get_asgi_application()

from memoryapp.platform import database  # noqa: E402
from memoryapp.platform.database import in_thread  # noqa: E402
from memoryapp.platform.embedded import children  # noqa: E402
from memoryapp.platform.telemetry import ended  # noqa: E402
from memoryapp.runs.runner import runner  # noqa: E402 rows can be imported only once Django is set up
from memoryapp.upkeep.alarms import keep_watch_from_web  # noqa: E402
from rerankui.runs.consumers import sockets  # noqa: E402
from rerankui.web import server_limits, uploads  # noqa: E402
from rerankui.web import sockets as socket_closes  # noqa: E402
from rerankui.web.refusals import RefusedWithoutDatabase  # noqa: E402
from rerankui.web.server_limits import draining  # noqa: E402
from rerankui.web.sockets import OwnOrigin, SocketLimit  # noqa: E402

# The loop itself keeps no task alive.
_beginning: list[asyncio.Task[None]] = []
protocols = ProtocolTypeRouter(
    {
        "http": uploads.Untaken(http),
        "websocket": OwnOrigin(CookieMiddleware(SocketLimit(RefusedWithoutDatabase(AuthMiddlewareStack(sockets))))),
    }
)


def _warm_up() -> None:
    """Once the loop of the server that imports this runs, have the models loaded before somebody asks for a run."""
    reactor = sys.modules.get("twisted.internet.reactor")
    if reactor:
        reactor.callWhenRunning(reactor.callLater, 0, _begin, reactor)


def _begin(reactor: Any) -> None:
    runner.bind()
    draining.listen(runner, reactor.stop, reactor.callFromThread)
    children.ping_from_loop()
    ended.begin()
    for work in (_refuse_unusable_database(), keep_watch_from_web()):
        _beginning.append(asyncio.get_running_loop().create_task(work))


async def _refuse_unusable_database() -> None:
    """Ends the process: what it would store there might be lost."""
    if refusal := await in_thread(database.refusal):
        sys.exit(refusal)


_warm_up()
server_limits.limit()
socket_closes.allow()


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Answers every request and socket, in the loop that also executes runs."""
    runner.bind()
    await draining.over(protocols)(scope, receive, send)
