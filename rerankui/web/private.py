"""Answers to people who are signed in are stored by no cache, and by no browser after they sign out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import iscoroutinefunction
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.cache import patch_cache_control
from django.utils.decorators import sync_and_async_middleware


@sync_and_async_middleware
def private_pages(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """Adds ``private, no-store`` to answers in a login session, except those that say how they may be stored.

    It looks at the cookie and not at the account, which would be one more query.
    """
    return _async_private_pages(get_response) if iscoroutinefunction(get_response) else _private_pages(get_response)


def _private_pages(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    def answer(request: HttpRequest) -> HttpResponseBase:
        return _marked(request, get_response(request))

    return answer


def _async_private_pages(
    get_response: Callable[[HttpRequest], Awaitable[HttpResponseBase]],
) -> Callable[[HttpRequest], Awaitable[HttpResponseBase]]:
    async def answer(request: HttpRequest) -> HttpResponseBase:
        return _marked(request, await get_response(request))

    return answer


def _marked(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    is_kept = "max-age" in response.get("Cache-Control", "") and "no-store" not in response["Cache-Control"]
    if settings.SESSION_COOKIE_NAME in request.COOKIES and not is_kept:
        patch_cache_control(response, private=True, no_store=True)
    return response
