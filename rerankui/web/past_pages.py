"""Reads the moment of a page from its address, refuses changes while one is set, and keeps it in the page's links."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import iscoroutinefunction
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.urls import resolve
from django.utils.decorators import sync_and_async_middleware

from rerankui.web.moment import OWN_USE, PARAMETER, is_sent, past_of, read, refusal
from rerankui.web.moment_links import kept, kept_in

_NOT_PAGES = ("/v1/", "/mcp", "/admin/")
_SAFE = ("GET", "HEAD", "OPTIONS")


@sync_and_async_middleware
def past_pages(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """Sets ``request.past``, and ``request.past_fault`` to what names no moment."""
    return _async_past_pages(get_response) if iscoroutinefunction(get_response) else _past_pages(get_response)


def _past_pages(get_response: Callable[[HttpRequest], HttpResponseBase]) -> Callable[[HttpRequest], HttpResponseBase]:
    def answer(request: HttpRequest) -> HttpResponseBase:
        return _read(request) or _with_moment(request, get_response(request))

    return answer


def _async_past_pages(
    get_response: Callable[[HttpRequest], Awaitable[HttpResponseBase]],
) -> Callable[[HttpRequest], Awaitable[HttpResponseBase]]:
    async def answer(request: HttpRequest) -> HttpResponseBase:
        return _read(request) or _with_moment(request, await get_response(request))

    return answer


def _read(request: HttpRequest) -> HttpResponse | None:
    """Notes the moment; a redirect where the address names it in another way than links do. Raises PermissionDenied
    for what would change something."""
    if PARAMETER not in request.GET or request.path.startswith(_NOT_PAGES):
        return None
    text, is_read, route = request.GET[PARAMETER].strip(), request.method in _SAFE, _route(request)
    if route in OWN_USE:
        return None
    moment = None
    try:
        moment = read(text) if text else None
    except (ValueError, OverflowError):
        request.past_fault = text  # type: ignore[attr-defined]
    request.past = moment  # type: ignore[attr-defined]
    if text and not is_read and not is_sent(route):
        raise PermissionDenied(refusal())
    if text and moment is None:
        return None
    if not is_read or getattr(request, "htmx", False) or (moment and moment.text == text):
        return None
    query = request.GET.copy()
    del query[PARAMETER]
    if moment:
        query[PARAMETER] = moment.text
    return HttpResponseRedirect(f"{request.path}?{query.urlencode(safe=':')}" if query else request.path)


def _route(request: HttpRequest) -> str:
    try:
        return resolve(request.path_info).url_name or ""
    except Http404:
        return ""


def _with_moment(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    moment = past_of(request)
    if moment is None or not isinstance(response, HttpResponse):
        return response
    if response.has_header("Location"):
        response["Location"] = kept(response["Location"], moment)
    is_page = response.get("Content-Type", "").startswith("text/html")
    if is_page and response.content and not response.has_header("Content-Disposition"):
        response.content = kept_in(response.content.decode(), moment).encode()
    return response
