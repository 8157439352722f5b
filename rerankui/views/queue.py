"""The queue: one suggestion at a time with its evidence, decided by a key, and the next one is there at once.

Whoever looks at a suggestion holds it for two minutes, and longer while the page is open. A decision answers
htmx with the next suggestion and a toast, and anybody else with a redirect to it.
"""

from __future__ import annotations

from typing import Any, cast
from urllib.parse import urlencode

from django.contrib.auth.models import User
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods
from django_htmx.http import push_url

from memoryapp import curation, suggestions
from memoryapp.comparison import compare
from memoryapp.curation import CurationError, Depends
from memoryapp.models import ChatUser, Role, Suggestion, Topic, TopicEdit
from rerankui.access import Request, operator_of, owner_or_404, requires
from rerankui.change_words import made_words, would_words
from rerankui.changes import toast
from rerankui.pages import show
from rerankui.queueing import around, last_decided, other_holder, pace, parts_of
from rerankui.survivors import survivor

READS = ("GET", "HEAD", "POST")


@require_http_methods(READS)
def queue(request: HttpRequest, owner: int) -> HttpResponse:
    """The first suggestion that nobody else holds; posted, new ones are looked for before."""
    of = owner_or_404(request, owner)
    answer: HttpResponse = _update(request, of) if request.method == "POST" else _page(request, of, _first(request, of))
    return answer


def _first(request: HttpRequest, owner: ChatUser) -> Suggestion | None:
    """For who decides the first that is free, to be held; for who only looks the first of all."""
    if operator_of(request).may(Role.CURATOR):
        return suggestions.next_open(owner, _user(request))
    return suggestions.opened(owner).first()


@requires(Role.CURATOR)
def _update(request: HttpRequest, owner: ChatUser) -> HttpResponse:
    made = suggestions.suggest(owner)
    said = ngettext("%(n)d new suggestion.", "%(n)d new suggestions.", made) % {"n": made}
    if not _is_partial(request):
        return redirect("queue", owner=owner.pk)
    return _page(request, owner, _first(request, owner), sentence=said)


@require_http_methods(READS)
def suggestion(request: HttpRequest, owner: int, pk: int) -> HttpResponse:
    """One suggestion; posted, the decision about it, which leads to the next."""
    of = owner_or_404(request, owner)
    shown = _suggestion_or_404(of, pk)
    answer: HttpResponse = _decide(request, of, shown) if request.method == "POST" else _page(request, of, shown)
    return answer


@requires(Role.CURATOR)
def _decide(request: HttpRequest, owner: ChatUser, decided: Suggestion) -> HttpResponse:
    holder = other_holder(decided, request.user)
    if holder:
        said = _("%(holder)s works on this one right now; nothing was decided.") % {"holder": holder}
        return _page(request, owner, decided, sentence=said, status=422)
    try:
        _carry_out(request, owner, decided)
    except CurationError as error:
        return _page(request, owner, decided, sentence=str(error), status=422)
    return _onward(request, owner, suggestions.next_open(owner, _user(request), after=decided))


@transaction.atomic
def _carry_out(request: HttpRequest, owner: ChatUser, decided: Suggestion) -> None:
    """Raises CurationError, Stale; then nothing is decided."""
    actor, back = request.user.get_username(), reverse("suggestion_undo", args=[owner.pk, decided.pk])
    if request.POST.get("decision") == "never":
        suggestions.decide(decided, Suggestion.State.NEVER, actor=actor)
        toast(request, _("This will not be suggested again"), back, _("Undo"))
        return
    if request.POST.get("decision") != "merge" or decided.kind != Suggestion.Kind.MERGE:
        raise CurationError(_("Say whether to merge, or never to suggest it again."))
    topics = list(Topic.objects.of(owner).filter(pk__in=decided.topics))
    chosen, written = request.POST.get("from", ""), request.POST.get("summary", "").strip()
    change = survivor(owner, topics, chosen, written).change
    edit = curation.swap(owner, change, kind=TopicEdit.Kind.MERGE, actor=actor)
    suggestions.decide(decided, Suggestion.State.ACCEPTED, actor=actor, edit=edit)
    toast(request, made_words(edit.kind, change), back, _("Undo"))


def _onward(request: HttpRequest, owner: ChatUser, following: Suggestion | None) -> HttpResponse:
    address = reverse("suggestion", args=[owner.pk, following.pk]) if following else reverse("queue", args=[owner.pk])
    if not _is_partial(request):
        return redirect(address)
    return push_url(_page(request, owner, following), address)


