"""Imports: what became of each, and the withdrawal of one, looked at in numbers before it is made."""

from typing import Any, cast

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _

from memoryapp.curation import CurationError, history
from memoryapp.models import ChatUser, ImportBatch, ImportFile, Role
from memoryapp.platform.accounts import operators
from rerankui.frame import toasts
from rerankui.frame.access import open_to, operator_of
from rerankui.frame.forms import MemoryForm
from rerankui.frame.pages import page_of, show
from rerankui.frame.toasts import undo_address
from rerankui.imports.import_file import largest_file, upload_form
from rerankui.pipeline.work import panel_for
from rerankui.web import uploads

MOST_FILES = 20


@open_to(Role.VIEWER)
def imports(request: HttpRequest, owner: ChatUser) -> HttpResponse:
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


@open_to(Role.CURATOR, post=Role.CURATOR)
def withdraw(request: HttpRequest, owner: ChatUser, batch: int) -> HttpResponse:
    """What withdrawing an import would do, in numbers, and when posted the withdrawal."""
    found = get_object_or_404(ImportBatch, owner=owner, pk=batch)
    context: dict[str, Any] = {"owner": owner, "batch": found, "sentence": ""}
    try:
        if request.method == "POST":
            reason = request.POST.get("reason", "").strip()
            edit = history.withdraw(owner, found, actor=request.user.get_username(), reason=reason)
            back = reverse("history", args=[owner.pk])
            sentence = _("Withdrew the import %(source)s") % {"source": found.source}
            toasts.add(request, sentence, undo_address(edit, back), _("Undo"))
            return redirect(back)
        context["numbers"] = history.withdrawal(owner, found)
    except CurationError as error:
        context["sentence"] = str(error)
    return render(request, "pages/imports/withdraw.html", context, status=409 if request.method == "POST" else 200)


# A new memory: a name, and the chat file with which it begins.


@open_to(Role.CURATOR, post=Role.CURATOR)
def memory_make(request: HttpRequest) -> HttpResponse:
    """The form of a new memory; a post makes it and leads to where its first file is given.

    A script that has the file already gets the address to which it may send it, or a sentence.
    """
    form = MemoryForm(request.POST if request.method == "POST" else None)
    has_script = "X-Upload" in request.headers
    if form.is_valid():
        made = operators.make_memory(form.cleaned_data["name"], operator_of(request), by=cast(User, request.user))
        if has_script:
            ticket = uploads.ticket(made.pk, int(request.user.pk or 0))
            there = reverse("import_upload", args=[made.pk, ticket])
            return HttpResponse(status=201, headers={"Location": there})
        messages.success(request, _("The memory of %(name)s exists now. Give it a chat.") % {"name": made})
        return redirect("imports", made.pk)
    if form.is_bound and has_script:
        return HttpResponse(
            " ".join(map(str, form.errors["name"])), status=422, content_type="text/plain; charset=utf-8"
        )
    context = {"form": form, "most_bytes": settings.IMPORT_MAX_BYTES, "most": largest_file()}
    return render(request, "pages/imports/memory_make.html", context, status=422 if form.is_bound else 200)
