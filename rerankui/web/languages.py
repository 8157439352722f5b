"""The reader's language where Django has no request: on sockets, and in what the server refuses by itself."""

from __future__ import annotations

from collections.abc import Mapping

from django.http import HttpRequest
from django.utils.translation import get_language_from_request


def language_of(cookies: Mapping[str, str], accepted: str) -> str:
    """The one chosen on the pages, else the one that the header ``Accept-Language`` prefers."""
    asked = HttpRequest()
    asked.COOKIES = dict(cookies)
    asked.META["HTTP_ACCEPT_LANGUAGE"] = accepted
    return get_language_from_request(asked)
