"""The address a request comes from. Anybody can send a header, so only the one a setting names is trusted."""

from __future__ import annotations

import ipaddress

from django.conf import settings
from django.http import HttpRequest


def address_of(request: HttpRequest) -> str | None:
    """The address of the connection or, behind a proxy, the last one in the header CLIENT_ADDRESS_HEADER.

    The addresses before the last one were written by the proxy's client.
    """
    header = request.headers.get(settings.CLIENT_ADDRESS_HEADER, "") if settings.CLIENT_ADDRESS_HEADER else ""
    return _address(header.rpartition(",")[2]) or _address(request.META.get("REMOTE_ADDR") or "")


def _address(text: str) -> str | None:
    try:
        return str(ipaddress.ip_address(text.strip()))
    except ValueError:
        return None
