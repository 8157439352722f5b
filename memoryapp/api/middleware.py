"""What holds for every address under ``/v1/``, also for those that are none.

Programs read English and JSON, whatever the header of a browser prefers and whichever part of the framework
refuses the request.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import iscoroutinefunction
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils import translation
from django.utils.decorators import sync_and_async_middleware

from memoryapp.api.refusals import refusal

PREFIX = "/v1/"
MEDIA_TYPES = ("application/json", "application/jsonl", "text/event-stream")


@sync_and_async_middleware
def doors(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """Under the prefix English is spoken, and errors are JSON."""
    return _async_doors(get_response) if iscoroutinefunction(get_response) else _doors(get_response)


def _doors(get_response: Callable[[HttpRequest], HttpResponseBase]) -> Callable[[HttpRequest], HttpResponseBase]:
    def answer(request: HttpRequest) -> HttpResponseBase:
        if not request.path_info.startswith(PREFIX):
            return get_response(request)
        with translation.override("en"):
            return _told(get_response(request))

    return answer


def _async_doors(
    get_response: Callable[[HttpRequest], Awaitable[HttpResponseBase]],
) -> Callable[[HttpRequest], Awaitable[HttpResponseBase]]:
    async def answer(request: HttpRequest) -> HttpResponseBase:
        if not request.path_info.startswith(PREFIX):
            return await get_response(request)
        with translation.override("en"):
            return _told(await get_response(request))

    return answer


def _told(response: HttpResponseBase) -> HttpResponseBase:
    response["Content-Language"] = "en"
    if response.status_code < 400 or response.get("Content-Type", "").startswith(MEDIA_TYPES):
        return response
    told = refusal(response.status_code)
    for name in ("Allow", "Content-Language"):
        if name in response:
            told[name] = response[name]
    return told
