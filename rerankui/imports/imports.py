"""Imports: what became of each, and the withdrawal of one, looked at in numbers before it is made."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_safe

from memoryapp import history
from memoryapp.curation import CurationError
from memoryapp.models import ChatUser, ImportBatch, ImportFile, Role
from rerankui import toasts
from rerankui.access import operator_of, owner_or_404, requires
from rerankui.addresses import undo_address
from rerankui.imports.import_file import upload_form
from rerankui.pages import page_of, show
from rerankui.pipeline.work import panel_for

MOST_FILES = 20


@require_safe
def imports(request: HttpRequest, owner_id: int) -> HttpResponse:
    owner = owner_or_404(request, owner_id)
    page = page_of(request, ImportBatch.objects.filter(owner=owner), ("-started_at", "-id"))
    files = ImportFile.objects.filter(owner=owner).exclude(state=ImportFile.State.DONE)
    context = {
        "owner": owner,
        "page": page,
        "imports": history.imports(page.rows),
        "may_change": operator_of(request).may(Role.CURATOR),
        "files": files[:MOST_FILES],
        "more_files": max(0, files.count() - MOST_FILES),
        **upload_form(request, owner),
        **panel_for(owner),
    }
    return show(request, "pages/imports/imports.html", "partials/imports/imports.html", context)


@require_http_methods(("GET", "HEAD", "POST"))
@requires(Role.CURATOR)
def withdraw(request: HttpRequest, owner_id: int, batch: int) -> HttpResponse:
    """What withdrawing an import would do, in numbers, and when posted the withdrawal."""
    owner = owner_or_404(request, owner_id)
    found = get_object_or_404(ImportBatch, owner=owner, pk=batch)
    context: dict[str, Any] = {"owner": owner, "batch": found, "sentence": ""}
    try:
        if request.method == "POST":
            return _withdrawn(request, owner, found)
        context["numbers"] = history.withdrawal(owner, found)
    except CurationError as error:
        context["sentence"] = str(error)
    return render(request, "pages/imports/withdraw.html", context, status=409 if request.method == "POST" else 200)


def _withdrawn(request: HttpRequest, owner: ChatUser, batch: ImportBatch) -> HttpResponse:
    reason = request.POST.get("reason", "").strip()
    edit = history.withdraw(owner, batch, actor=request.user.get_username(), reason=reason)
    back = reverse("history", args=[owner.pk])
    sentence = _("Withdrew the import %(source)s") % {"source": batch.source}
    toasts.add(request, sentence, undo_address(edit, back), _("Undo"))
    return redirect(back)
