"""Artifacts: files that were sent, with what was understood of them."""

import mimetypes
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.template.defaultfilters import filesizeformat
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.csrf import csrf_exempt

from memoryapp.intake import artifacts
from memoryapp.models import Artifact, ChatUser, KnowledgeEdit, Role
from memoryapp.platform.storage import NoSpace
from rerankui.frame.access import open_to
from rerankui.frame.filters import Filter, choice
from rerankui.frame.pages import Page
from rerankui.frame.toasts import next_address
from rerankui.knowledge.facts import RowList
from rerankui.lists.facets import Facet, of_month, of_project
from rerankui.lists.list_page import AskedList
from rerankui.text.words import file_type
from rerankui.web import uploads
from rerankui.web.uploads import Received


class ArtifactFilter(Filter):
    placeholder = gettext_lazy("Search names and contents")
    SORTS = {
        "newest": ("-created_at", "-id"),
        "oldest": ("created_at", "id"),
        "largest": ("-size_bytes", "-id"),
        "name": ("name", "id"),
    }
    WORDS = ("name", "text", "summary", "keywords", "entities")
    state = choice(gettext_lazy("State"), gettext_lazy("any state"), list(Artifact.State.choices), by="state")


class ArtifactList(RowList[Artifact, ArtifactFilter]):
    title = gettext_lazy("Artifacts")
    name, noun = "artifacts", KnowledgeEdit.Noun.ARTIFACT
    form = ArtifactFilter
    columns = {
        "id": "pk",
        "name": "name",
        "type": "file_type",
        "bytes": "size_bytes",
        "summary": "summary",
        "keywords": "keywords",
        "entities": "entities",
        "state": "state",
        "created_at": "created_at",
    }
    partial = "partials/knowledge/artifacts.html"

    def facets(self, asked: AskedList[ArtifactFilter]) -> tuple[Facet, ...]:
        return (
            Facet("kind", gettext_lazy("Type"), "file_type", lambda value: str(file_type(value))),
            Facet("is", gettext_lazy("State"), "state", dict(Artifact.State.choices)),
            of_project(),
            of_month("month", gettext_lazy("Month"), "created_at"),
        )

    def more(self, asked: AskedList[ArtifactFilter], page: Page[Artifact], found: Any) -> dict[str, Any]:
        return {"ticket": uploads.ticket(asked.owner.pk, int(asked.request.user.pk or 0)), "most": _most()}


ARTIFACTS = ArtifactList()


@csrf_exempt
@open_to(Role.VIEWER, post=Role.CURATOR)
def artifact_upload(request: HttpRequest, owner: ChatUser, ticket: str) -> HttpResponse:
    """Accepts files, which are read within seconds; the ticket replaces the CSRF token, see ``uploads``."""
    if request.method == "POST":
        _take_over(request, owner, ticket)
    return redirect("artifacts", owner.pk)


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
    row, is_new = artifacts.put(owner, file.name, mime_type, file.path.read_bytes())
    if is_new:
        messages.success(request, _("%(name)s is read within seconds.") % {"name": row.name})
    else:
        messages.info(request, _("%(name)s is here already.") % {"name": row.name})


def _most() -> str:
    return filesizeformat(settings.MEDIA_MAX_BYTES)


@open_to(Role.VIEWER, post=Role.CURATOR)
def artifact_retry(request: HttpRequest, owner: ChatUser, artifact: int) -> HttpResponse:
    """Has the file read once more, when posted."""
    row = get_object_or_404(Artifact, owner=owner, pk=artifact)
    if request.method == "POST":
        artifacts.retry(row)
        messages.success(request, _("%(name)s is read again within seconds.") % {"name": row.name})
    return redirect(next_address(request) or reverse("artifact", args=[owner.pk, row.pk]))
