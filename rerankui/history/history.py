"""The history of a memory, and the undo of one change, of all changes of a person in a period, or of an import.

Each undo is shown first, with the changes that depend on it, and made by a form that contains what was shown; if
something changed meanwhile, it is shown again instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import cast
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.formats import date_format
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from memoryapp import history
from memoryapp.history import AutomaticChanges, Cursor, Night, Source
from memoryapp.models import ChatUser, Role
from rerankui.access import operator_of, owner_or_404
from rerankui.filters import HistoryFilter
from rerankui.history.entry_views import entry_views, pairs_folded
from rerankui.pages import PAGE_SIZE, show


@require_safe
def history_page(request: HttpRequest, owner_id: int) -> HttpResponse:
    """Everything that was changed, newest first."""
    owner = owner_or_404(request, owner_id)
    filters = HistoryFilter(request.GET, actors=history.actors(owner))
    asked = {name: _cursor(request.GET.get(name, "")) for name in ("after", "before")}
    found = history.page(owner, filters.narrowing, PAGE_SIZE, **asked)
    folded = _folded(request, owner, filters, found)
    context = {
        "owner": owner,
        "filters": filters,
        "chips": _chips(filters),
        "rows": list(zip(folded, pairs_folded(entry_views(found.entries)), strict=False)),
        "oldest": folded[-1],
        "page": _edges(found),
        "may_change": operator_of(request).may(Role.CURATOR),
        "range": _range_address(owner, filters),
        "nights": _nights(owner) if not (any(filters.chosen.values()) or any(asked.values())) else [],
    }
    return show(request, "pages/history/history.html", "partials/history/history.html", context)


@dataclass(frozen=True, slots=True)
class Folded:
    """Changes of the program in one row: ``address`` lists them, and ``opens`` says whether they are on one page."""

    changes: AutomaticChanges
    address: str

    @property
    def opens(self) -> bool:
        return self.changes.count <= PAGE_SIZE


def _folded(
    request: HttpRequest, owner: ChatUser, filters: HistoryFilter, found: history.HistoryPage
) -> list[Folded | None]:
    """The folded changes before each entry, and those after the last one."""
    if not filters.is_of_people:
        return [None] * (len(found.entries) + 1)
    runs = history.automatic_changes(owner, filters.narrowing, found)
    return [Folded(run, _address_of(request, filters, run)) if run else None for run in runs]


def _nights(owner: ChatUser) -> list[tuple[Night, str, str]]:
    """What the program merged and extracted by itself, newest first, with where it is listed, and where all of a
    night's is taken back."""
    page = reverse("undo_range", args=[owner.pk])
    found = [*history.nights(owner), *history.nights(owner, history.EXTRACTOR)]
    spans = [(night, _span(night)) for night in sorted(found, key=lambda night: night.last, reverse=True)]
    return [
        (night, f"?{urlencode({'actor': night.by, **span})}", f"{page}?{urlencode({'by': night.by, **span})}")
        for night, span in spans
    ]


def _span(changes: AutomaticChanges | Night) -> dict[str, str]:
    return {"since": changes.first.isoformat(), "until": (changes.last + timedelta(microseconds=1)).isoformat()}


def _address_of(request: HttpRequest, filters: HistoryFilter, run: AutomaticChanges) -> str:
    asked = request.GET.copy()
    for name in ("after", "before"):
        asked.pop(name, None)
    asked["actor"] = filters.EVERYBODY
    for name, moment in _span(run).items():
        asked[name] = moment
    return f"?{asked.urlencode()}"


def _cursor(text: str) -> Cursor | None:
    """``2026-03-01T10:00:00+00:00,edit,42``; None for what nobody can read."""
    at, _comma, rest = text.partition(",")
    source, _comma, pk = rest.partition(",")
    moment = parsed_moment(at)
    if moment is None or source not in history.MODELS or not pk.isdecimal() or len(pk) > 18:
        return None
    return Cursor(moment, cast(Source, source), int(pk))


def parsed_moment(text: str) -> datetime | None:
    try:
        moment = parse_datetime(text.strip()) if text.isascii() else None
    except ValueError:
        return None
    return moment.replace(tzinfo=UTC) if moment and moment.tzinfo is None else moment


def _edges(found: history.HistoryPage) -> dict[str, str]:
    """Cursors for the links to the pages before and after."""
    if not found.entries:
        return {"before": "", "after": ""}
    first, last = (f"{c.at.isoformat()},{c.source},{c.pk}" for c in (e.cursor for e in _ends(found.entries)))
    return {"before": first if found.has_before else "", "after": last if found.has_after else ""}


def _ends(entries: Sequence[history.HistoryEntry]) -> tuple[history.HistoryEntry, history.HistoryEntry]:
    return entries[0], entries[-1]


def _chips(filters: HistoryFilter) -> list[tuple[str, str]]:
    """What narrows the list, by name and in words, each to be taken off."""
    chosen = {name: value for name, value in filters.chosen.items() if value}
    return [(name, f"{filters.fields[name].label or _('About')}: {_in_words(filters, name)}") for name in chosen]


def _in_words(filters: HistoryFilter, name: str) -> str:
    value, field = filters.chosen[name], filters.fields[name]
    if isinstance(value, datetime):
        return date_format(timezone.localtime(value), _("j M Y, H:i"))
    return str(dict(getattr(field, "choices", ())).get(value, value))


def _range_address(owner: ChatUser, filters: HistoryFilter) -> str:
    """Where everything listed can be taken back, when it is one person's."""
    if not filters.chosen["actor"]:
        return ""
    if filters.chosen["actor"] == filters.EVERYBODY:
        return ""
    query = {"by": filters.chosen["actor"]}
    query |= {name: filters.chosen[name].isoformat() for name in ("since", "until") if filters.chosen[name]}
    return f"{reverse('undo_range', args=[owner.pk])}?{urlencode(query)}"
