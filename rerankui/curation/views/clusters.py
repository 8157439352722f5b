"""Clusters of similar topics: each is one decision with ticks, and all from a score on are one after ten samples."""

from typing import Any, cast
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from memoryapp.curation import CurationError, suggestions
from memoryapp.curation.suggestions.queue import AcceptedClusters
from memoryapp.models import ChatUser, Role, TopicEdit
from rerankui.curation.queue_page import pace, sampled
from rerankui.frame import toasts
from rerankui.frame.access import open_to, operator_of
from rerankui.frame.filters import ClusterFilter

SHOWN = 20
MOST_UNDONE = 200


@open_to(Role.VIEWER, post=Role.CURATOR)
def clusters(request: HttpRequest, owner: ChatUser) -> HttpResponse:
    """The clusters, the best first; posted, the ticked topics of one are decided, or all from a score on."""
    return _decide(request, owner) if request.method == "POST" else _page(request, owner)


def _page(request: HttpRequest, owner: ChatUser) -> HttpResponse:
    filters = ClusterFilter(request.GET)
    found = suggestions.clusters(owner)
    least = filters.least
    chosen = suggestions.clusters(owner, least)
    rows = sorted((row for cluster in chosen for row in cluster.rows), key=lambda row: -row.score)
    progress = pace(owner, request.user.get_username())
    context: dict[str, Any] = {
        "owner": owner,
        "filters": filters,
        "least": least,
        "clusters": found[:SHOWN],
        "count": len(found),
        "more": len(found[SHOWN:]),
        "progress": progress,
        "minutes": round(len(found) * progress.seconds / 60) if progress.seconds else None,
        "from_score": len(rows),
        "merges": sum(cluster.fits for cluster in chosen),
        "too_large": sum(not cluster.fits for cluster in chosen),
        "sampled": sampled(request, owner, rows, least),
        "may_change": operator_of(request).may(Role.CURATOR),
    }
    return render(request, "pages/clusters.html", context)


def _decide(request: HttpRequest, owner: ChatUser) -> HttpResponse:
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
    seen = sampled(request, owner, rows, filters.least)
    if not rows or not seen.is_enough:
        messages.error(request, _("Open %(n)d of them first; nothing was merged.") % {"n": seen.needed or 1})
        return redirect(here)
    done = suggestions.accept_from(owner, filters.least, cast(User, request.user))
    _toast(request, owner, _done_words(done), done.edits)
    return redirect(here)


def _done_words(done: AcceptedClusters) -> str:
    n = len(done.edits)
    words = ngettext("%(n)d cluster is merged.", "%(n)d clusters are merged.", n) % {"n": n}
    if done.left:
        words += " " + ngettext("%(n)d is left open.", "%(n)d are left open.", done.left) % {"n": done.left}
    return words


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