@require_http_methods(READS)
def suggestion_undo(request: HttpRequest, owner: int, pk: int) -> HttpResponse:
    """Posted, takes the decision back; either way the suggestion is shown."""
    of = owner_or_404(request, owner)
    shown = _suggestion_or_404(of, pk)
    answer: HttpResponse = _undo(request, of, shown) if request.method == "POST" else _page(request, of, shown)
    return answer


@requires(Role.CURATOR)
def _undo(request: HttpRequest, owner: ChatUser, decided: Suggestion) -> HttpResponse:
    if decided.state != Suggestion.State.OPEN:
        try:
            _take_back(request, owner, decided)
        except Depends:
            return redirect(f"{reverse('undo', args=[decided.edit_id])}?{urlencode({'next': request.path})}")
        except CurationError as error:
            return _page(request, owner, decided, sentence=str(error), status=422)
    return redirect("suggestion", owner=owner.pk, pk=decided.pk)


@transaction.atomic
def _take_back(request: HttpRequest, owner: ChatUser, taken_back: Suggestion) -> None:
    edit = taken_back.edit
    if edit is not None and curation.in_effect(owner.pk, [edit.pk]).get(edit.pk):
        curation.undo(owner, edit, actor=request.user.get_username())
    suggestions.reopen(taken_back)


@require_http_methods(READS)
def suggestion_hold(request: HttpRequest, owner: int, pk: int) -> HttpResponse:
    """Posted by a page that is still looked at; otherwise the suggestion is shown."""
    of = owner_or_404(request, owner)
    shown = _suggestion_or_404(of, pk)
    answer: HttpResponse = _hold(request, shown) if request.method == "POST" else _page(request, of, shown)
    return answer


@requires(Role.CURATOR)
def _hold(request: HttpRequest, held: Suggestion) -> HttpResponse:
    suggestions.hold(held, _user(request))
    return HttpResponse(status=204)


def _page(
    request: HttpRequest, owner: ChatUser, current: Suggestion | None, *, sentence: str = "", status: int = 200
) -> HttpResponse:
    actor, may_change = request.user.get_username(), operator_of(request).may(Role.CURATOR)
    context: dict[str, Any] = {
        "owner": owner,
        "current": current,
        "may_change": may_change,
        "sentence": sentence,
        "progress": pace(owner, actor),
        "last": last_decided(owner, actor) if may_change else None,
        "is_partial": _is_partial(request),
    }
    if current is not None:
        is_open = current.state == Suggestion.State.OPEN
        if may_change and is_open:
            suggestions.hold(current, _user(request))
        context["around"] = around(owner, current, request.user)
        context |= {"holder": other_holder(current, request.user) if is_open else "", **_evidence(owner, current)}
    return show(request, "pages/queue.html", "partials/queue.html", context, status=status)


def _evidence(owner: ChatUser, current: Suggestion) -> dict[str, Any]:
    """The topics beside each other, why they are suggested, and what would come out."""
    known = Topic.objects.of(owner).in_bulk(current.topics)
    topics = [known[number] for number in current.topics if number in known]
    evidence: dict[str, Any] = {
        "question": _question(current),
        "reasons": suggestions.reasons(current),
        "columns": compare(owner, topics).columns if topics else (),
    }
    if not all(topic.is_live for topic in topics):
        return evidence
    back = reverse("suggestion", args=[owner.pk, current.pk])
    if current.kind == Suggestion.Kind.SPLIT:
        sent = {"op": "split", "topics": current.topics, "at": ",".join(map(str, current.evidence.get("at", [])))}
        asked = urlencode({**sent, "next": back, "suggestion": current.pk}, doseq=True)
        opens = f"{reverse('change', args=[owner.pk])}?{asked}"
        return {**evidence, "opens": opens, "parts": parts_of(owner, current)}
    asked = urlencode({"topics": current.topics, "next": back, "suggestion": current.pk}, doseq=True)
    evidence["opens"] = f"{reverse('merge', args=[owner.pk])}?{asked}"
    if len(topics) > 1:
        kept = survivor(owner, topics, "")
        evidence |= {"survivor": kept, "would": would_words(TopicEdit.Kind.MERGE, kept.change)}
    return evidence


def _question(current: Suggestion) -> str:
    if current.kind == Suggestion.Kind.SPLIT:
        return _("Are these several topics?")
    return _("Are these one topic?")


def _suggestion_or_404(owner: ChatUser, pk: int) -> Suggestion:
    rows = Suggestion.objects.filter(owner=owner).select_related("held_by", "edit")
    return get_object_or_404(rows, pk=pk)


def _is_partial(request: HttpRequest) -> bool:
    htmx = cast(Request, request).htmx
    return bool(htmx) and not htmx.history_restore_request


def _user(request: HttpRequest) -> User:
    return cast(User, request.user)
