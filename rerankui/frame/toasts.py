"""Toasts: what was done, shown for ten seconds, with a button that undoes it. They wait in the session until the next
page or fragment shows them."""

from dataclasses import asdict, dataclass
from urllib.parse import urlencode

from django.http import HttpRequest
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme

from memoryapp.curation.history import Record
from memoryapp.models import TopicEdit

_KEY = "toasts"


@dataclass(frozen=True, slots=True)
class Toast:
    """``word`` is the text of the button, which posts to ``address``."""

    sentence: str
    address: str
    word: str


def add(request: HttpRequest, sentence: str, address: str, word: str) -> None:
    request.session[_KEY] = [*request.session.get(_KEY, []), asdict(Toast(sentence, address, word))]


def take(request: HttpRequest) -> list[Toast]:
    """Returns the toasts that were not shown yet; each is returned once."""
    waiting = request.session.pop(_KEY, []) if _KEY in request.session else []
    return [Toast(**toast) for toast in waiting]


# Addresses that views pass on: the page that undoes a change, and the page to which a form returns.


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
