"""The review: the archivist's findings, one at a time beside their messages, decided by a key. A decision answers htmx
with the next finding and a toast, and other clients with a redirect to it. The address says to which topic and noun the
review is narrowed."""

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any

from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from memoryapp.curation import CurationError, extraction
from memoryapp.curation.knowledge import Row
from memoryapp.curation.suggestions.proposals import is_model_connected
from memoryapp.models import ChatUser, Fact, Finding, Message, Person, Role
from rerankui.curation.queue_page import Around, Decisions, seconds_each
from rerankui.frame import toasts
from rerankui.frame.access import open_to, operator_of
from rerankui.frame.filters import ReviewFilter
from rerankui.frame.pages import is_partial, show
from rerankui.frame.rows import FORMS, RowForm, values_of
from rerankui.history.entry_views import field_rewordings
from rerankui.text.markdown import marked

# A finding as the review page shows it: its text, what it would change, and rows that may be the same.

LISTED_BEFORE = 4
LISTED_AFTER = 16
MOST_ALIKE = 5
_LEAST_NAME = 3
DOUBTS: Mapping[extraction.Doubt, Promise] = {
    "form": gettext_lazy("It contains markup or an instruction, or is not in the language of the talk."),
    "assistant": gettext_lazy("Only the assistant says this; no person wrote it."),
    "unsaid": gettext_lazy("Its messages do not say the marked words, or not of this person."),
    "contradicted": gettext_lazy("Its messages say otherwise."),
    "other": gettext_lazy("Somebody else says this, and of themselves."),
    "health": gettext_lazy("It is about health."),
    "identity": gettext_lazy("It says who somebody is."),
    "important": gettext_lazy("It would stand in every prompt."),
    "end": gettext_lazy("It says that something ended, or is not so."),
    "name": gettext_lazy("It is another name of a known person, or no name of a person."),
}


def doubt_in_words(finding: Finding, messages: Sequence[Message], target: Row | None) -> tuple[str, SafeString] | None:
    """Why the finding waits, and what was found with the words marked that its messages lack; None if they say it."""
    if not messages:
        return None
    doubt, standing = extraction.doubt_of(finding, messages, target)
    if not doubt:
        return None
    found = [finding.values.get(name) for name in ("content", "display_name", "username", "bio")]
    text = " · ".join(filter(None, (*found[:2], *finding.values.get("aliases", ()), *found[2:])))
    return str(DOUBTS[doubt]), marked(text, (*standing.missing, *standing.turned))


def around(owner: ChatUser, current: Finding, wanted: Q) -> Around[Finding]:
    rows = extraction.waiting(owner, wanted)
    before = list(rows.filter(pk__lt=current.pk).order_by("-pk")[: LISTED_BEFORE + 1])[::-1]
    after = list(rows.filter(pk__gt=current.pk)[: LISTED_AFTER + 1])
    here = [current] if current.state == Finding.State.WAITING else []
    listed_before, listed_after = before[-LISTED_BEFORE:], after[:LISTED_AFTER]
    return Around(
        listed=(*listed_before, *here, *listed_after),
        above=rows.filter(pk__lt=current.pk).count() - len(listed_before),
        below=rows.filter(pk__gt=current.pk).count() - len(listed_after),
        previous=before[-1].pk if before else None,
        next=after[0].pk if after else None,
    )


def pace(owner: ChatUser, actor: str) -> int | None:
    """The seconds that a decision of this person takes, lately; None before the second one."""
    return seconds_each(Finding.objects.filter(owner=owner, decided_by=actor))


def review_of(owner: ChatUser, finding: Finding) -> dict[str, Any]:
    """``target`` is the row that the finding would change, ``values`` are the resulting ones, ``rewordings`` the
    differences; ``alike`` are rows that may be the same, and ``has_namesake`` says that one of them has the same
    name."""
    target = extraction.target_of(finding)
    values = extraction.outcome(finding, target)
    alike = _alike(owner, finding)
    has_namesake = target is None and any(_share_a_name(finding, row) for row in alike)
    messages = extraction.messages_of([finding]).get(finding.pk, [])
    return {
        "finding": finding,
        "question": _question(finding, target, has_namesake),
        "target": target,
        "values": values,
        "rewordings": field_rewordings(finding.noun, values_of(finding.noun, target), values) if target else [],
        "alike": alike,
        "has_namesake": has_namesake,
        "messages": messages,
        "doubt": doubt_in_words(finding, messages, target),
    }


