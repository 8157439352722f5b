"""Refusals: one shape for every error, with a status that says what the program can do.

4xx: the request must change; 429, 502 and 503: the same request may be sent again after ``Retry-After`` seconds. 503
means that this process can do nothing now, so that a proxy asks another one; what merely takes longer than its request
is no refusal but 202, with the address to ask. Every answer under ``/v1/`` is English, whatever the headers say, and a
refusal is JSON whichever part of the framework makes it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from inspect import iscoroutinefunction
from typing import Any

import psycopg
from django.core.exceptions import RequestDataTooBig
from django.db import InterfaceError, InternalError, OperationalError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.utils import translation
from django.utils.decorators import sync_and_async_middleware
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError, ValidationError

from memoryapp.doors.api.shapes.fields import CODES, NotYet, RequestRefused
from memoryapp.engine.json_values import MOST_VALUES, has_more_values
from memoryapp.erasure import NothingToErase
from memoryapp.insight.capsules import CapsuleError
from memoryapp.insight.compare import CompareError
from memoryapp.insight.delivery import DeliveryError
from memoryapp.insight.explain import WhyNotError
from memoryapp.insight.misses.misses import MissError
from memoryapp.intake.items import TooManyItems
from memoryapp.memory.content import BeingErased
from memoryapp.platform.audit import entries
from memoryapp.platform.caps import CapReached, QuotaReached
from memoryapp.platform.database import database_outage, in_thread, is_outage, is_outage_of_cell
from memoryapp.platform.sights import NotByProject
from memoryapp.runs.lifecycle import TooManyRuns
from memoryapp.runs.parameters import ParameterError
from memoryapp.runs.replays import ForkError

SENTENCES = {
    400: "This request cannot be read.",
    401: "Send a valid token as “Authorization: Bearer TOKEN”.",
    403: "This token may not do that.",
    404: "There is nothing here.",
    405: "This address does not take that method.",
    413: "The request is too large.",
    500: "A fault in the program; the server's log has the details.",
    503: "The database is out of reach; try again.",
}
CELL_AWAY = "This memory cannot be reached at the moment; try again."
PREFIX = "/v1/"
MEDIA_TYPES = ("application/json", "application/jsonl", "application/x-protobuf", "text/event-stream")
AWAY_SECONDS = 2
# How many characters of a field's name are repeated; the name may be as long as a body.
MOST_OF_A_NAME = 100


def refusal(
    status: int, message: str = "", *, code: str = "", wait: float = 0, more: Mapping[str, Any] | None = None
) -> HttpResponse:
    """Returns the response to a refused request; the client may try again after ``wait`` seconds."""
    sentence = message or SENTENCES.get(status) or HTTPStatus(status).phrase
    error = {"code": code or CODES.get(status, "error"), "message": sentence, **(more or {})}
    response = JsonResponse({"error": error}, status=status, json_dumps_params={"ensure_ascii": False})
    if status == HTTPStatus.UNAUTHORIZED:
        response["WWW-Authenticate"] = 'Bearer realm="Mnemoscope"'
    if wait:
        response["Retry-After"] = str(max(1, round(wait + 0.5)))
    return response


def check_values(body: bytes) -> None:
    """Raises RequestRefused for JSON with more values than any request has."""
    if has_more_values(body):
        raise RequestRefused(413, f"A body has at most {MOST_VALUES:,} values.")


# What the domain refuses, in a sentence for people, with the status that it has for programs.
OF_DOMAIN: Mapping[type[Exception], int] = {
    ParameterError: 400,
    NotByProject: 403,
    NothingToErase: 404,
    CapsuleError: 409,
    QuotaReached: 409,
    TooManyItems: 409,
    CompareError: 422,
    DeliveryError: 422,
    ForkError: 422,
    MissError: 422,
    WhyNotError: 422,
    CapReached: 429,
    TooManyRuns: 429,
}
RUNS_WAIT = 2
# The last are faults of the program, unless Citus means that a machine is gone.
_AWAY = (
    (OperationalError, psycopg.OperationalError),
    (InterfaceError, psycopg.InterfaceError),
    (InternalError, psycopg.InternalError),
)


def add_handlers(api: NinjaAPI) -> None:
    """Makes the API answer every exception of an endpoint in this shape."""
    api.add_exception_handler(RequestRefused, _refused)
    api.add_exception_handler(NotYet, _not_yet)
    for of_domain, status in OF_DOMAIN.items():
        api.add_exception_handler(of_domain, partial(_in_a_sentence, status))
    api.add_exception_handler(BeingErased, lambda _request, error: refusal(409, str(error), code="erased"))
    api.add_exception_handler(ValidationError, _invalid)
    api.add_exception_handler(HttpError, _unreadable)
    api.add_exception_handler(AuthenticationError, lambda _request, _error: refusal(401))
    api.add_exception_handler(RequestDataTooBig, lambda _request, _error: refusal(413))
    for of_django, of_driver in _AWAY:
        api.add_exception_handler(of_django, _away)
        api.add_exception_handler(of_driver, _away)


def _in_a_sentence(status: int, request: HttpRequest, error: Exception) -> HttpResponse:
    wait = getattr(error, "wait", RUNS_WAIT if status == HTTPStatus.TOO_MANY_REQUESTS else 0)
    return refusal(status, str(error), code=getattr(error, "code", ""), wait=wait)


def _refused(request: HttpRequest, error: Any) -> HttpResponse:
    return refusal(error.status, error.message, code=error.code, wait=error.wait, more=error.more)


def _not_yet(request: HttpRequest, pending: Any) -> HttpResponse:
    values = {"message": pending.message, "url": request.build_absolute_uri(pending.location), **pending.more}
    response = JsonResponse(values, status=pending.status, json_dumps_params={"ensure_ascii": False})
    response["Location"], response["Retry-After"] = pending.location, str(pending.wait)
    return response


def _unreadable(request: HttpRequest, error: Any) -> HttpResponse:
    why = error.__cause__ or error.__context__
    if isinstance(why, RequestRefused):
        return _refused(request, why)
    reason = f": {why}" if isinstance(why, ValueError) else ""
    return refusal(error.status_code, f"The body is not JSON that can be read{reason}.")


def _away(request: HttpRequest, error: Any) -> HttpResponse:
    if is_outage(error):
        database_outage.report(error)
    elif isinstance(error, _AWAY[-1]):
        raise error
    return refusal(503, away(error), wait=AWAY_SECONDS)


def away(error: BaseException) -> str:
    """The sentence about an outage, if only one memory is out of reach."""
    return CELL_AWAY if is_outage_of_cell(error) else ""


def _invalid(request: HttpRequest, error: Any) -> HttpResponse:
    """A sentence that begins with the field of the first fault: ``messages.3.text: Field required``."""
    first, *others = [f"{_field(item['loc'])}: {item['msg']}" for item in error.errors]
    rest = f" ({len(others)} more)" if others else ""
    return refusal(422, f"{first}{rest}")


def _field(place: Sequence[Any]) -> str:
    source, *inside = place
    names = inside[1:] if source == "body" else inside
    return ".".join(str(name)[:MOST_OF_A_NAME] for name in names) or str(source)


@sync_and_async_middleware
def english_json(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """Makes answers under the prefix English, and errors JSON."""
    return _asynchronous(get_response) if iscoroutinefunction(get_response) else _synchronous(get_response)


def _synchronous(get_response: Callable[[HttpRequest], HttpResponseBase]) -> Callable[[HttpRequest], HttpResponseBase]:
    def answer(request: HttpRequest) -> HttpResponseBase:
        if not request.path_info.startswith(PREFIX):
            return get_response(request)
        entries.begin_anonymous()
        with translation.override("en"):
            response = get_response(request)
            entries.end()
            return _in_json(response)

    return answer


def _asynchronous(
    get_response: Callable[[HttpRequest], Awaitable[HttpResponseBase]],
) -> Callable[[HttpRequest], Awaitable[HttpResponseBase]]:
    async def answer(request: HttpRequest) -> HttpResponseBase:
        if not request.path_info.startswith(PREFIX):
            return await get_response(request)
        entries.begin_anonymous()
        with translation.override("en"):
            response = await get_response(request)
            if entries.is_open():
                await in_thread(entries.end)
            return _in_json(response)

    return answer


def _in_json(response: HttpResponseBase) -> HttpResponseBase:
    response["Content-Language"] = "en"
    if response.status_code < 400 or response.get("Content-Type", "").startswith(MEDIA_TYPES):
        return response
    refused = refusal(response.status_code)
    for name in ("Allow", "Content-Language", "Retry-After"):
        if name in response:
            refused[name] = response[name]
    return refused
