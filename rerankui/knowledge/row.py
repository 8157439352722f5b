"""One person, fact or artifact: looked at, written, edited, deleted, with its history beside it. The three nouns differ
in their fields and in nothing else, so they share their views; the address says which."""

from datetime import datetime
from typing import Any, cast

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _

from memoryapp import curation
from memoryapp.curation import CurationError, Stale, extraction, history, knowledge
from memoryapp.curation.history import Narrowing
from memoryapp.curation.knowledge import MODELS, Row
from memoryapp.insight.browsing.topics import mentions
from memoryapp.memory import past
from memoryapp.models import Artifact, ChatUser, Fact, KnowledgeEdit, Person, Role, Topic
from rerankui.frame import toasts
from rerankui.frame.access import open_to, operator_of
from rerankui.frame.rows import FORMS, RowForm, list_address, page_address, row_id, seen_json, values_of
from rerankui.frame.toasts import next_address, undo_address
from rerankui.history.entry_views import entry_views, field_rewordings
from rerankui.past.pages import absent, changes_then
from rerankui.web.moment import moment_of

HISTORY_SHOWN = 12
Noun = KnowledgeEdit.Noun


def row_or_404(owner: ChatUser, noun: str, pk: int) -> Row:
    return cast(Row, get_object_or_404(MODELS[noun]._default_manager.filter(owner=owner), pk=pk))


@open_to(Role.VIEWER)
def page(request: HttpRequest, owner: ChatUser, noun: str, **number: int) -> HttpResponse:
    """``number`` is the row's, by its noun: ``person=5``."""
    if moment := moment_of(request):
        return _page_then(request, owner, noun, number[noun], moment)
    row = row_or_404(owner, noun, number[noun])
    context = {**_context(request, owner, noun, row), "row": row}
    if isinstance(row, Person):
        context |= {"mentions": mentions(row), "merges": knowledge.merges_into(row)}
    if isinstance(row, Fact):
        context["holders"] = curation.heirs(owner.pk, [row.topic_id] if row.topic_id else [])
        context |= extraction.succession(row)
    if not isinstance(row, Artifact):
        context["sources"] = extraction.sources(owner, noun, row.pk)
    return render(request, f"pages/knowledge/{noun}.html", context)


def _page_then(request: HttpRequest, owner: ChatUser, noun: str, pk: int, moment: datetime) -> HttpResponse:
    """The row as it was at the moment, also one that was deleted since; what is found for it today is left out."""
    row = next((row for row in past.known_at(owner.pk, noun, moment) if row.pk == pk), None)
    if row is None:
        return absent(request, row_id(noun, pk), owner)
    changes = changes_then(owner, Narrowing(noun=noun, number=pk), moment, HISTORY_SHOWN)
    context: dict[str, Any] = {**_context(request, owner, noun, row), **changes, "row": row, "is_past": True}
    if isinstance(row, Fact):
        context["holders"] = past.holders_at(owner.pk, [row.topic_id] if row.topic_id else [], moment)
    return render(request, f"pages/knowledge/{noun}.html", context)


@open_to(Role.CURATOR, post=Role.CURATOR)
def edit(request: HttpRequest, owner: ChatUser, noun: str, **number: int) -> HttpResponse:
    row = row_or_404(owner, noun, number[noun])
    if request.method != "POST":
        return _form_page(request, owner, noun, FORMS[noun](row=row), row=row)
    form = FORMS[noun](request.POST)
    if not form.is_valid():
        return _form_page(request, owner, noun, form, row=row, status=422)
    authorship = {"actor": request.user.get_username(), "reason": form.cleaned_data["reason"]}
    try:
        made = knowledge.edit(owner, row, form.values, seen=form.cleaned_data["seen"], **authorship)
    except Stale as stale:
        return _overtaken(request, owner, noun, row, form, str(stale))
    except CurationError as error:
        return _form_page(request, owner, noun, form, row=row, sentence=str(error), status=422)
    toasts.add(request, _("Saved %(what)s") % {"what": row_id(noun, row.pk)}, undo_address(made), _("Undo"))
    return redirect(page_address(noun, owner.pk, row.pk))


def _overtaken(request: HttpRequest, owner: ChatUser, noun: str, row: Row, form: RowForm, said: str) -> HttpResponse:
    """Somebody saved first: their change is shown beside what was typed, which is kept and can still be saved."""
    row.refresh_from_db()
    current = values_of(noun, row)
    mine = form.over(current)
    again = FORMS[noun](data={**request.POST.dict(), **_as_sent(form, mine), "seen": seen_json(current)})
    again.is_valid()
    faster = KnowledgeEdit.objects.filter(owner=owner, noun=noun, after__has_key=str(row.pk)).first()
    context = {
        "faster": faster,
        "theirs": field_rewordings(noun, form.cleaned_data["seen"] or {}, current),
        "mine": field_rewordings(noun, current, mine),
    }
    return _form_page(request, owner, noun, again, row=row, sentence=said, status=409, **context)


