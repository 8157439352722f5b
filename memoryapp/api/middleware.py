"""Makes every answer under ``/v1/`` English and every refusal JSON, even if no address matches.

The language does not depend on the headers of the request, and a refusal is JSON whichever part of the framework makes
it.
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
MEDIA_TYPES = ("application/json", "application/jsonl", "application/x-protobuf", "text/event-stream")


@sync_and_async_middleware
def english_json(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """Makes answers under the prefix English, and errors JSON."""
    return _asynchronous(get_response) if iscoroutinefunction(get_response) else _synchronous(get_response)


def _synchronous(get_response: Callable[[HttpRequest], HttpResponseBase]) -> Callable[[HttpRequest], HttpResponseBase]:
    def answer(request: HttpRequest) -> HttpResponseBase:
        if not request.path_info.startswith(PREFIX):
            return get_response(request)
        with translation.override("en"):
            return _in_json(get_response(request))

    return answer


def _asynchronous(
    get_response: Callable[[HttpRequest], Awaitable[HttpResponseBase]],
) -> Callable[[HttpRequest], Awaitable[HttpResponseBase]]:
    async def answer(request: HttpRequest) -> HttpResponseBase:
        if not request.path_info.startswith(PREFIX):
            return await get_response(request)
        with translation.override("en"):
            return _in_json(await get_response(request))

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
