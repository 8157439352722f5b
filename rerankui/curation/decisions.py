"""Rows that are decided one after another by a key: the common part of the queue of suggestions and the review of
findings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from statistics import median
from typing import Any, Generic, TypeVar

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods
from django_htmx.http import push_url

from memoryapp.curation import CurationError, Depends
from memoryapp.models import ChatUser, Finding, Role, Suggestion
from rerankui.access import owner_or_404, requires
from rerankui.addresses import undo_address
from rerankui.pages import is_partial

READS = ("GET", "HEAD", "POST")
_DECISIONS_TIMED = 20
_BREAK = timedelta(minutes=3)

Row = TypeVar("Row", Suggestion, Finding)
Listed = TypeVar("Listed")
Query = Callable[[HttpRequest], str]
Act = Callable[[HttpRequest, ChatUser, Row], HttpResponse]


@dataclass(frozen=True, slots=True)
class Around(Generic[Listed]):
    """The rows listed around the open one, the numbers of those not listed, and its neighbours in the list."""

    listed: tuple[Listed, ...]
    above: int
    below: int
    previous: int | None
    next: int | None


def _whole(_request: HttpRequest) -> str:
    """The query of a section that is not narrowed."""
    return ""


@dataclass(frozen=True, slots=True)
class Decisions(Generic[Row]):
    """How the rows of one noun are read, shown and taken back.

    ``noun`` names the address of a row and its number there; ``section`` is the address that shows the next one.
    ``page`` takes a request, an owner and a row or None, and by name a sentence and a status. ``query`` is what every
    address keeps of the request's, to which the section is narrowed.
    """

    noun: str
    section: str
    undecided: str
    row_or_404: Callable[[ChatUser, int], Row]
    page: Callable[..., HttpResponse]
    take_back: Callable[..., Any]
    query: Query = _whole

    def view(self, act: Act[Row]) -> Callable[..., HttpResponse]:
        """The view of one row: a look is answered with the page, a post by ``act``, which needs a curator."""
        permitted = requires(Role.CURATOR)(act)

        @require_http_methods(READS)
        def view(request: HttpRequest, owner_id: int, **numbers: int) -> HttpResponse:
            owner = owner_or_404(request, owner_id)
            row = self.row_or_404(owner, numbers[self.noun])
            return permitted(request, owner, row) if request.method == "POST" else self.page(request, owner, row)

        return view

    def undo(self, request: HttpRequest, owner: ChatUser, row: Row) -> HttpResponse:
        """The decision is taken back, and the row shown; an edit that something later depends on has a page."""
        if row.state != self.undecided:
            try:
                self.take_back(row, actor=request.user.get_username())
            except CurationError as error:
                if isinstance(error, Depends) and row.edit:
                    return redirect(undo_address(row.edit, request.path))
                return self.page(request, owner, row, sentence=str(error), status=422)
        return redirect(reverse(self.noun, args=[owner.pk, row.pk]) + self.query(request))

    def onward(self, request: HttpRequest, owner: ChatUser, following: Row | None) -> HttpResponse:
        """The next row, or the section's page when there is none."""
        name, numbers = (self.noun, [owner.pk, following.pk]) if following else (self.section, [owner.pk])
        address = reverse(name, args=numbers) + self.query(request)
        return push_url(self.page(request, owner, following), address) if is_partial(request) else redirect(address)


def seconds_each(decided: QuerySet[Row]) -> int | None:
    """The seconds per decision for the latest of these rows, without breaks; None before the second decision."""
    rows = decided.filter(decided_at__isnull=False).order_by("-decided_at")
    times = [at for at in rows.values_list("decided_at", flat=True)[: _DECISIONS_TIMED + 1] if at is not None]
    gaps = [later - earlier for later, earlier in pairwise(times) if later - earlier < _BREAK]
    return round(median(gap.total_seconds() for gap in gaps)) if gaps else None
