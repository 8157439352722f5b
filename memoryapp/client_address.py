"""From which address somebody asks. Anybody can send a header, so one is believed only where a setting names it."""

from __future__ import annotations

import ipaddress

from django.conf import settings
from django.http import HttpRequest


def address_of(request: HttpRequest) -> str | None:
    """The address the connection comes from or, behind a proxy, the last that CLIENT_ADDRESS_HEADER tells.

    What stands before the last one was written by whoever asked the proxy.
    """
    told = request.headers.get(settings.CLIENT_ADDRESS_HEADER, "") if settings.CLIENT_ADDRESS_HEADER else ""
    return _address(told.rpartition(",")[2]) or _address(request.META.get("REMOTE_ADDR") or "")


def _address(text: str) -> str | None:
    try:
        return str(ipaddress.ip_address(text.strip()))
    except ValueError:
        return None
