"""The review: the archivist's findings, one at a time beside their messages, decided by a key.

A decision answers htmx with the next finding and a toast, and other clients with a redirect to it. The address says to
which topic and noun the review is narrowed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_safe

from memoryapp import extraction
from memoryapp.curation import CurationError
from memoryapp.models import ChatUser, Finding, Role
from memoryapp.suggestions.proposals import is_model_connected
from rerankui import toasts
from rerankui.access import operator_of, owner_or_404
from rerankui.curation.decisions import Decisions
from rerankui.curation.views.review_page import around, pace, review_of
from rerankui.filters import ReviewFilter
from rerankui.pages import is_partial, show
from rerankui.rows import FORMS, RowForm


@require_safe
def review(request: HttpRequest, owner_id: int) -> HttpResponse:
    """The first finding that waits."""
    owner = owner_or_404(request, owner_id)
    return _page(request, owner, extraction.next_waiting(owner, wanted=ReviewFilter(request.GET).wanted))


def _decide(request: HttpRequest, owner: ChatUser, found: Finding) -> HttpResponse:
    form = FORMS[found.noun](request.POST)
    if request.POST.get("decision") in ("answer", "back"):
        return _ask_about_answer(request, owner, found, form)
    if request.POST.get("decision") in ("confirm", "both") and not form.is_valid():
        return _page(request, owner, found, form=form, status=422)
    try:
        sentence = _carry_out(request, found, form)
    except CurationError as error:
        found.refresh_from_db()
        return _page(request, owner, found, form=form, sentence=str(error), status=422)
    return _onward(request, owner, found, sentence)


def _ask_about_answer(request: HttpRequest, owner: ChatUser, found: Finding, form: RowForm) -> HttpResponse:
    """Whether to reject all that waits from the same answer, or the finding again when that was not meant."""
    asked = [] if request.POST["decision"] == "back" else list(extraction.waiting_of_answer(found))
    return _page(request, owner, found, form=form, answer=asked)


def _onward(request: HttpRequest, owner: ChatUser, found: Finding, sentence: str) -> HttpResponse:
    """The next finding, with a toast that can undo the decision."""
    address = reverse("finding_undo", args=[owner.pk, found.pk]) + _query(request)
    toasts.add(request, sentence, address, _("Undo"))
    wanted = ReviewFilter(request.GET).wanted
    return DECISIONS.onward(request, owner, extraction.next_waiting(owner, found.pk, wanted))


def _carry_out(request: HttpRequest, found: Finding, form: RowForm) -> str:
    """What was done, in words. Raises CurationError; then nothing is decided."""
    actor, decision = request.user.get_username(), request.POST.get("decision")
    if decision == "reject":
        extraction.reject(found, actor=actor)
        return _("Rejected: it will not be found again")
    if decision == "reject_answer":
        return _reject_answer(found, request.POST.get("answer", ""), actor)
    if decision == "merge":
        into = request.POST.get("into", "")
        if not into.isdecimal() or len(into) > 18:
            raise CurationError(_("Choose what it is the same as."))
        extraction.merge(found, int(into), actor=actor)
        return _("Merged: %(what)s") % {"what": found}
    if decision not in ("confirm", "both"):
        raise CurationError(_("Say whether to confirm, to reject or to merge it."))
    typed = form.over(form.cleaned_data["seen"] or form.values)
    is_changed = typed != {name: (form.cleaned_data["seen"] or {}).get(name) for name in typed}
    extraction.confirm(found, actor=actor, values=typed if is_changed else None, keep_both=decision == "both")
    return _("Confirmed: %(what)s") % {"what": found}


def _reject_answer(found: Finding, shown: str, actor: str) -> str:
    """``shown`` are the numbers of the findings in the question, with commas."""
    seen = [int(number) for number in shown.split(",") if number.isdecimal() and len(number) <= 18]
    n = extraction.reject_answer(found, seen, actor=actor)
    return ngettext(
        "Rejected: %(n)d finding of an answer, it will not be found again",
        "Rejected: %(n)d findings of an answer, they will not be found again",
        n,
    ) % {"n": n}


def _page(
    request: HttpRequest,
    owner: ChatUser,
    current: Finding | None,
    *,
    form: RowForm | None = None,
    sentence: str = "",
    status: int = 200,
    answer: Sequence[Finding] = (),
) -> HttpResponse:
    actor, may_change = request.user.get_username(), operator_of(request).may(Role.CURATOR)
    filters = ReviewFilter(request.GET)
    context: dict[str, Any] = {
        "owner": owner,
        "filters": filters,
        "query": filters.query,
        "left_here": extraction.waiting(owner, filters.wanted).count(),
        "may_change": may_change,
        "sentence": sentence,
        "left": extraction.waiting(owner).count(),
        "seconds": pace(owner, actor),
        "last": extraction.last_decided(owner, actor) if may_change else None,
        "is_partial": is_partial(request),
        "has_model": is_model_connected(),
        "backlog": extraction.backlog(owner),
    }
    if current is not None:
        context |= _current(owner, current, filters, form) | {"answer": answer}
    return show(request, "pages/review.html", "partials/review/review.html", context, status=status)


def _current(owner: ChatUser, current: Finding, filters: ReviewFilter, form: RowForm | None) -> dict[str, Any]:
    view = review_of(owner, current)
    return {
        "current": view,
        "around": around(owner, current, filters.wanted),
        "form": form or _form(view.finding, view.values),
        "of_answer": extraction.waiting_of_answer(current).count(),
    }


def _query(request: HttpRequest) -> str:
    return ReviewFilter(request.GET).query


def _form(found: Finding, values: dict[str, Any]) -> RowForm:
    return FORMS[found.noun](initial={**values, "seen": values})


def _finding_or_404(owner: ChatUser, pk: int) -> Finding:
    return get_object_or_404(Finding.objects.filter(owner=owner).select_related("topic", "follows", "edit"), pk=pk)


DECISIONS = Decisions("finding", "review", Finding.State.WAITING, _finding_or_404, _page, extraction.take_back, _query)
finding = DECISIONS.view(_decide)
finding_undo = DECISIONS.view(DECISIONS.undo)
