"""The queue: one suggestion at a time with its evidence, decided by a key; the next one follows at once.

A suggestion is leased to the person who looks at it for two minutes, and longer while the page is open. A decision
answers htmx with the next suggestion and a toast, and other clients with a redirect to it.
"""

from typing import Any, cast
from urllib.parse import urlencode

from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from memoryapp import curation
from memoryapp.curation import CurationError, suggestions
from memoryapp.curation.suggestions import consolidation, proposals
from memoryapp.curation.suggestions.proposals import ProposalError
from memoryapp.insight.browsing.comparison import compare
from memoryapp.models import ChatUser, Role, Suggestion, Topic
from memoryapp.platform import work
from rerankui.curation.change_form import MODEL, failure_words, made_words, survivor, would_words
from rerankui.curation.queue_page import (
    Decisions,
    around,
    consolidation_words,
    last_decided,
    note_opened,
    other_holder,
    pace,
    parts_of,
)
from rerankui.frame import toasts
from rerankui.frame.access import open_to, operator_of
from rerankui.frame.pages import is_partial, show


@open_to(Role.VIEWER, post=Role.CURATOR)
def queue(request: HttpRequest, owner: ChatUser) -> HttpResponse:
    """The first suggestion that nobody else holds; posted, new ones are looked for before."""
    return _update(request, owner) if request.method == "POST" else _page(request, owner, _first(request, owner))


def _first(request: HttpRequest, owner: ChatUser) -> Suggestion | None:
    """Returns the first free suggestion, leased, for somebody who decides; for others the first of all."""
    if operator_of(request).may(Role.CURATOR):
        return suggestions.next_open(owner, _user(request))
    return suggestions.opened(owner).first()


def _update(request: HttpRequest, owner: ChatUser) -> HttpResponse:
    made = suggestions.suggest(owner)
    sentence = ngettext("%(n)d new suggestion.", "%(n)d new suggestions.", made) % {"n": made}
    if not is_partial(request):
        return redirect("queue", owner_id=owner.pk)
    return _page(request, owner, _first(request, owner), sentence=sentence)


def _decide(request: HttpRequest, owner: ChatUser, decided: Suggestion) -> HttpResponse:
    holder = other_holder(decided, request.user)
    if holder:
        sentence = _("%(holder)s works on this one right now; nothing was decided.") % {"holder": holder}
        return _page(request, owner, decided, sentence=sentence, status=422)
    try:
        _carry_out(request, owner, decided)
    except CurationError as error:
        return _page(request, owner, decided, sentence=str(error), status=422)
    return DECISIONS.onward(request, owner, suggestions.next_open(owner, _user(request), after=decided))


def _carry_out(request: HttpRequest, owner: ChatUser, decided: Suggestion) -> None:
    """Raises CurationError, Stale; then nothing is decided."""
    actor, back = request.user.get_username(), reverse("suggestion_undo", args=[owner.pk, decided.pk])
    if request.POST.get("decision") == "never":
        suggestions.decide(decided, Suggestion.State.NEVER, actor=actor)
        toasts.add(request, _("This will not be suggested again"), back, _("Undo"))
        return
    if request.POST.get("decision") != "merge" or decided.kind != Suggestion.Kind.MERGE:
        raise CurationError(_("Say whether to merge, or never to suggest it again."))
    topics = list(Topic.objects.of(owner).filter(pk__in=decided.topics))
    chosen, written = request.POST.get("from", ""), request.POST.get("summary", "").strip()
    wanted = survivor(owner, topics, chosen, written, _proposed_summary(decided)).request
    made = curation.make(wanted, actor=actor, accepts=[decided], call=decided.call)
    toasts.add(request, made_words(wanted, made.change), back, _("Undo"))


def _hold(request: HttpRequest, owner: ChatUser, shown: Suggestion) -> HttpResponse:
    """A page that is still looked at keeps its suggestion."""
    suggestions.lease(shown, _user(request))
    return HttpResponse(status=204)


def _judge(request: HttpRequest, owner: ChatUser, shown: Suggestion) -> HttpResponse:
    """The merger judges this one, for the person who asks."""
    topics = list(Topic.objects.of(owner).live().filter(pk__in=shown.topics).order_by("started_at", "pk"))
    if shown.kind != Suggestion.Kind.MERGE or len(topics) < 2:
        return _page(request, owner, shown, sentence=_("Its topics no longer exist."), status=422)
    if paused := work.pause_sentence(consolidation.CONSOLIDATE, owner):
        return _page(request, owner, shown, sentence=paused, status=422)
    try:
        consolidation.keep_verdict(shown, proposals.merge_judged(owner, topics, request.user.get_username()))
    except ProposalError as error:
        return _page(request, owner, shown, sentence=failure_words(error), status=422)
    return _page(request, owner, _suggestion_or_404(owner, shown.pk))


def _proposed_summary(suggestion: Suggestion) -> str:
    """The merger's summary; empty where it has judged nothing, or would keep the topics apart."""
    verdict = suggestions.verdict_of(suggestion)
    return verdict.summary if verdict else ""


def _page(
    request: HttpRequest, owner: ChatUser, current: Suggestion | None, *, sentence: str = "", status: int = 200
) -> HttpResponse:
    actor, may_change = request.user.get_username(), operator_of(request).may(Role.CURATOR)
    context: dict[str, Any] = {
        "owner": owner,
        "current": current,
        "may_change": may_change,
        "mode": consolidation_words(owner),
        "sentence": sentence,
        "progress": pace(owner, actor),
        "last": last_decided(owner, actor) if may_change else None,
        "is_partial": is_partial(request),
    }
    if current is not None:
        note_opened(request, current)
        is_open = current.state == Suggestion.State.OPEN
        if may_change and is_open:
            suggestions.lease(current, _user(request))
        context["around"] = around(owner, current, request.user)
        context |= {"holder": other_holder(current, request.user) if is_open else "", **_evidence(owner, current)}
    return show(request, "pages/curation/queue.html", "partials/curation/queue.html", context, status=status)


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
        proposed = _proposed_summary(current)
        kept = survivor(owner, topics, MODEL if proposed else "", proposed=proposed)
        evidence |= {"proposed": proposed, "check": _check(current)}
        evidence |= {"survivor": kept, "would": would_words(kept.request, kept.change)}
    return evidence


def _check(current: Suggestion) -> str:
    """Whether the merger has judged the suggestion, or will; empty without a chat model."""
    return suggestions.check_of(current).value if proposals.is_model_connected() else ""


def _question(current: Suggestion) -> str:
    if current.kind == Suggestion.Kind.SPLIT:
        return _("Are these several topics?")
    return _("Are these one topic?")


def _suggestion_or_404(owner: ChatUser, pk: int) -> Suggestion:
    rows = Suggestion.objects.filter(owner=owner).select_related("held_by", "edit", "call").defer("call__events")
    return get_object_or_404(rows, pk=pk)


def _user(request: HttpRequest) -> User:
    return cast(User, request.user)


DECISIONS = Decisions("suggestion", "queue", Suggestion.State.OPEN, _suggestion_or_404, _page, suggestions.take_back)
suggestion = DECISIONS.view(_decide)
suggestion_undo = DECISIONS.view(DECISIONS.undo)
suggestion_hold = DECISIONS.view(_hold)
suggestion_judge = DECISIONS.view(_judge)
