"""The undo of a change: what it would do, and when posted the undo itself. The undo of an undo redoes the change.

Every undo in the program leads here: of topics, people, facts and artifacts, of one change or of all that a person made
in a period. The form contains the later changes that the page showed (``seen``); if another one was made meanwhile, the
page is shown again instead.
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
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods

from memoryapp import curation, history, knowledge
from memoryapp.curation import CurationError, Depends
from memoryapp.history import Record
from memoryapp.models import ChatUser, KnowledgeEdit, Role, TopicEdit
from rerankui import toasts
from rerankui.access import Request, owner_or_404, requires, visible_owners
from rerankui.addresses import next_address, undo_address
from rerankui.curation.change_words import actor_words
from rerankui.history.entry_views import entry_views
from rerankui.history.history import parsed_moment
from rerankui.rows import list_address, page_address

READS = ("GET", "HEAD", "POST")
BEGINNING = datetime(2000, 1, 1, tzinfo=UTC)
MOST_SHOWN = 100


@require_http_methods(READS)
@requires(Role.CURATOR)
def undo_edit(request: HttpRequest, owner_id: int, edit: int) -> HttpResponse:
    owner = owner_or_404(request, owner_id)
    return _undo(request, owner, get_object_or_404(TopicEdit, owner=owner, pk=edit))


@require_http_methods(READS)
@requires(Role.CURATOR)
def undo_change(request: HttpRequest, owner_id: int, change: int) -> HttpResponse:
    owner = owner_or_404(request, owner_id)
    return _undo(request, owner, get_object_or_404(KnowledgeEdit, owner=owner, pk=change))


@require_http_methods(READS)
@requires(Role.CURATOR)
def undo(request: HttpRequest, pk: int) -> HttpResponse:
    """``undo_edit`` under an address without the chat user, which older links have."""
    seen = TopicEdit.objects.filter(owner__in=visible_owners(request))
    edit = get_object_or_404(seen.select_related("owner"), pk=pk)
    cast(Request, request).owner = edit.owner
    return _undo(request, edit.owner, edit)


def _undo(request: HttpRequest, owner: ChatUser, record: Record) -> HttpResponse:
    shown = history.entry(owner, record)
    sentence, later = "", _dependents(record) if shown.can_be_undone else []
    back = next_address(request)
    if request.method == "POST":
        try:
            made = _undone(request, owner, record, later)[-1]
        except CurationError as error:
            sentence = str(error)
        else:
            _show_toast(request, made, back)
            return redirect(back or _address_after(made))
    context = {
        "owner": owner,
        "shown": entry_views([shown])[0],
        "later": entry_views(history.entries(owner, later[:MOST_SHOWN])),
        "later_count": len(later),
        "seen": _fingerprint(later),
        "sentence": sentence or _why_not(shown),
        "back": back,
        "reason": request.POST.get("reason", ""),
    }
    return render(request, "pages/history/undo.html", context, status=409 if sentence else 200)


def _dependents(record: Record) -> Sequence[Record]:
    if isinstance(record, TopicEdit):
        return curation.dependents(record)
    return knowledge.dependents(record)


def _undone(request: HttpRequest, owner: ChatUser, record: Record, later: Sequence[Record]) -> Sequence[Record]:
    by = {"actor": request.user.get_username(), "reason": request.POST.get("reason", "").strip()}
    if later and request.POST.get("seen") != _fingerprint(later):
        raise Depends(_("Later changes depend on this one and have to be undone with it."), ())
    return history.undo_with_dependents(owner, record, **by)


def _why_not(shown: history.HistoryEntry) -> str:
    if shown.can_be_undone:
        return ""
    if not shown.stands:
        return _("This change is undone already.")
    return _("Archiving is not undone; withdraw the import, or merge and split the topics.")


def _show_toast(request: HttpRequest, made: Record, back: str) -> None:
    first = made
    while first.undoes is not None:
        first = first.undoes
    what = {"what": first.get_kind_display()}
    stands = history.entry(made.owner, first).stands
    sentence, word = (_("Done again: %(what)s"), _("Undo")) if stands else (_("Undone: %(what)s"), _("Redo"))
    toasts.add(request, sentence % what, undo_address(made, back), word)


def _address_after(made: Record) -> str:
    """Returns the default address afterwards: the restored topic or row, else their list."""
    if isinstance(made, TopicEdit):
        back = curation.first_taken_out(made.undoes) if made.undoes else None
        return reverse("topic", args=[back.pk]) if back else reverse("topics", args=[made.owner_id])
    number = next((int(number) for number, values in made.after.items() if values is not None), None)
    if number is None:
        return list_address(made.noun, made.owner_id)
    return page_address(made.noun, made.owner_id, number)


@require_http_methods(READS)
@requires(Role.CURATOR)
def undo_range(request: HttpRequest, owner_id: int) -> HttpResponse:
    """All that somebody changed between two times, looked at, and when posted taken back."""
    owner = owner_or_404(request, owner_id)
    by, since, until = _range({**request.GET.dict(), **request.POST.dict()})
    context: dict[str, Any] = {
        "owner": owner,
        "actors": history.actors(owner),
        "by": by,
        "since": since,
        "until": until,
    }
    try:
        wanted, blocking = history.standing_between(owner, by, since, until) if by else ([], [])
        if request.method == "POST" and "seen" in request.POST:
            return _range_undone(request, owner, wanted, by, since, until)
    except CurationError as error:
        context["sentence"] = str(error)
        wanted, blocking = history.standing_between(owner, by, since, until) if isinstance(error, Depends) else ([], [])
    context |= {
        "count": len(wanted),
        "rows": entry_views(history.entries(owner, wanted[:MOST_SHOWN])),
        "blocking": entry_views(history.entries(owner, blocking[:MOST_SHOWN])),
        "seen": _fingerprint(wanted),
    }
    return render(request, "pages/history/undo_range.html", context, status=409 if context.get("sentence") else 200)


def _range_undone(
    request: HttpRequest, owner: ChatUser, wanted: Sequence[Record], by: str, since: datetime, until: datetime
) -> HttpResponse:
    if request.POST.get("seen") != _fingerprint(wanted):
        raise Depends(_("Something changed since this page was loaded; check it again."), ())
    undone_by = {"actor": request.user.get_username(), "reason": request.POST.get("reason", "").strip()}
    made = history.undo_between(owner, by, since, until, **undone_by)
    sentence = ngettext("Undone: %(n)d change of %(who)s", "Undone: %(n)d changes of %(who)s", len(made))
    back = {"by": undone_by["actor"], "since": made[0].at.isoformat()}
    toasts.add(
        request,
        sentence % {"n": len(made), "who": actor_words(by)},
        f"{reverse('undo_range', args=[owner.pk])}?{urlencode(back)}",
        _("Redo"),
    )
    return redirect("history", owner_id=owner.pk)


def _range(asked: Mapping[str, str]) -> tuple[str, datetime, datetime]:
    since, until = (parsed_moment(asked.get(name, "")) for name in ("since", "until"))
    return asked.get("by", "").replace("\0", "")[:200], since or BEGINNING, until or timezone.now()


def _fingerprint(records: Sequence[Record]) -> str:
    """What a page showed, for its form to send back: by number, for others' changes come in between."""
    return ",".join(f"{'t' if isinstance(record, TopicEdit) else 'k'}{record.pk}" for record in records)
