"""The reader's time zone: times are stored in UTC and written as the clock on the reader's wall shows them.

A script keeps the browser's zone in the cookie ``timezone``. A reader without one, or with a zone that this machine
does not know, reads UTC.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, tzinfo
from inspect import iscoroutinefunction
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils import timezone
from django.utils.decorators import sync_and_async_middleware

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


@sync_and_async_middleware
def local_time(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """Pages are made in the reader's time zone."""
    return _async_local_time(get_response) if iscoroutinefunction(get_response) else _local_time(get_response)


def _local_time(get_response: Callable[[HttpRequest], HttpResponseBase]) -> Callable[[HttpRequest], HttpResponseBase]:
    def answer(request: HttpRequest) -> HttpResponseBase:
        with timezone.override(reader_zone(request.COOKIES)):
            return get_response(request)

    return answer


def _async_local_time(
    get_response: Callable[[HttpRequest], Awaitable[HttpResponseBase]],
) -> Callable[[HttpRequest], Awaitable[HttpResponseBase]]:
    async def answer(request: HttpRequest) -> HttpResponseBase:
        with timezone.override(reader_zone(request.COOKIES)):
            return await get_response(request)

    return answer
