"""Addresses that views pass on: the page that undoes a change, and the page to which a form returns."""

from __future__ import annotations

from urllib.parse import urlencode

from django.http import HttpRequest
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme

from memoryapp.history import Record
from memoryapp.models import TopicEdit


def undo_address(record: Record, back: str = "") -> str:
    """The page that undoes this change, or redoes an undone one; ``back`` is the page to show afterwards."""
    name = "undo_preview" if isinstance(record, TopicEdit) else "undo_change"
    address = reverse(name, args=[record.owner_id, record.pk])
    return f"{address}?{urlencode({'next': back})}" if back else address


def next_address(request: HttpRequest) -> str:
    """The page that the form or link asks for afterwards (``next``); empty unless it is a page of this site."""
    return own_address(request, request.POST.get("next", "") or request.GET.get("next", ""))


def own_address(request: HttpRequest, address: str) -> str:
    """The address if it leads to a page of this site, else nothing."""
    is_own = url_has_allowed_host_and_scheme(address, {request.get_host()}, require_https=request.is_secure())
    # A single word would be taken for the name of a page.
    return address if is_own and "/" in address else ""
