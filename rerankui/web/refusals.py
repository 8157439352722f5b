"""Input that cannot be read or stored, answered in one place: 400 with a sentence instead of a server error.

Pages and the administration check what they expect. The rest are texts and numbers that only the database, the calendar
or the interpreter's limits refuse: a lone surrogate, a year 0, an integer of five thousand digits. What was
deleted while a request wrote to it is not found: 404."""

import logging
import sys
from typing import Any

from django.db import DatabaseError, DataError
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, HttpResponseServerError
from django.shortcuts import render
from django.template.loader import render_to_string
from django.utils.deprecation import MiddlewareMixin
from django.views.defaults import page_not_found

from memoryapp.doors.api.refusals import AWAY_SECONDS, OF_DOMAIN
from memoryapp.platform.caps import CapReached, QuotaReached
from memoryapp.platform.database import database_outage, is_gone, is_outage, is_outage_of_cell
from memoryapp.platform.sights import NotByProject

logger = logging.getLogger(__name__)

_REFUSED = (DataError, UnicodeError, OverflowError)
# The interpreter and the driver say these with no type of their own.
_UNTYPED_MESSAGES = ("integer string conversion", "cannot contain NUL", "expected a number", "out of range")


class MalformedMiddleware(MiddlewareMixin):
    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        if is_gone(exception):
            return page_not_found(request, exception)
        if isinstance(exception, CapReached | NotByProject | QuotaReached):
            return render(request, "refused.html", {"exception": exception}, status=OF_DOMAIN[type(exception)])
        is_value = isinstance(exception, ValueError) and any(words in str(exception) for words in _UNTYPED_MESSAGES)
        if not is_value and not isinstance(exception, _REFUSED):
            return None
        logger.warning("a request holds what cannot be kept: %s", type(exception).__name__)
        return render(request, "400.html", status=400)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answers a request that Django itself refuses, such as a form that is not in UTF-8. Django's own view looks for a
    CSRF token in the form, which would be refused once more."""
    return HttpResponseBadRequest(render_to_string("400.html"))


# Requests and sockets while the database is out of reach: refused, where the server would log a fault and answer 500.
#
# A page says so and loads again by itself. The page of a refused socket looks each second by itself, says that the
# server does not answer, and connects again.


def server_error(request: HttpRequest) -> HttpResponse:
    """Answers a request that ended with an exception: 503 in an outage of the database, otherwise 500.

    A middleware would not see all of them, because sessions and accounts are read in the middlewares of others. Django
    calls this while it handles the exception, and does not pass it. Django's own view would read the form once more,
    which may be what failed."""
    error = sys.exc_info()[1]
    if error is None or not is_outage(error):
        return HttpResponseServerError(render_to_string("500.html"))
    seconds = AWAY_SECONDS if request.method == "GET" else None
    body = render_to_string("503.html", {"seconds": seconds, "is_of_cell": is_outage_of_cell(error)})
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
