"""The address from which a request comes. Anybody can send a header, so only the one named by a setting is trusted."""

from __future__ import annotations

import ipaddress

from django.conf import settings
from django.http import HttpRequest


def address_of(request: HttpRequest) -> str | None:
    """Returns the address of the connection or, behind a proxy, the last one in the header CLIENT_ADDRESS_HEADER.

    The addresses before the last one come from the proxy's client, so they are not trusted.
    """
    header = request.headers.get(settings.CLIENT_ADDRESS_HEADER, "") if settings.CLIENT_ADDRESS_HEADER else ""
    return _address(header.rpartition(",")[2]) or _address(request.META.get("REMOTE_ADDR") or "")


def _address(text: str) -> str | None:
    try:
        return str(ipaddress.ip_address(text.strip()))
    except ValueError:
        return None
