"""Answers to people who are signed in are stored by no cache, and by no browser after they sign out."""

from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping
from contextlib import aclosing, closing
from datetime import UTC, tzinfo
from functools import wraps
from inspect import iscoroutinefunction
from time import perf_counter
from typing import Any, cast
from zoneinfo import ZoneInfo, available_timezones

from django.conf import settings
from django.http import HttpRequest, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware
from django.utils import timezone
from django.utils.cache import patch_cache_control
from django.utils.decorators import sync_and_async_middleware
from django.utils.translation import get_language_from_request

from memoryapp.engine.cells import cell, within
from memoryapp.engine.sight import Sight, looking, sight
from memoryapp.platform import cells, metrics

# What is done before a view and, behind its ``yield``, with its response; returning before that answers in its place.
Steps = Generator[None, HttpResponseBase, HttpResponseBase]


def middleware(steps: Callable[[HttpRequest], Steps]) -> Callable[..., Callable[[HttpRequest], Any]]:
    """The steps around sync and async views."""

    def begun(going: Steps) -> HttpResponseBase | None:
        try:
            next(going)
        except StopIteration as early:
            return cast(HttpResponseBase, early.value)
        return None

    def ended(going: Steps, response: HttpResponseBase) -> HttpResponseBase:
        try:
            going.send(response)
        except StopIteration as last:
            return cast(HttpResponseBase, last.value)
        raise RuntimeError("the steps of a middleware yield once")

    @sync_and_async_middleware
    @wraps(steps)
    def made(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
        async def answer_later(request: HttpRequest) -> HttpResponseBase:
            with closing(steps(request)) as going:
                return begun(going) or ended(going, await get_response(request))

        def answer(request: HttpRequest) -> HttpResponseBase:
            with closing(steps(request)) as going:
                return begun(going) or ended(going, get_response(request))

        return answer_later if iscoroutinefunction(get_response) else answer

    return made


_METHODS = ("GET", "HEAD", "POST", "OPTIONS")


@middleware
def counted_requests(request: HttpRequest) -> Steps:
    """Counts and times requests by the name of their address, which an unknown one has not."""
    began = perf_counter()
    response = yield
    route = (request.resolver_match and request.resolver_match.url_name) or "none"
    method = request.method if request.method in _METHODS else "other"
    metrics.http_requests.labels(route=route, method=method, status=response.status_code).inc()
    metrics.http_duration.labels(route=route).observe(perf_counter() - began)
    return response


@middleware
def private_pages(request: HttpRequest) -> Steps:
    """Adds ``private, no-store`` to answers in a login session, except those that say how they may be stored. It looks
    at the cookie and not at the account, which would be one more query."""
    response = yield
    is_kept = "max-age" in response.get("Cache-Control", "") and "no-store" not in response["Cache-Control"]
    if settings.SESSION_COOKIE_NAME in request.COOKIES and not is_kept:
        patch_cache_control(response, private=True, no_store=True)
    return response


@middleware
def in_sight(request: HttpRequest) -> Steps:
    """Encloses the sight of a token or an operator, and the cell of a memory: they end with the answer, whose pieces
    are still made in them."""
    cells.begin_answer()
    with looking(), within(None):
        response = yield
        if isinstance(response, StreamingHttpResponse):
            pieces, seen = response.streaming_content, (sight(), cell())
            response.streaming_content = _seen(pieces, *seen) if response.is_async else _seen_at_once(pieces, *seen)
        return response


async def _seen(pieces: Any, seen: Sight, number: int | None) -> AsyncIterator[bytes]:
    with looking(seen), within(number):
        async with aclosing(pieces):
            async for piece in pieces:
                yield piece


def _seen_at_once(pieces: Any, seen: Sight, number: int | None) -> Iterator[bytes]:
    with looking(seen), within(number):
        yield from pieces


# Pages are compressed; answers that programs read line by line are not, because a reader would have to wait for whole
# blocks.


class CompressedPages(GZipMiddleware):
    """Django's own compression, with its padding against BREACH, for HTML alone."""

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        is_page = response.get("Content-Type", "").startswith("text/html")
        return super().process_response(request, response) if is_page else response


# The reader's time zone: times are stored in UTC and written as the clock on the reader's wall shows them.
#
# A script keeps the browser's zone in the cookie ``timezone``. A reader without one, or with a zone that this machine
# does not know, reads UTC.

# The areas under which the database of time zones lists places; other names in it are old ones, or none of a place.
_AREAS = {"Africa", "America", "Antarctica", "Arctic", "Asia", "Atlantic", "Australia", "Europe", "Indian", "Pacific"}
COOKIE = "timezone"
LONGEST_NAME = 64


def zone_names() -> list[str]:
    """The zones that a person chooses from: UTC, and those of places."""
    return ["UTC", *sorted(name for name in available_timezones() if name.partition("/")[0] in _AREAS and "/" in name)]


def reader_zone(cookies: Mapping[str, str]) -> tzinfo:
    """The zone of the cookie; UTC where it names none."""
    name = cookies.get(COOKIE, "").replace("%2F", "/")
    if not name or len(name) > LONGEST_NAME:
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        # A folder of zones ("America") is an OSError, a path out of the zones a ValueError.
        return UTC


@middleware
def local_time(request: HttpRequest) -> Steps:
    """Pages are made in the reader's time zone."""
    with timezone.override(reader_zone(request.COOKIES)):
        return (yield)


# The reader's language where Django has no request: on sockets, and in what the server refuses by itself.


def language_of(cookies: Mapping[str, str], accepted: str) -> str:
    """The one chosen on the pages, else the one that the header ``Accept-Language`` prefers."""
    asked = HttpRequest()
    asked.COOKIES = dict(cookies)
    asked.META["HTTP_ACCEPT_LANGUAGE"] = accepted
    return get_language_from_request(asked)
