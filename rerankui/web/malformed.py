"""Input that cannot be read or stored, answered in one place: 400 with a sentence instead of a server error.

Pages and the administration check what they expect. The rest are texts and numbers that only the database, the calendar
or the interpreter's limits refuse: a lone surrogate, a year 0, an integer of five thousand digits. What was
deleted while a request wrote to it is not found: 404.
"""

from __future__ import annotations

import logging

from django.db import DataError
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest
from django.shortcuts import render
from django.template.loader import render_to_string
from django.utils.deprecation import MiddlewareMixin
from django.views.defaults import page_not_found

from memoryapp.operations.outages import is_gone

logger = logging.getLogger(__name__)

_REFUSED = (DataError, UnicodeError, OverflowError)
# The interpreter and the driver say these with no type of their own.
_UNTYPED_MESSAGES = ("integer string conversion", "cannot contain NUL", "expected a number", "out of range")


class MalformedMiddleware(MiddlewareMixin):
    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        if is_gone(exception):
            return page_not_found(request, exception)
        is_value = isinstance(exception, ValueError) and any(words in str(exception) for words in _UNTYPED_MESSAGES)
        if not is_value and not isinstance(exception, _REFUSED):
            return None
        logger.warning("a request holds what cannot be kept: %s", type(exception).__name__)
        return render(request, "400.html", status=400)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answers a request that Django itself refuses, such as a form that is not in UTF-8.

    Django's own view looks for a CSRF token in the form, which would be refused once more.
    """
    return HttpResponseBadRequest(render_to_string("400.html"))
