"""Requests and sockets while the database is out of reach: refused, where the server would log a fault and answer 500.

A page says so and loads again by itself. The page of a refused socket looks each second by itself, says that the server
does not answer, and connects again.
"""

from __future__ import annotations

import sys
from typing import Any

from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse, HttpResponseServerError
from django.template.loader import render_to_string

from memoryapp.api.refusals import AWAY_SECONDS
from memoryapp.operations.outages import database_outage, is_outage


def server_error(request: HttpRequest) -> HttpResponse:
    """Answers a request that ended with an exception: 503 in an outage of the database, otherwise 500.

    A middleware would not see all of them, because sessions and accounts are read in the middlewares of others. Django
    calls this while it handles the exception, and does not pass it. Django's own view would read the form once more,
    which may be what failed.
    """
    error = sys.exc_info()[1]
    if error is None or not is_outage(error):
        return HttpResponseServerError(render_to_string("500.html"))
    body = render_to_string("503.html", {"seconds": AWAY_SECONDS if request.method == "GET" else None})
    return HttpResponse(body, status=503, headers={"Retry-After": str(AWAY_SECONDS)})


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
            database_outage.report(error)
            # Not by a consumer, which would listen for notices in the same database.
            await receive()
            await send({"type": "websocket.close"})
