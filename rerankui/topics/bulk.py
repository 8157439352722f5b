"""Work on many topics: what it would take, how far it is, and the buttons that stop it and take it back."""

from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from memoryapp.curation import CurationError
from memoryapp.curation import bulk as works
from memoryapp.models import BulkTopic, BulkWork, ChatUser, Role
from rerankui.frame.access import open_to, operator_of
from rerankui.frame.pages import page_of, show
from rerankui.topics.topics import TOPICS, TopicFilter

MOST_FAULTS = 50


@open_to(Role.CURATOR, post=Role.CURATOR)
def bulk(request: HttpRequest, owner: ChatUser) -> HttpResponse:
    """The works of this memory; with chosen topics, what each kind of work on them would take. Posted, one begins."""
    if request.method == "POST":
        return _begin(request, owner)
    chosen = _chosen(request, owner)
    page = page_of(request, BulkWork.objects.filter(owner=owner), ("-id", "-id"))
    context: dict[str, Any] = {
        "owner": owner,
        "page": page,
        "chosen": chosen,
        "most": works.MOST_TOPICS,
        "forecasts": works.forecast(owner, chosen) if chosen else [],
    }
    return show(request, "pages/bulk/bulk.html", "partials/bulk/bulk.html", context)


def _chosen(request: HttpRequest, owner: ChatUser) -> list[int]:
    """The numbers of the picked topics; with ``all``, of those that the list with these filters shows."""
    if request.GET.get("all"):
        found = TOPICS.matching(owner, request.GET).order_by("ended_at", "pk").values_list("pk", flat=True)
        return list(found[: works.MOST_TOPICS + 1])
    return TopicFilter(request.GET).chosen["topics"] or []


def _begin(request: HttpRequest, owner: ChatUser) -> HttpResponse:
    topics = TopicFilter(request.POST).chosen["topics"] or []
    kind = request.POST.get("kind", "")
    try:
        if kind not in BulkWork.Kind.values:
            raise CurationError(_("Say what is to be done with the topics."))
        made = works.ask(owner, topics, BulkWork.Kind(kind), request.user.get_username())
    except CurationError as error:
        messages.error(request, str(error))
        return redirect(f"{reverse('bulk', args=[owner.pk])}?{urlencode({'topics': ','.join(map(str, topics))})}")
    return redirect("bulk_work", owner.pk, made.pk)


@open_to(Role.VIEWER, post=Role.CURATOR)
def bulk_work(request: HttpRequest, owner: ChatUser, bulkwork: int) -> HttpResponse:
    """How far it is; posted, it is stopped or taken back."""
    work = get_object_or_404(BulkWork.objects.select_related("owner"), owner=owner, pk=bulkwork)
    return _change(request, work) if request.method == "POST" else _page(request, work)


def _page(request: HttpRequest, work: BulkWork) -> HttpResponse:
    faults = work.rows.exclude(fault="").select_related("topic").order_by("pk")
    context = {
        "owner": work.owner,
        "work": work,
        "progress": works.progress(work),
        "faults": faults[:MOST_FAULTS],
        "is_going_on": work.state == BulkWork.State.GOING_ON,
        "waits": BulkTopic.State.WAITING,
        "may_change": operator_of(request).may(Role.CURATOR),
    }
    return show(request, "pages/bulk/bulk_work.html", "partials/bulk/bulk_work.html", context)


def _change(request: HttpRequest, work: BulkWork) -> HttpResponse:
    if "undo" in request.POST:
        undone, left = works.undo(work, actor=request.user.get_username())
        sentence = ngettext("%(n)d change was undone.", "%(n)d changes were undone.", undone) % {"n": undone}
        if left:
            sentence += " " + ngettext(
                "%(n)d stays, because it was undone already or a later change depends on it.",
                "%(n)d stay, because they were undone already or later changes depend on them.",
                left,
            ) % {"n": left}
        messages.success(request, sentence)
    elif works.stop(work):
        messages.success(request, _("Stopped: what is done stays, and nothing more is begun."))
    return redirect("bulk_work", work.owner_id, work.pk)
