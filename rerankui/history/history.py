"""The history of a memory, and the undo of one change, of all changes of a person in a period, or of an import. Each
undo is shown first, with the changes that depend on it, and made by a form that contains what was shown; if something
changed meanwhile, it is shown again instead."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
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

from memoryapp import curation
from memoryapp.curation import CurationError, Depends, history, knowledge
from memoryapp.curation.history import AutomaticChanges, Cursor, Night, Record, Source
from memoryapp.erasure.expiry import recent_batches
from memoryapp.models import ChatUser, KnowledgeEdit, Role, TopicEdit
from rerankui.curation.change_form import actor_words
from rerankui.frame import toasts
from rerankui.frame.access import open_to, operator_of, row_or_404
from rerankui.frame.filters import HistoryFilter
from rerankui.frame.pages import PAGE_SIZE, show
from rerankui.frame.rows import list_address, page_address
from rerankui.frame.toasts import next_address, undo_address
from rerankui.history.entry_views import entry_views, pairs_folded


@open_to(Role.VIEWER)
def history_page(request: HttpRequest, owner: ChatUser) -> HttpResponse:
    """Everything that was changed, newest first."""
    filters = HistoryFilter(request.GET, actors=history.actors(owner))
    asked = {name: _cursor(request.GET.get(name, "")) for name in ("after", "before")}
    found = history.page(owner, filters.narrowing, PAGE_SIZE, **asked)
    folded = _folded(request, owner, filters, found)
    # What narrows the list, by name and in words, each to be taken off.
    chosen = {name: value for name, value in filters.chosen.items() if value}
    context = {
        "owner": owner,
        "filters": filters,
        "chips": [(name, f"{filters.fields[name].label or _('About')}: {_in_words(filters, name)}") for name in chosen],
        "rows": list(zip(folded, pairs_folded(entry_views(found.entries)), strict=False)),
        "oldest": folded[-1],
        "page": _edges(found),
        "may_change": operator_of(request).may(Role.CURATOR),
        "range": _range_address(owner, filters),
        "expiring": recent_batches(ChatUser.objects.filter(pk=owner.pk)),
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
    """What the program merged and extracted by itself, newest first, with where it is listed and taken back."""
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
    first, last = (f"{c.at.isoformat()},{c.source},{c.pk}" for c in (found.entries[at].cursor for at in (0, -1)))
    return {"before": first if found.has_before else "", "after": last if found.has_after else ""}


def _in_words(filters: HistoryFilter, name: str) -> str:
    value, field = filters.chosen[name], filters.fields[name]
    if isinstance(value, datetime):
        return date_format(timezone.localtime(value), _("j M Y, H:i"))
    return str(dict(getattr(field, "choices", ())).get(value, value))


def _range_address(owner: ChatUser, filters: HistoryFilter) -> str:
    """Where everything listed can be taken back, when it is one person's."""
    if not filters.chosen["actor"] or filters.chosen["actor"] == filters.EVERYBODY:
        return ""
    query = {"by": filters.chosen["actor"]}
    query |= {name: filters.chosen[name].isoformat() for name in ("since", "until") if filters.chosen[name]}
    return f"{reverse('undo_range', args=[owner.pk])}?{urlencode(query)}"


# The undo of a change: what it would do, and when posted the undo itself. The undo of an undo redoes the change.
#
# Every undo in the program leads here: of topics, people, facts and artifacts, of one change or of all that a person
# made in a period. The form contains the later changes that the page showed (``seen``); if another one was made
# meanwhile, the page is shown again instead.

BEGINNING = datetime(2000, 1, 1, tzinfo=UTC)
MOST_SHOWN = 100


@open_to(Role.CURATOR, post=Role.CURATOR)
def undo_record(request: HttpRequest, owner: ChatUser, **number: int) -> HttpResponse:
    """``number`` is that of an ``edit`` of topics, or of a ``change`` of another row."""
    model: Any = TopicEdit if "edit" in number else KnowledgeEdit
    return _undo(request, owner, get_object_or_404(model, owner=owner, pk=next(iter(number.values()))))


@open_to(Role.CURATOR, post=Role.CURATOR)
def undo(request: HttpRequest, pk: int) -> HttpResponse:
    """``undo_record`` under an address without the chat user, which older links have."""
    edit = row_or_404(request, TopicEdit.objects.all(), pk)
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


@open_to(Role.CURATOR, post=Role.CURATOR)
def undo_range(request: HttpRequest, owner: ChatUser) -> HttpResponse:
    """All that somebody changed between two times, looked at, and when posted taken back."""
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
