"""Artifacts: files that were sent, with what was understood of them."""

from __future__ import annotations

import mimetypes
from datetime import datetime

from django.conf import settings
from django.contrib import messages
from django.db.models import Q
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, redirect
from django.template.defaultfilters import filesizeformat
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods, require_safe

from memoryapp import past
from memoryapp.artifacts import arrival, processing
from memoryapp.models import Artifact, ChatUser, KnowledgeEdit, Role
from memoryapp.operations.storage import NoSpace
from rerankui.access import operator_of, owner_or_404, requires
from rerankui.addresses import next_address
from rerankui.filters import ArtifactFilter
from rerankui.lists import of_items
from rerankui.lists.downloads import download
from rerankui.lists.facets import counted, is_narrowed, narrowed
from rerankui.pages import is_partial, page_of, show
from rerankui.past.lists import file_of_rows, page_of_rows, with_words
from rerankui.web import uploads
from rerankui.web.moment import moment_of
from rerankui.web.uploads import Received

READS = ("GET", "HEAD", "POST")


@require_safe
def artifacts(request: HttpRequest, owner_id: int) -> HttpResponseBase:
    owner = owner_or_404(request, owner_id)
    filters = ArtifactFilter(request.GET)
    if moment := moment_of(request):
        return _artifacts_then(request, owner, filters, moment)
    listed = Artifact.objects.filter(owner=owner).select_related("message")
    words = filters.chosen["q"]
    if words:
        contents = (
            Q(text__icontains=words)
            | Q(summary__icontains=words)
            | Q(keywords__icontains=words)
            | Q(entities__icontains=words)
        )
        listed = listed.filter(Q(name__icontains=words) | contents)
    if filters.chosen["state"]:
        listed = listed.filter(state=filters.chosen["state"])
    facets = of_items.artifact_facets()
    found = narrowed(listed, facets, request.GET)
    if file := download(request, found, of_items.ARTIFACTS, filters.order, f"artifacts-{owner.pk}"):
        return file
    context = {
        "owner": owner,
        "filters": filters,
        "page": page_of(request, found, filters.order),
        "total": found.count(),
        "facets": counted(request, listed, facets),
        "is_narrowed": filters.is_narrowed or is_narrowed(facets, request.GET),
        "is_partial": is_partial(request),
        "may_change": operator_of(request).may(Role.CURATOR),
        "ticket": uploads.ticket(owner.pk, int(request.user.pk or 0)),
        "most": _most(),
    }
    return show(request, "pages/knowledge/artifacts.html", "partials/knowledge/artifacts.html", context)


def _artifacts_then(
    request: HttpRequest, owner: ChatUser, filters: ArtifactFilter, moment: datetime
) -> HttpResponseBase:
    """The files that had come by the moment."""
    rows: list[Artifact] = past.known_at(owner.pk, KnowledgeEdit.Noun.ARTIFACT, moment)
    found = with_words(
        rows, filters.chosen["q"], lambda row: (row.name, row.summary, *row.keywords, *map(str, row.entities))
    )
    if state := filters.chosen["state"]:
        found = [row for row in found if row.state == state]
    if file := file_of_rows(request, found, of_items.ARTIFACTS, filters.order, f"artifacts-{owner.pk}"):
        return file
    page = page_of_rows(request, found, filters.order)
    context = {"owner": owner, "filters": filters, "page": page, "total": len(found), "is_past": True}
    context["is_partial"] = is_partial(request)
    return show(request, "pages/knowledge/artifacts.html", "partials/knowledge/artifacts.html", context)


@csrf_exempt
@require_http_methods(READS)
def artifact_upload(request: HttpRequest, owner_id: int, ticket: str) -> HttpResponse:
    """Accepts files, which are read within seconds; the ticket replaces the CSRF token, see ``uploads``."""
    owner = owner_or_404(request, owner_id)
    if request.method == "POST":
        _take_over(request, owner, ticket)
    return redirect("artifacts", owner.pk)


@requires(Role.CURATOR)
def _take_over(request: HttpRequest, owner: ChatUser, ticket: str) -> None:
    if not uploads.admits(ticket, owner.pk, int(request.user.pk or 0)):
        messages.error(request, _("This page was open for too long; choose the file once more."))
        return
    try:
        with uploads.receive(request) as found:
            for file in found:
                _put(request, owner, file)
    except NoSpace as error:
        messages.error(request, str(error))
        return
    if not found:
        sentence = _("No file arrived: choose one of at most %(size)s that is not empty.")
        messages.error(request, sentence % {"size": _most()})


def _put(request: HttpRequest, owner: ChatUser, file: Received) -> None:
    if not 0 < file.size <= settings.MEDIA_MAX_BYTES:
        sentence = _("%(name)s was not accepted: a file must not be empty and may have at most %(size)s.")
        messages.error(request, sentence % {"name": file.name, "size": _most()})
        return
    mime_type = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    row, is_new = arrival.put(owner, file.name, mime_type, file.path.read_bytes())
    if is_new:
        messages.success(request, _("%(name)s is read within seconds.") % {"name": row.name})
    else:
        messages.info(request, _("%(name)s is here already.") % {"name": row.name})


def _most() -> str:
    return filesizeformat(settings.MEDIA_MAX_BYTES)


@require_http_methods(READS)
def artifact_retry(request: HttpRequest, owner_id: int, artifact: int) -> HttpResponse:
    """Has the file read once more, when posted."""
    owner = owner_or_404(request, owner_id)
    row = get_object_or_404(Artifact, owner=owner, pk=artifact)
    if request.method == "POST":
        _read_again(request, row)
    return redirect(next_address(request) or reverse("artifact", args=[owner.pk, row.pk]))


@requires(Role.CURATOR)
def _read_again(request: HttpRequest, row: Artifact) -> None:
    processing.retry(row)
    messages.success(request, _("%(name)s is read again within seconds.") % {"name": row.name})
