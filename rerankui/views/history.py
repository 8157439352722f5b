"""The history of a memory, and every way back: one change, all of somebody's in a time, a whole import.

Each way back is looked at first, with what stands on it, and made by a form that says what was seen: when
something came in between, it is shown again instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, cast
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.formats import date_format
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods, require_safe

from memoryapp import curation, history, knowledge
from memoryapp.curation import CurationError, Depends
from memoryapp.history import Cursor, Record, Source
from memoryapp.models import ChatUser, ImportBatch, KnowledgeEdit, Role, TopicEdit
from rerankui.access import operator_of, owner_or_404, requires
from rerankui.changes import ours, toast
from rerankui.filters import HistoryFilter
from rerankui.pages import PAGE_SIZE, page_of, show
from rerankui.rewordings import told
from rerankui.views.work import panel_for

READS = ("GET", "HEAD", "POST")
BEGINNING = datetime(2000, 1, 1, tzinfo=UTC)
MOST_SHOWN = 100


@require_safe
def history_page(request: HttpRequest, owner: int) -> HttpResponse:
    """Everything that was changed, newest first."""
    of = owner_or_404(request, owner)
    filters = HistoryFilter(request.GET, actors=history.actors(of))
    asked = {name: _cursor(request.GET.get(name, "")) for name in ("after", "before")}
    found = history.page(of, filters.narrowing, PAGE_SIZE, **asked)
    context = {
        "owner": of,
        "filters": filters,
        "chips": _chips(filters),
        "rows": told(found.entries),
        "page": _edges(found),
        "may_change": operator_of(request).may(Role.CURATOR),
        "range": _range_address(of, filters),
        "machines": _machines(of, filters),
    }
    return show(request, "pages/history.html", "partials/history.html", context)


def _machines(owner: ChatUser, filters: HistoryFilter) -> dict[str, Any] | None:
    """What is folded away: how much, when the last of it was, and where all of it is listed."""
    if not filters.is_of_people:
        return None
    count, last = history.machines(owner)
    address = f"?{urlencode({'actor': filters.EVERYBODY})}"
    return {"count": count, "last": last, "address": address} if count else None


@require_http_methods(READS)
@requires(Role.CURATOR)
def undo_edit(request: HttpRequest, owner: int, edit: int) -> HttpResponse:
    of = owner_or_404(request, owner)
    return _undo(request, of, get_object_or_404(TopicEdit, owner=of, pk=edit))


@require_http_methods(READS)
@requires(Role.CURATOR)
def undo_change(request: HttpRequest, owner: int, change: int) -> HttpResponse:
    of = owner_or_404(request, owner)
    return _undo(request, of, get_object_or_404(KnowledgeEdit, owner=of, pk=change))


def _undo(request: HttpRequest, owner: ChatUser, record: Record) -> HttpResponse:
    """What undoing would do, and when posted the undo; with ``seen`` also of what stands on it."""
    shown = history.entry(owner, record)
    sentence, later = "", _dependents(record) if shown.can_be_undone else []
    if request.method == "POST":
        try:
            made = _undone(request, owner, record, later)
        except CurationError as error:
            sentence = str(error)
        else:
            _tell(request, made[-1])
            return redirect(ours(request, request.POST.get("next", "")) or reverse("history", args=[owner.pk]))
    context = {
        "owner": owner,
        "told": told([shown])[0],
        "later": told(history.entries(owner, later[:MOST_SHOWN])),
        "later_count": len(later),
        "seen": _seen(later),
        "sentence": sentence or _why_not(shown),
        "back": ours(request, request.POST.get("next", "") or request.GET.get("next", "")),
        "reason": request.POST.get("reason", ""),
    }
    return render(request, "pages/undo_preview.html", context, status=409 if sentence else 200)


def _dependents(record: Record) -> Sequence[Record]:
    if isinstance(record, TopicEdit):
        return curation.dependents(record)
    return knowledge.dependents(record)


def _undone(request: HttpRequest, owner: ChatUser, record: Record, later: Sequence[Record]) -> Sequence[Record]:
    said = {"actor": request.user.get_username(), "reason": request.POST.get("reason", "").strip()}
    if later and request.POST.get("seen") != _seen(later):
        raise Depends(_("Later changes stand on this one and have to be undone with it."), ())
    if isinstance(record, TopicEdit):
        return curation.undo_with_dependents(owner, record, **said)
    return knowledge.undo_with_dependents(owner, record, **said)


def _why_not(shown: history.Entry) -> str:
    if shown.can_be_undone:
        return ""
    if not shown.stands:
        return _("This change is undone already.")
    return _("Archiving is not undone; withdraw the import, or merge and split the topics.")


def _tell(request: HttpRequest, made: Record) -> None:
    first = made
    while first.undoes is not None:
        first = first.undoes
    what = {"what": first.get_kind_display()}
    stands = history.entry(made.owner, first).stands
    sentence, word = (_("Done again: %(what)s"), _("Undo")) if stands else (_("Undone: %(what)s"), _("Redo"))
    toast(request, sentence % what, undo_address(made), word)


def undo_address(record: Record) -> str:
    name = "undo_preview" if isinstance(record, TopicEdit) else "undo_change"
    return reverse(name, args=[record.owner_id, record.pk])


@require_http_methods(READS)
@requires(Role.CURATOR)
def undo_range(request: HttpRequest, owner: int) -> HttpResponse:
    """All that somebody changed between two times, looked at, and when posted taken back."""
    of = owner_or_404(request, owner)
    by, since, until = _range({**request.GET.dict(), **request.POST.dict()})
    context: dict[str, Any] = {"owner": of, "actors": history.actors(of), "by": by, "since": since, "until": until}
    try:
        wanted, blocking = history.standing_between(of, by, since, until) if by else ([], [])
        if request.method == "POST" and "seen" in request.POST:
            return _range_undone(request, of, wanted, by, since, until)
    except CurationError as error:
        context["sentence"] = str(error)
        wanted, blocking = history.standing_between(of, by, since, until) if isinstance(error, Depends) else ([], [])
    context |= {
        "count": len(wanted),
        "rows": told(history.entries(of, wanted[:MOST_SHOWN])),
        "blocking": told(history.entries(of, blocking[:MOST_SHOWN])),
        "seen": _seen(wanted),
    }
    return render(request, "pages/undo_range.html", context, status=409 if context.get("sentence") else 200)


def _range_undone(
    request: HttpRequest, owner: ChatUser, wanted: Sequence[Record], by: str, since: datetime, until: datetime
) -> HttpResponse:
    if request.POST.get("seen") != _seen(wanted):
        raise Depends(_("Something changed since this page was drawn; look at it once more."), ())
    said = {"actor": request.user.get_username(), "reason": request.POST.get("reason", "").strip()}
    made = history.undo_between(owner, by, since, until, **said)
    sentence = ngettext("Undone: %(n)d change of %(who)s", "Undone: %(n)d changes of %(who)s", len(made))
    back = {"by": said["actor"], "since": made[0].at.isoformat()}
    toast(
        request,
        sentence % {"n": len(made), "who": by},
        f"{reverse('undo_range', args=[owner.pk])}?{urlencode(back)}",
        _("Redo"),
    )
    return redirect("history", owner=owner.pk)


def _range(asked: Mapping[str, str]) -> tuple[str, datetime, datetime]:
    since, until = (_moment(asked.get(name, "")) for name in ("since", "until"))
    return asked.get("by", "").replace("\0", "")[:200], since or BEGINNING, until or timezone.now()


@require_safe
def imports(request: HttpRequest, owner: int) -> HttpResponse:
    of = owner_or_404(request, owner)
    page = page_of(request, ImportBatch.objects.filter(owner=of), ("-started_at", "-id"))
    context = {
        "owner": of,
        "page": page,
        "imports": history.imports(page.rows),
        "may_change": operator_of(request).may(Role.CURATOR),
        **panel_for(of),
    }
    return show(request, "pages/imports.html", "partials/imports.html", context)


@require_http_methods(READS)
@requires(Role.CURATOR)
def withdraw(request: HttpRequest, owner: int, batch: int) -> HttpResponse:
    """What withdrawing an import would do, in numbers, and when posted the withdrawal."""
    of = owner_or_404(request, owner)
    found = get_object_or_404(ImportBatch, owner=of, pk=batch)
    context: dict[str, Any] = {"owner": of, "batch": found, "held": history.imports([found])[0], "sentence": ""}
    try:
        if request.method == "POST":
            return _withdrawn(request, of, found)
        context["numbers"] = history.withdrawal(of, found)
    except CurationError as error:
        context["sentence"] = str(error)
    return render(request, "pages/withdraw.html", context, status=409 if request.method == "POST" else 200)


def _withdrawn(request: HttpRequest, owner: ChatUser, batch: ImportBatch) -> HttpResponse:
    reason = request.POST.get("reason", "").strip()
    edit = curation.withdraw(owner, batch, actor=request.user.get_username(), reason=reason)
    toast(request, _("Withdrew the import %(source)s") % {"source": batch.source}, undo_address(edit), _("Undo"))
    return redirect("history", owner=owner.pk)


def _seen(records: Sequence[Record]) -> str:
    """What a page showed, for its form to send back: by number, for others' changes come in between."""
    return ",".join(f"{'t' if isinstance(record, TopicEdit) else 'k'}{record.pk}" for record in records)