def _question(finding: Finding, target: Row | None, has_namesake: bool) -> str:
    if finding.noun == "fact":
        if target and finding.stored is not None:
            return _("Both facts are in the memory. Is the new one true instead of the other?")
        return _("Is this true now, instead of the stored fact?") if target else _("Is this so?")
    if target:
        return _("Does this belong to them?")
    if has_namesake:
        return _("Is this the same person as one in the memory, or a namesake?")
    return _("Is this somebody to remember?")


def _share_a_name(finding: Finding, row: Row) -> bool:
    """Whether the found person and the person in the memory have a whole name in common."""
    names = {name.casefold() for name in (finding.values.get("display_name") or "", *finding.values.get("aliases", ()))}
    return isinstance(row, Person) and not names.isdisjoint(str(n).casefold() for n in (row.display_name, *row.aliases))


def _alike(owner: ChatUser, finding: Finding) -> list[Row]:
    """The rows the archivist found near, then those with a common name or of the same relation."""
    model: type[Fact] | type[Person] = Fact if finding.noun == "fact" else Person
    near = model._default_manager.filter(owner=owner).in_bulk(finding.alike)
    found: list[Row] = [near[number] for number in finding.alike if number in near]
    wanted = _common(finding)
    if wanted and len(found) < MOST_ALIKE:
        more = model._default_manager.filter(wanted, owner=owner).exclude(pk__in=[*finding.alike, finding.stored or 0])
        found += list(more.order_by("pk")[: MOST_ALIKE - len(found)])
    return found


def _common(finding: Finding) -> Q | None:
    if finding.noun == "fact":
        relation = finding.values.get("relation")
        return Q(relation=relation, superseded_at__isnull=True) if relation else None
    names = (finding.values.get("display_name") or "", *finding.values.get("aliases", ()))
    words = [word for name in names for word in name.split() if len(word) >= _LEAST_NAME]
    return reduce(or_, (Q(display_name__icontains=w) | Q(aliases__icontains=w) for w in words)) if words else None


@open_to(Role.VIEWER)
def review(request: HttpRequest, owner: ChatUser) -> HttpResponse:
    """The first finding that waits."""
    return _page(request, owner, extraction.next_waiting(owner, wanted=ReviewFilter(request.GET).wanted))


def _decide(request: HttpRequest, owner: ChatUser, found: Finding) -> HttpResponse:
    form = FORMS[found.noun](request.POST)
    if request.POST.get("decision") in ("answer", "back"):
        asked = [] if request.POST["decision"] == "back" else list(extraction.waiting_of_answer(found))
        return _page(request, owner, found, form=form, answer=asked)
    if request.POST.get("decision") in ("confirm", "both") and not form.is_valid():
        return _page(request, owner, found, form=form, status=422)
    try:
        sentence = _carry_out(request, found, form)
    except CurationError as error:
        found.refresh_from_db()
        return _page(request, owner, found, form=form, sentence=str(error), status=422)
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
        view = review_of(owner, current)
        context |= {
            "current": view,
            "around": around(owner, current, filters.wanted),
            "form": form or FORMS[current.noun](initial={**view["values"], "seen": view["values"]}),
            "of_answer": extraction.waiting_of_answer(current).count(),
            "answer": answer,
        }
    return show(request, "pages/review.html", "partials/review/review.html", context, status=status)


def _query(request: HttpRequest) -> str:
    return ReviewFilter(request.GET).query


def _finding_or_404(owner: ChatUser, pk: int) -> Finding:
    return get_object_or_404(Finding.objects.filter(owner=owner).select_related("topic", "follows", "edit"), pk=pk)


DECISIONS = Decisions("finding", "review", Finding.State.WAITING, _finding_or_404, _page, extraction.take_back, _query)
finding = DECISIONS.view(_decide)
finding_undo = DECISIONS.view(DECISIONS.undo)