def _as_sent(form: RowForm, values: dict[str, Any]) -> dict[str, Any]:
    return {name: form.fields[name].prepare_value(value) for name, value in values.items()}


@open_to(Role.CURATOR, post=Role.CURATOR)
def add(request: HttpRequest, owner: ChatUser, noun: str) -> HttpResponse:
    form = FORMS[noun](request.POST if request.method == "POST" else None)
    if request.method != "POST":
        return _form_page(request, owner, noun, form)
    if not form.is_valid():
        return _form_page(request, owner, noun, form, status=422)
    authorship = {"actor": request.user.get_username(), "reason": form.cleaned_data["reason"]}
    fixed: dict[str, Any] = {"created_at": timezone.now()} if noun == Noun.FACT else {}
    try:
        made = knowledge.create(owner, Noun(noun), form.values, **authorship, **fixed)
    except CurationError as error:
        return _form_page(request, owner, noun, form, sentence=str(error), status=422)
    [pk] = made.after
    toasts.add(request, _("Added %(what)s") % {"what": row_id(noun, pk)}, undo_address(made), _("Undo"))
    return redirect(page_address(noun, owner.pk, int(pk)))


@open_to(Role.CURATOR, post=Role.CURATOR)
def delete(request: HttpRequest, owner: ChatUser, noun: str, **number: int) -> HttpResponse:
    row = row_or_404(owner, noun, number[noun])
    sentence = ""
    if request.method == "POST":
        authorship = {"actor": request.user.get_username(), "reason": request.POST.get("reason", "").strip()}
        try:
            made = knowledge.delete(owner, row, **authorship)
        except CurationError as error:
            sentence = str(error)
        else:
            toasts.add(request, _("Deleted %(what)s") % {"what": row_id(noun, row.pk)}, undo_address(made), _("Undo"))
            return redirect(list_address(noun, owner.pk))
    context = {**_context(request, owner, noun, row), "row": row, "sentence": sentence}
    if isinstance(row, Person):
        context["mentions"] = mentions(row, most=3)
    return render(request, "pages/knowledge/row_delete.html", context, status=409 if sentence else 200)


@open_to(Role.CURATOR, post=Role.CURATOR)
def recall(request: HttpRequest, owner: ChatUser, noun: str, pk: int) -> HttpResponse:
    """How a topic, a person or a fact is recalled; when posted, a person decides it."""
    if noun not in knowledge.MOST_PINNED:
        raise Http404
    row, sentence = cast(Topic | Person | Fact, row_or_404(owner, noun, pk)), ""
    wanted, reason = request.POST.get("recall", row.recall), request.POST.get("reason", "").strip()
    if request.method == "POST":
        try:
            made = knowledge.decide_recall(owner, row, wanted, actor=request.user.get_username(), reason=reason)
        except CurationError as error:
            sentence = str(error)
        else:
            done = {"pinned": _("Pinned %(what)s"), "never": _("From now on never recalled: %(what)s")}
            words = done.get(wanted, _("Recalled as usual: %(what)s")) % {"what": row_id(noun, pk)}
            toasts.add(request, words, undo_address(made), _("Undo"))
            return redirect(next_address(request) or page_address(noun, owner.pk, pk))
    context = {**_context(request, owner, noun, row), "row": row, "back": page_address(noun, owner.pk, pk)}
    context |= {"chosen": wanted, "reason": reason, "sentence": sentence}
    return render(request, "pages/knowledge/row_recall.html", context, status=422 if sentence else 200)


def _form_page(
    request: HttpRequest,
    owner: ChatUser,
    noun: str,
    form: RowForm,
    *,
    row: Row | None = None,
    status: int = 200,
    **context: Any,
) -> HttpResponse:
    context |= {"form": form, "row": row, "back": _back(owner, noun, row), **_context(request, owner, noun, row)}
    return render(request, "pages/knowledge/row_form.html", context, status=status)


def _back(owner: ChatUser, noun: str, row: Row | None) -> str:
    return page_address(noun, owner.pk, row.pk) if row else list_address(noun, owner.pk)


def _context(request: HttpRequest, owner: ChatUser, noun: str, row: Row | None) -> dict[str, Any]:
    """What the pages of a row have in common, its last changes among it."""
    context: dict[str, Any] = {
        "owner": owner,
        "noun": noun,
        "noun_name": Noun(noun).label,
        "may_change": operator_of(request).may(Role.CURATOR),
        "may_erase": noun == Noun.PERSON and operator_of(request).may(Role.ADMIN),
        "list_address": list_address(noun, owner.pk),
    }
    if row is not None:
        found = history.page(owner, Narrowing(noun=noun, number=row.pk), HISTORY_SHOWN)
        context |= {
            "row_id": row_id(noun, row.pk),
            "changes": entry_views(found.entries),
            "has_older": found.has_after,
            "edit_address": f"{page_address(noun, owner.pk, row.pk)}edit/",
            "delete_address": f"{page_address(noun, owner.pk, row.pk)}delete/",
            "can_be_decided": noun in knowledge.MOST_PINNED and not getattr(row, "superseded_at", None),
        }
    return context
