"""The queue: one suggestion at a time with its evidence, decided by a key; the next one follows at once. A suggestion
is leased to the person who looks at it for two minutes, and longer while the page is open. A decision answers htmx with
the next suggestion and a toast, and other clients with a redirect to it."""

from typing import Any, cast
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from memoryapp import curation
from memoryapp.curation import CurationError, suggestions
from memoryapp.curation.suggestions import consolidation, proposals
from memoryapp.curation.suggestions.proposals import ProposalError
from memoryapp.insight.browsing.comparison import compare
from memoryapp.models import ChatUser, Role, Suggestion, Topic, TopicEdit
from memoryapp.platform import work
from rerankui.curation import queue_page
from rerankui.curation.change_form import MODEL, failure_words, made_words, survivor, would_words
from rerankui.frame import toasts
from rerankui.frame.access import open_to, operator_of
from rerankui.frame.filters import ClusterFilter
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
    holder = queue_page.other_holder(decided, request.user)
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
        "mode": queue_page.consolidation_words(owner),
        "sentence": sentence,
        "progress": queue_page.pace(owner, actor),
        "last": queue_page.last_decided(owner, actor) if may_change else None,
        "is_partial": is_partial(request),
    }
    if current is not None:
        queue_page.note_opened(request, current)
        is_open = current.state == Suggestion.State.OPEN
        if may_change and is_open:
            suggestions.lease(current, _user(request))
        context["around"] = queue_page.around(owner, current, request.user)
        context |= {
            "holder": queue_page.other_holder(current, request.user) if is_open else "",
            **_evidence(owner, current),
        }
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
        return {**evidence, "opens": opens, "parts": queue_page.parts_of(owner, current)}
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


DECISIONS = queue_page.Decisions(
    "suggestion", "queue", Suggestion.State.OPEN, _suggestion_or_404, _page, suggestions.take_back
)
suggestion = DECISIONS.view(_decide)
suggestion_undo = DECISIONS.view(DECISIONS.undo)
suggestion_hold = DECISIONS.view(_hold)
suggestion_judge = DECISIONS.view(_judge)


# Clusters of suggested merges, each decided about as one.


SHOWN = 20
MOST_UNDONE = 200


@open_to(Role.VIEWER, post=Role.CURATOR)
def clusters(request: HttpRequest, owner: ChatUser) -> HttpResponse:
    """The clusters, the best first; posted, the ticked topics of one are decided, or all from a score on."""
    return _decide_clusters(request, owner) if request.method == "POST" else _clusters_page(request, owner)


def _clusters_page(request: HttpRequest, owner: ChatUser) -> HttpResponse:
    filters = ClusterFilter(request.GET)
    found = suggestions.clusters(owner)
    least = filters.least
    chosen = suggestions.clusters(owner, least)
    rows = sorted((row for cluster in chosen for row in cluster.rows), key=lambda row: -row.score)
    progress = queue_page.pace(owner, request.user.get_username())
    context: dict[str, Any] = {
        "owner": owner,
        "filters": filters,
        "least": least,
        "clusters": found[:SHOWN],
        "count": len(found),
        "more": len(found[SHOWN:]),
        "progress": progress,
        "minutes": round(len(found) * progress["seconds"] / 60) if progress["seconds"] else None,
        "from_score": len(rows),
        "merges": sum(cluster.fits for cluster in chosen),
        "too_large": sum(not cluster.fits for cluster in chosen),
        "sampled": queue_page.sampled(request, owner, rows, least),
        "may_change": operator_of(request).may(Role.CURATOR),
    }
    return render(request, "pages/clusters.html", context)


def _decide_clusters(request: HttpRequest, owner: ChatUser) -> HttpResponse:
    if "from" in request.POST:
        return _accept_from(request, owner)
    topics = ClusterFilter(request.POST).chosen["topics"] or []
    try:
        if request.POST.get("decision") == "merge":
            edit = suggestions.merge_cluster(owner, topics, cast(User, request.user))
            sentence = ngettext("%(n)d topic became one.", "%(n)d topics became one.", len(topics)) % {"n": len(topics)}
            _toast(request, owner, sentence, [edit])
        elif request.POST.get("decision") == "never":
            _decline(request, owner, topics)
        else:
            raise CurationError(_("Say whether to merge, or never to suggest it again."))
    except CurationError as error:
        messages.error(request, str(error))
    return redirect("clusters", owner.pk)


def _decline(request: HttpRequest, owner: ChatUser, topics: list[int]) -> None:
    declined = suggestions.decline_cluster(owner, topics, cast(User, request.user))
    if not declined:
        raise CurationError(_("Nothing was decided: tick what you mean."))
    sentence = ngettext(
        "%(n)d is rejected and not suggested again", "%(n)d are rejected and not suggested again", len(declined)
    )
    back = urlencode({"suggestion": declined}, doseq=True)
    address = f"{reverse('inbox_undo', args=[owner.pk])}?{back}"
    toasts.add(request, sentence % {"n": len(declined)}, address, _("Undo"))


def _accept_from(request: HttpRequest, owner: ChatUser) -> HttpResponse:
    """Merges all from a score on, if enough of them were looked at; whoever skips the page is asked to look."""
    filters = ClusterFilter(request.POST)
    here = f"{reverse('clusters', args=[owner.pk])}?{urlencode({'from': filters.least})}"
    rows = [row for cluster in suggestions.clusters(owner, filters.least) for row in cluster.rows]
    seen = queue_page.sampled(request, owner, rows, filters.least)
    if not rows or not seen.is_enough:
        messages.error(request, _("Open %(n)d of them first; nothing was merged.") % {"n": seen.needed or 1})
        return redirect(here)
    done = suggestions.accept_from(owner, filters.least, cast(User, request.user))
    n = len(done.edits)
    words = ngettext("%(n)d cluster is merged.", "%(n)d clusters are merged.", n) % {"n": n}
    if done.left:
        words += " " + ngettext("%(n)d is left open.", "%(n)d are left open.", done.left) % {"n": done.left}
    _toast(request, owner, words, done.edits)
    return redirect(here)


def _toast(request: HttpRequest, owner: ChatUser, sentence: str, edits: Any) -> None:
    if not edits:
        messages.info(request, sentence)
        return
    back = urlencode({"edit": [edit.pk for edit in edits]}, doseq=True)
    toasts.add(request, sentence, f"{reverse('clusters_undo', args=[owner.pk])}?{back}", _("Undo"))


@open_to(Role.VIEWER, post=Role.CURATOR)
def clusters_undo(request: HttpRequest, owner: ChatUser) -> HttpResponse:
    """Takes back every merge that the address names, when posted; opening it leads to the clusters."""
    return _take_back(request, owner) if request.method == "POST" else redirect("clusters", owner.pk)


def _take_back(request: HttpRequest, owner: ChatUser) -> HttpResponse:
    asked = [int(text) for text in request.GET.getlist("edit")[:MOST_UNDONE] if text.isdecimal() and len(text) < 19]
    edits = list(TopicEdit.objects.filter(owner=owner, pk__in=asked, kind=TopicEdit.Kind.MERGE))
    undone = suggestions.take_back_edits(owner, edits, actor=request.user.get_username())
    sentence = ngettext("%(n)d merge was undone.", "%(n)d merges were undone.", undone) % {"n": undone}
    if left := len(edits) - undone:
        sentence += " " + ngettext(
            "%(n)d stays, because it was undone already or a later change depends on it.",
            "%(n)d stay, because they were undone already or later changes depend on them.",
            left,
        ) % {"n": left}
    messages.success(request, sentence)
    return redirect("clusters", owner.pk)
