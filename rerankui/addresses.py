"""Addresses that views hand on: where a change is undone, and where a form leads back to."""

from __future__ import annotations

from urllib.parse import urlencode

from django.http import HttpRequest
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme

from memoryapp.history import Record
from memoryapp.models import TopicEdit


def undo_address(record: Record, back: str = "") -> str:
    """The page that undoes this change, or does an undone one again; ``back`` is where it leads afterwards."""
    name = "undo_preview" if isinstance(record, TopicEdit) else "undo_change"
    address = reverse(name, args=[record.owner_id, record.pk])
    return f"{address}?{urlencode({'next': back})}" if back else address


def next_address(request: HttpRequest) -> str:
    """Where the form or the link asks to go afterwards (``next``); empty unless that is a page of this site."""
    return own_address(request, request.POST.get("next", "") or request.GET.get("next", ""))


def own_address(request: HttpRequest, address: str) -> str:
    """The address if it leads to a page of this site, else nothing."""
    is_own = url_has_allowed_host_and_scheme(address, {request.get_host()}, require_https=request.is_secure())
    # A word alone would be taken for the name of a page.
    return address if is_own and "/" in address else ""