def _cursor(text: str) -> Cursor | None:
    """``2026-03-01T10:00:00+00:00,edit,42``; None for what nobody can read."""
    at, _comma, rest = text.partition(",")
    source, _comma, pk = rest.partition(",")
    moment = _moment(at)
    if moment is None or source not in history.MODELS or not pk.isdecimal() or len(pk) > 18:
        return None
    return Cursor(moment, cast(Source, source), int(pk))


def _moment(text: str) -> datetime | None:
    try:
        moment = parse_datetime(text.strip()) if text.isascii() else None
    except ValueError:
        return None
    return moment.replace(tzinfo=UTC) if moment and moment.tzinfo is None else moment


def _edges(found: history.Page) -> dict[str, str]:
    """Cursors for the links to the pages before and after."""
    if not found.entries:
        return {"before": "", "after": ""}
    first, last = (f"{c.at.isoformat()},{c.source},{c.pk}" for c in (e.cursor for e in _ends(found.entries)))
    return {"before": first if found.has_before else "", "after": last if found.has_after else ""}


def _ends(entries: Sequence[history.Entry]) -> tuple[history.Entry, history.Entry]:
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
    said = {"by": filters.chosen["actor"]}
    said |= {name: filters.chosen[name].isoformat() for name in ("since", "until") if filters.chosen[name]}
    return f"{reverse('undo_range', args=[owner.pk])}?{urlencode(said)}"
