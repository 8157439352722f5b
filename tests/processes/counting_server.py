"""Daphne with the limits of the project before an application that only counts. Run as ``python -m
tests.processes.counting_server FD``. A second argument shortens the patience, in seconds."""

import sys
from typing import Any

import django
from daphne.server import Server

django.setup()

from rerankui.web import server_limits, sockets  # noqa: E402 it imports the API, whose models need the setup


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Answers with the number of bytes in the body; closes a socket with the code in its path."""
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.close", "code": int(scope["path"].strip("/"))})
        return
    size, more = 0, True
    while more:
        message = await receive()
        size, more = size + len(message.get("body", b"")), message.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": str(size).encode()})


if __name__ == "__main__":
    server_limits.limit()
    sockets.allow()
    server_limits.FIRST_SECONDS = float(sys.argv[2])
    Server(application, endpoints=[f"fd:fileno={sys.argv[1]}"], verbosity=0).run()
